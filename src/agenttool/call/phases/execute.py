"""Phase 8: run the tool in the caller's task, with timeouts and cancellation."""

from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import final

from agenttool.call.call import Call
from agenttool.call.checkpoint import ensure_checkpoint, flush, save_running_checkpoint
from agenttool.call.evidence import scheduled
from agenttool.call.failures import error_of_crash, refuse_if_stopped, valid_error
from agenttool.call.running import (
    ENDED_EARLY,
    RUNNING,
    WITHIN,
    drive_tool,
    end_early,
    lend_credentials,
    mask_credentials,
    pause,
    run_outside,
    run_stoppable,
    send_and_wait,
)
from agenttool.call.tool import Tool
from agenttool.codec import clone
from agenttool.errors import CredentialMissing, ToolFailure
from agenttool.journal import steps
from agenttool.records import ErrorClass, InvocationStatus, JsonObject, Live, Phase, ToolError
from agenttool.results.failure import complete_error, guided
from agenttool.scheduler.retry import next_attempt

_PHASE = Phase.EXECUTE
_JUDGED = steps.JUDGED
_LAUNCHED = steps.LAUNCHED


@final
class PendingOutput(Live, eq=False, gc=False):
    """A run that did not end at once: await `coroutine` for its native output."""

    coroutine: Coroutine[object, object, object]


def start_tool(call: Call, tool: Tool, call_input: JsonObject) -> object:
    """Start the tool; return its native output, or a `PendingOutput` if it has to wait.

    Raises:
        ToolFailure: canceled; and the exceptions of the tool before its first wait.
    """
    if call.stop_state is not None:
        refuse_if_stopped(call)
    call.phase = _PHASE
    call.final_input = call_input
    if call.unwritten is _JUDGED and tool.has_common_start:
        call.unwritten = _LAUNCHED
        call.started_ns = call.core.now_ns()
    else:
        _record_start(call)
    if tool.needs_run_loop or (call.core.durable and _must_be_stored(call, tool)):
        return PendingOutput(_publish_and_run(call, tool, call_input))
    return _start_once(call, tool)


def _must_be_stored(call: Call, tool: Tool) -> bool:
    """Return whether the start must be on disk before the tool runs.

    A tool without effects may run earlier, unless the store already has the call or its key.
    """
    return tool.has_effects or call.has_checkpoint or (call.background is not None and call.background.is_known)


def _start_once(call: Call, tool: Tool) -> object:
    """Start one run of the tool; return its native output, or a `PendingOutput` if it waits for something.

    The code of the tool may make a call that waits for the permit of this one: a deadlock. `WITHIN` has the call, so
    that this is detected.
    """
    token = WITHIN.set((*WITHIN.get(), call.invocation_id))
    RUNNING[call.invocation_id] = call
    try:
        output = _start_work(call, tool)
    finally:
        WITHIN.reset(token)
        RUNNING.pop(call.invocation_id, None)
    return PendingOutput(_run_within(call, output.coroutine)) if type(output) is PendingOutput else output


async def _run_within(call: Call, running: Coroutine[object, object, object]) -> object:
    token = WITHIN.set((*WITHIN.get(), call.invocation_id))
    RUNNING[call.invocation_id] = call
    try:
        return await running
    finally:
        RUNNING.pop(call.invocation_id, None)
        with suppress(ValueError):  # its task is gone
            WITHIN.reset(token)


def _start_work(call: Call, tool: Tool) -> object:
    call.call_input = call.final_input if tool.copies_input else clone(call.final_input)
    work = tool.start(call)
    try:
        awaited = work.send(None)
    except StopIteration as end:
        return end.value
    except ENDED_EARLY as error:
        return end_early(call, error)
    except AttributeError as error:
        if hasattr(work, "send"):
            raise
        raise ToolFailure(_no_coroutine(work)) from error
    return PendingOutput(drive_tool(call, work, awaited))


def _no_coroutine(started: object) -> ToolError:
    """Return the error of an executor whose `start` did not return a coroutine."""
    message = f"`start` of the executor returned {type(started).__name__!r}, not a coroutine; declare it `async def`"
    return guided(ErrorClass.EXECUTION_FAILED, phase=_PHASE, message=message, code="invalid_executor")


async def execute(call: Call, tool: Tool, call_input: JsonObject) -> object:
    """Run the tool to its end and return its native output.

    Raises:
        ToolFailure: execution_failed, timeout, dependency_unavailable, rate_limited, canceled.
    """
    output = start_tool(call, tool, call_input)
    return await output.coroutine if type(output) is PendingOutput else output


