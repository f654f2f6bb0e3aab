"""Phase 7: acquire permits of the limiters, and wait for them and for rate limits if necessary."""

from asyncio import CancelledError, sleep
from collections.abc import Callable, Coroutine

from agenttool.call.call import Call
from agenttool.call.checkpoint import CheckpointKind, save_checkpoint
from agenttool.call.evidence import scheduled
from agenttool.call.running import callers, pause, run_stoppable, waiting_for_permit
from agenttool.call.tool import Tool
from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.records import InvocationId, InvocationStatus, JsonObject, Phase
from agenttool.scheduler.call_facts import CallFacts
from agenttool.scheduler.limiter import WAITS_FOR_CALLER, WOULD_DEADLOCK, Permit, Scope
from agenttool.scheduler.rate_limits import rate_limited, reserve_tokens

_PHASE = Phase.SCHEDULE

MAX_THREAD_WAIT_S = 60.0
"""The permits of a call whose thread hangs are released after this time."""


def try_acquire_permit(call: Call, tool: Tool, call_input: JsonObject) -> bool:
    """Acquire a permit without a wait; return False and change nothing if the call may have to wait."""
    if tool.buckets or call.nesting is not None or (call.batch is not None and call.batch.limiter is not None):
        return False
    facts = tool.safety.static or tool.safety.facts_for(call_input, call.actor_ref)
    permit = call.core.limiter.try_acquire(facts, call.core.scopes[tool.shared_state])
    if permit is None:
        return False
    call.phase = _PHASE
    call.facts = facts.record
    call.permit = permit
    return True


async def schedule(call: Call, tool: Tool, call_input: JsonObject) -> None:
    """Acquire the permits of the batch and the runtime; `release` releases them.

    Raises:
        ToolFailure: canceled, sibling_canceled, rate_limited.
    """
    call.phase = _PHASE
    call.final_input = call_input
    call.publish()
    facts = tool.safety.facts_for(call_input, call.actor_ref)
    call.facts = facts.record
    within = None if call.parent is None else call.parent.own_permit()  # a nested call runs within that permit
    batch = call.batch
    if batch is not None and batch.limiter is not None:
        limiter, scope = batch.limiter, batch.limiter.only_scope
        batch.permit = limiter.try_acquire(facts, scope) or await _wait(call, limiter.acquire(facts, scope))
    try:
        if tool.buckets:
            await _wait_for_rate_limit(call, tool)
        scope = call.core.scopes[tool.shared_state]
        call.permit = call.core.limiter.try_acquire(facts, scope, within)
        if call.permit is None:
            await _wait_in_queue(call, facts, scope, within)
    except BaseException:
        release(call)
        raise


def release(call: Call) -> None:
    """Release the permits once no thread of the call runs any more."""
    if call.thread_ended is None:
        _release_all(call)
    else:
        _run_after_thread(call, lambda: _release_all(call))


async def yield_to_batch(call: Call) -> None:
    """Let waiting calls of the batch start before the result of this call is mapped.

    That takes two iterations of the event loop: one to wake them, one to run them. The tool has run, so a cancellation
    of the caller is raised once the result is written.
    """
    if call.batch is None or call.batch.limiter is None or not call.batch.limiter.has_waiters:
        return
    try:
        await sleep(0)
        await sleep(0)
    except CancelledError as canceled:
        call.stop.interrupted = canceled


def _release_all(call: Call) -> None:
    permit, batch = call.permit, call.batch
    if permit is not None:
        call.core.limiter.release(permit)
        if isinstance(permit, Scope):  # other calls share it and may still hold it
            call.permit = None
    if batch is not None and batch.limiter is not None and batch.permit is not None:
        batch.limiter.release(batch.permit)


async def _wait_for_rate_limit(call: Call, tool: Tool) -> None:
    core = call.core
    now = core.timing.deadlines.now()
    seconds = reserve_tokens(tool.buckets, now)
    if seconds is None:
        longest = max(bucket.wait(now) for bucket in tool.buckets)
        raise ToolFailure(rate_limited(tool.name, longest))
    if seconds:
        _note_queued(call)
        await pause(call, seconds)


async def _wait_in_queue(call: Call, facts: CallFacts, scope: Scope, within: Permit | None) -> None:
    """Wait for a permit of the runtime.

    Raises:
        ToolFailure: as `_wait`; or the wait would be a deadlock, because a call ahead of this one waits for its end:
            its code awaits this one by an idempotency key, or its tool makes this call.
    """
    limiter, calls = call.core.limiter, call.core.registry.calls
    permit = call.permit = limiter.request(facts, scope, within)

    def calls_ahead() -> list[InvocationId]:
        ahead = {*limiter.ahead_of(permit)}
        return [each.invocation_id for each in (*calls.values(), *outer) if each.permit in ahead]

    outer = callers()
    with waiting_for_permit(call.invocation_id, calls_ahead) as is_deadlock:
        if is_deadlock:
            is_own = any(each.permit in limiter.ahead_of(permit) for each in outer)
            call.permit = None
            raise ToolFailure(WAITS_FOR_CALLER if is_own else WOULD_DEADLOCK)
        await _wait(call, limiter.wait(permit))


async def _wait(call: Call, acquiring: Coroutine[object, object, Permit]) -> Permit:
    _note_queued(call)
    return await run_stoppable(call, acquiring)


def _note_queued(call: Call) -> None:
    if call.status is not InvocationStatus.QUEUED:
        call.note(steps.QUEUED, scheduled(call.facts))
    is_planned = call.recovery is not None and call.recovery.is_planned
    is_started = call.background is not None and not call.has_checkpoint
    if is_planned or is_started:  # a caller may have its id or key, so another process must be able to resume it
        save_checkpoint(call, CheckpointKind.APPROVED, call.final_input)


def _run_after_thread(call: Call, then: Callable[[], None]) -> None:
    """Call `then` once the thread of the tool has ended, or at once if there is none."""
    ended = call.thread_ended
    if ended is None or ended.done():
        then()
        return
    core, is_done = call.core, False

    def once(_: object = None) -> None:
        nonlocal is_done
        if not is_done:
            is_done = True
            core.timing.deadlines.cancel(alarm)
            then()

    alarm = core.timing.deadlines.arm(core.timing.deadlines.now() + MAX_THREAD_WAIT_S, once)
    ended.add_done_callback(once)