def _record_start(call: Call) -> None:
    """Record the start of a call that cannot be part of one fact; a queued call has its queued event already."""
    if call.status is InvocationStatus.QUEUED:
        call.started_ns = call.note(steps.RESUMED)
    else:
        call.started_ns = call.note(steps.STARTED, scheduled(call.facts))


async def _publish_and_run(call: Call, tool: Tool, call_input: JsonObject) -> object:
    """Write the unwritten steps, then run the tool, with retries or a deferred result.

    On a durable store, a tool with effects runs only once its start is on disk. The start of a call that only reads is
    written within milliseconds, or together with its end.

    Raises:
        ToolFailure: as `execute`; dependency_unavailable if the store cannot be written, and nothing has run.
    """
    is_plain = call.change is None and tool.redactor is None and not tool.is_repeatable
    is_in_journal = call.unwritten is _LAUNCHED and is_plain and not call.has_checkpoint
    call.publish()
    if tool.later is not None:
        return await send_and_wait(call, tool.later, lambda: run_with_retries(call, tool))
    must_wait = call.core.durable and _must_be_stored(call, tool)
    if not must_wait:
        ensure_checkpoint(call)
    else:
        if not is_in_journal:  # from the combined fact, recovery can end the call, but not run it again
            save_running_checkpoint(call, tool, call_input)
        await flush(call)
        refuse_if_stopped(call)
    return await run_with_retries(call, tool)


async def run_with_retries(call: Call, tool: Tool) -> object:
    """Run the tool, with retries.

    Raises:
        ToolFailure: execution_failed, timeout, dependency_unavailable, rate_limited, canceled.
    """
    number = 1
    while True:
        try:
            if tool.credentials:
                lend_credentials(call, await fetch_credentials(call, tool))
            output = _start_once(call, tool)
            return await output.coroutine if type(output) is PendingOutput else output
        except Exception as failure:
            error = (
                valid_error(call, failure.error) if isinstance(failure, ToolFailure) else error_of_crash(call, failure)
            )
            _block_rate_limits(call, tool, error)
            wait = _retry_delay(call, error, number) if tool.supports_retries and call.stop.reason is None else None
            if wait is None:
                raise
        finally:
            if tool.credentials:
                call.credentials.revoke()
        retry: JsonObject = {"attempt": number, "error_class": error.error_class.value, "retry_in_s": round(wait, 3)}
        call.note(steps.RETRYING, retry)
        if call.nesting is not None:
            call.nesting.attempt, call.nesting.made = number + 1, {}
        await pause(call, wait)
        number += 1


async def fetch_credentials(call: Call, tool: Tool) -> Mapping[str, str]:
    """Return the values of the credentials that a tool declares; a call that waits for them holds no permit.

    Raises:
        ToolFailure: credential_missing; or the call was stopped meanwhile.
    """
    vault = call.core.vault
    if vault is None:
        return {}
    run = run_stoppable if vault.is_cached(tool.credentials, call.actor_ref) else run_outside
    try:
        return await run(call, vault.fetch(tool.credentials, call.actor_ref))
    except CredentialMissing as error:
        raise ToolFailure(guided(ErrorClass.CREDENTIAL_MISSING, phase=_PHASE, message=str(error))) from error


async def mask_credentials_again(call: Call, tool: Tool) -> None:
    """Fetch the credentials of a tool that ran in another process, and mask them in the result that arrives here.

    Raises:
        ToolFailure: credential_missing: the credentials are unknown, so the result is withheld.
    """
    try:
        mask_credentials(call, await fetch_credentials(call, tool))
    except ToolFailure as failure:
        if failure.error.error_class is not ErrorClass.CREDENTIAL_MISSING:
            raise
        message = f"the tool ran; its result is withheld, because it may contain a credential: {failure.error.message}"
        error = guided(ErrorClass.CREDENTIAL_MISSING, phase=_PHASE, message=message, effects=True)
        raise ToolFailure(error) from failure


def _retry_delay(call: Call, error: ToolError, number: int) -> float | None:
    """Return the seconds until the next attempt; none if there is no next attempt."""
    core = call.core
    left = None if call.timer is None else call.timer.left
    seconds_left = call.timeout_s if left is None else left
    return next_attempt(
        complete_error(error), number, seconds_left=seconds_left, policy=core.timing.retry, random=core.timing.random
    )


def _block_rate_limits(call: Call, tool: Tool, error: ToolError) -> None:
    """Block the rate limits of a tool for the `retry_after` of its source."""
    if tool.buckets and error.error_class is ErrorClass.RATE_LIMITED and isinstance(error.retry_after, int | float):
        for bucket in tool.buckets:
            bucket.hold(call.core.timing.deadlines.now(), error.retry_after)
