"""Phases 9 to 12: map the output, run the hooks that see it, store its bytes, and record the end of the call."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import TypeVar, final

from agenttool.call.call import Call
from agenttool.call.checkpoint import persistence_failure, when_durable
from agenttool.call.evidence import OutputReplaced, shared_decision, stored
from agenttool.call.failures import (
    error_of_interruption,
    failed_result,
    failure_of_stop,
    leave_parked,
    request_cancel,
    settle_cancellation,
)
from agenttool.call.judge import refuse_stop_and_fault, run_hooks_at, visible
from agenttool.call.services import PayloadReader, guard
from agenttool.call.tool import Tool
from agenttool.codec import QUICK_CHARS, clone, quick_levels, read, write
from agenttool.codec.moments import timestamp
from agenttool.errors import StoreError, ToolFailure
from agenttool.journal import steps
from agenttool.ports.evidence import CallCompleted, CallEnded, ResultMade
from agenttool.records import (
    PERSISTENCE,
    UNSET,
    AbortReason,
    ErrorClass,
    HookEvent,
    InvocationStatus,
    Json,
    JsonObject,
    Live,
    PersistenceStrategy,
    Phase,
    Ref,
    ToolError,
    ToolResult,
    replace,
)
from agenttool.results.failure import outcome_of
from agenttool.results.mapping import Mapped, map_output
from agenttool.results.mapping_plan import PLAIN, MappingPlan
from agenttool.results.payloads import Payload, expire_payload
from agenttool.results.persistence import (
    INLINE,
    PersistencePlan,
    apply_plan,
    decide_persistence,
    mapped_payloads,
    native_payloads,
    with_stored_output,
)
from agenttool.results.preview import READ_RESULT
from agenttool.scheduler.batch_order import ModifierOutcome, modifier_outcome, strictest_modifier_policy

_T = TypeVar("_T")
_MAP_RESULT = Phase.MAP_RESULT
_POST_HOOKS = Phase.POST_HOOKS
_PERSIST_RESULT = Phase.PERSIST_RESULT


def map_result(call: Call, output: object, levels: int = 0) -> Mapped:
    """Map the output to a draft of the result; if that fails, store the output beside the error.

    `levels` is the depth of the output, from `quick_levels`; 0 for a large output.
    """
    call.phase = _MAP_RESULT
    plan = PLAIN if call.tool is None else call.tool.mapping
    scrubber = None if call.secrets is None else call.secrets.mask.scrubber
    call.mapped_ns = moment = call.core.now_ns()
    try:
        return map_output(output, plan, call.invocation_id, timestamp(moment), scrubber, call.mutation_refs, levels)
    except ToolFailure as failure:
        return with_stored_output(failed_result(call, failure.error), _encodable_payloads(call, plan, output))


async def map_any_result(call: Call, output: object) -> Mapped:
    """Map an output; a large one in a worker thread, so that other calls continue meanwhile."""
    if levels := quick_levels(output):
        return map_result(call, output, levels)
    call.phase = _MAP_RESULT
    call.publish()
    return await _in_worker(call, partial(map_result, call, output))


async def _in_worker(call: Call, work: Callable[[], _T]) -> _T:
    return await _despite_cancel(call, call.core.timing.loop.run_in_executor(None, work))


def _encodable_payloads(call: Call, plan: MappingPlan, output: object) -> tuple[Payload, ...]:
    """Return the payloads of an output that can be encoded; none if all of it is redacted."""
    if plan.redactor is not None and plan.redactor.is_whole:
        return ()
    try:
        return native_payloads(output, redactor=plan.redactor, scrubber=call.scrubber)
    except ToolFailure:
        return ()


async def post_hooks(call: Call, mapped: Mapped) -> Mapped:
    """Run the hooks of success or failure; a stop or a fault turns a success into a failure."""
    tool = call.tool
    if tool is None:
        return mapped
    event = HookEvent.POST_TOOL_USE_FAILURE if mapped.result.is_error else HookEvent.POST_TOOL_USE
    if event not in tool.hooks or not call.started_ns:
        return mapped
    call.phase = _POST_HOOKS
    outcome = await run_hooks_at(call, tool, event, call.final_input, output=visible(mapped))
    try:
        refuse_stop_and_fault(call, outcome, fault_class=ErrorClass.POST_HOOK_FAILED)
    except ToolFailure as failure:
        payloads = () if mapped.result.is_error else mapped_payloads(mapped)
        return with_stored_output(failed_result(call, failure.error), payloads)
    update = next((run for run in reversed(outcome.runs) if run.reply.updated_output is not UNSET), None)
    if update is None:
        return mapped
    call.note(steps.OUTPUT_CHANGED, OutputReplaced(update.hook.name))
    return await map_any_result(call, update.reply.updated_output)


async def persist_result(call: Call, mapped: Mapped) -> ToolResult:
    """Return the result to deliver; it refers only to payloads that were stored."""
    tool = call.tool
    if tool is None:
        return mapped.result
    plan = await _decide(call, tool, mapped)
    if HookEvent.RESULT_PERSISTENCE in tool.hooks and call.started_ns:
        mapped = await _persistence_hooks(call, tool, mapped, plan)
        plan = await _decide(call, tool, mapped)
    if plan is INLINE and not mapped.payloads:
        return mapped.result
    call.phase = _PERSIST_RESULT
    now = call.core.timestamp()
    draft = await _store_all(call, mapped, plan)
    ref = await _store(call, plan.payload) if plan.payload is not None else None
    result, decision = apply_plan(plan, draft, ref, decision_id=PERSISTENCE.compose(call.unique), created_at=now)
    redacted = plan.strategy is PersistenceStrategy.REDACT
    call.note(steps.REDACTED if redacted else steps.PERSISTED, stored(decision))
    return result


async def _decide(call: Call, tool: Tool, mapped: Mapped) -> PersistencePlan:
    """Decide how a result is stored; a large one is encoded and digested in a worker thread."""
    if mapped.chars <= QUICK_CHARS:
        return decide_persistence(mapped, tool.persistence, partial(read_tool_of, call))
    read_tool = read_tool_of(call)
    return await _in_worker(call, lambda: decide_persistence(mapped, tool.persistence, lambda: read_tool))


async def _persistence_hooks(call: Call, tool: Tool, mapped: Mapped, plan: PersistencePlan) -> Mapped:
    """Run the `result_persistence` hooks; a stop or a fault replaces the result by a failure."""
    call.phase = _PERSIST_RESULT
    details: JsonObject = {"strategy": plan.strategy.value}
    outcome = await run_hooks_at(
        call, tool, HookEvent.RESULT_PERSISTENCE, call.final_input, output=visible(mapped), details=details
    )
    try:
        refuse_stop_and_fault(call, outcome, fault_class=ErrorClass.POST_HOOK_FAILED)
    except ToolFailure as failure:
        return failed_result(call, failure.error)
    return mapped


async def _store_all(call: Call, mapped: Mapped, plan: PersistencePlan) -> ToolResult:
    """Store the payloads of the draft; return it without refs to payloads that could not be stored."""
    draft = mapped.result
    for payload in mapped.payloads:
        if plan.stores_media and await _store(call, payload) is not None:
            continue
        if plan.stores_media:
            draft = expire_payload(draft, payload.ref.id or "", expires_at=call.core.timestamp())
        if draft.native_output_ref == payload.ref.id:
            draft = replace(draft, native_output_ref=None)
    return draft


async def _store(call: Call, payload: Payload) -> Ref | None:
    """Store a payload and return its ref; none if the store failed."""
    digest = payload.ref.digest
    if digest is None:
        return None
    payloads, reader = call.core.payloads, PayloadReader(call.core.thread, call.actor_ref)
    putting = asyncio.ensure_future(payloads.store.put(payload.data, digest))
    uri, fault = await guard(_despite_cancel(call, putting))
    if fault is not None:
        return None
    await guard(payloads.grant_read(reader, digest))  # on failure a program can still fetch it by its digest
    call.core.host.offer_read_back(call.surface)
    return replace(payload.ref, uri=str(uri))


async def _despite_cancel(call: Call, work: "asyncio.Future[_T]") -> _T:
    """Wait for work even if the caller is canceled meanwhile, as the tool has run; a second cancel aborts."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError as crash:
        if work.cancelled():
            raise
        call.stop.interrupted = call.stop.interrupted or crash
    try:
        return await work
    except asyncio.CancelledError:
        raise InterruptedError("storing the result was canceled") from None


LARGE = 4096
"""After a result of more characters, the log checks its retention limits."""

TIDY_EVERY = 256
"""After this many calls, the log checks its retention limits in any case."""

_CONTAINERS = (dict, list)
_EMIT_TERMINAL = Phase.EMIT_TERMINAL
_ENDED = steps.ENDED
_COMPLETED = steps.COMPLETED
_LAUNCHED = steps.LAUNCHED
_SUCCEEDED = _ENDED[InvocationStatus.SUCCEEDED]


def emit_terminal(call: Call, mapped: Mapped, result: ToolResult) -> ToolResult:
    """Record the end of the call as three events: result created, result yielded, call ended; return the result.

    If the journal rejects the result, the call has failed, and a result that says so is recorded and returned. If the
    journal rejects that, too, the call stays open there, and recovery ends it once this process is gone.
    """
    call.phase = _EMIT_TERMINAL
    core = call.core
    is_plain = mapped.is_plain and result is mapped.result
    if call.mutation_refs and result.input_mutation_refs is None:
        result, is_plain = replace(result, input_mutation_refs=call.mutation_refs), False
    try:
        if result.error is not None or call.needs_detailed_end:
            result = _record_detailed_end(call, result)
        elif call.unwritten is _LAUNCHED and call.verdict is not None and call.facts is not None:
            call.result = result
            call.unwritten = None
            shared = shared_decision(call.verdict, call.facts)
            salt = b"" if call.secrets is None else call.secrets.salt
            whole = CallCompleted(
                call.request, shared, call.invocation_id, call.change, salt, result, call.started_ns, is_plain
            )
            call.note(_COMPLETED, whole, call.mapped_ns)
        else:
            call.result = result
            call.note(_SUCCEEDED, CallEnded(result, None, is_plain))
    except StoreError as error:
        result = call.result = persistence_failure(call, result, error)
        with suppress(StoreError):
            call.note(_ENDED[InvocationStatus.FAILED], CallEnded(result))
            _delete_checkpoint(call)
    core.registry.ended += 1
    if mapped.chars > LARGE or not core.registry.ended % TIDY_EVERY:
        core.journal.log.ended(mapped.chars + len(call.request.model_input))
    if core.registry.calls:
        core.registry.remove(call.invocation_id)
    if core.durable or (is_plain and type(result.structured_content) not in _CONTAINERS):
        return result
    return _own(result)


def _own(result: ToolResult) -> ToolResult:
    """Return a result that shares no list or dictionary with the one in a log in memory."""
    for item in result.content or ():
        if type(item.data) in _CONTAINERS:
            return read(write(result), ToolResult)
    structured = result.structured_content
    return replace(result, structured_content=clone(structured)) if isinstance(structured, _CONTAINERS) else result


def _record_detailed_end(call: Call, result: ToolResult) -> ToolResult:
    """Record the end of a call that failed, or that has changes, nested calls, a checkpoint or a cancellation."""
    call.result = result
    if call.status is None and call.unwritten is None:
        call.note(steps.PLANNED, call.request)
    end = InvocationStatus.SUCCEEDED if result.error is None else outcome_of(result.error).invocation_status
    for child in call.children:
        request_cancel(child, AbortReason.FALLBACK)
    if call.stop.cancellation is not None:
        settle_cancellation(call, canceled=end is InvocationStatus.CANCELED)
    changes = None if call.wanted_changes is None else settle_changes(call, result)
    if call.batch is not None and call.batch.delivers_in_order:
        call.note(steps.CREATED, ResultMade(result, changes))
        call.ensure_recovery().unreleased = CallEnded(result, changes)
    else:
        call.note(_ENDED[end], CallEnded(result, changes))
    _delete_checkpoint(call)  # also if the result is delivered later: no question of the call may be answered now
    return result


def release_result(call: Call) -> None:
    """Record the delivery of a result that had to wait, and the end of its call (AT-EVT-11)."""
    made = None if call.recovery is None else call.recovery.unreleased
    if made is not None:
        call.ensure_recovery().unreleased = None
        error = made.result.error
        end = InvocationStatus.SUCCEEDED if error is None else outcome_of(error).invocation_status
        with suppress(StoreError):  # recovery finds the result that was made
            call.note(steps.RELEASED[end], made)
            _delete_checkpoint(call)


def _delete_checkpoint(call: Call) -> None:
    """Delete the checkpoint of a call that has a result."""
    if call.has_checkpoint:
        is_sensitive = call.secrets is not None or call.tool is None
        call.core.durability.checkpoints.remove(call.invocation_id, is_sensitive=is_sensitive)


def settle_changes(call: Call, result: ToolResult) -> JsonObject:
    """Apply, defer or reject the requested changes; return what the terminal event records of them."""
    changes = call.wanted_changes or {}
    outcome = ModifierOutcome.REJECTED if result.is_error else _outcome_of_changes(call)
    if outcome is ModifierOutcome.APPLIED:
        call.core.shared.update(changes)
    if call.batch is not None:
        call.batch.has_deferred_changes = outcome is ModifierOutcome.DEFERRED
    names = sorted(changes)
    members: list[Json] = [*(names if call.scrubber is None else map(call.scrubber.text, names))]
    return {"fate": outcome.value, "members": members}


def _outcome_of_changes(call: Call) -> ModifierOutcome:
    declared = call.tool.modifier_policy if call.tool is not None else None
    batch = call.batch
    permits = [permit for permit in (call.permit, None if batch is None else batch.permit) if permit is not None]
    return modifier_outcome(
        strictest_modifier_policy(declared, None if batch is None else batch.policy.context_modifier_policy),
        ran_alone=any(permit.alone for permit in permits),
        supports_context_modifiers=declared is not None,
    )


log = logging.getLogger("agenttool.calls")


@final
class PendingEnd(Live, eq=False, gc=False):
    """An end that takes time: await `coroutine` for the result."""

    coroutine: Coroutine[object, object, ToolResult]


def end(call: Call, mapped: Mapped) -> ToolResult | PendingEnd:
    """Run phases 10 to 12; return the result to deliver, or a `PendingEnd` if hooks or a store must be awaited.

    A parked call is left to another process. If the caller's task was canceled, that is raised after the result is
    written.
    """
    tool = call.tool
    if call.recovery is not None and call.recovery.is_parked:
        return leave_parked(call, failed_result(call, failure_of_stop(call)).result)
    if tool is not None and (mapped.chars > tool.inline_below or tool.has_post_hooks or mapped.needs_decision):
        return PendingEnd(_finish(call, mapped))
    if call.core.durable:
        return PendingEnd(_record(call, mapped, mapped.result))
    result = emit_terminal(call, mapped, mapped.result)
    if call.stop_state is not None and call.stop_state.interrupted is not None:
        raise call.stop_state.interrupted
    return result


def failed(call: Call, crash: BaseException) -> Mapped:
    """Return the draft of the result of a call that raised; every exception becomes a result."""
    if isinstance(crash, ToolFailure):
        if crash.remedy:
            log.warning("%s of %s failed: %s; %s", call.invocation_id, call.tool_id, crash.error.message, crash.remedy)
        return failed_result(call, crash.error)
    return failed_result(call, error_of_interruption(call, crash))


async def complete(call: Call, work: Callable[[Call], Awaitable[Mapped]]) -> ToolResult:
    """Run the remaining work of a recovered call and end it; return the result once it is on disk."""
    try:
        mapped = await work(call)
    except BaseException as crash:  # noqa: BLE001 -- a crash in any phase is that phase's failure
        mapped = failed(call, crash)
    result = end(call, mapped)
    return await result.coroutine if type(result) is PendingEnd else result


async def fail(call: Call, error: ToolError) -> ToolResult:
    """End a call with an error, without running it."""
    result = end(call, failed_result(call, error))
    return await result.coroutine if type(result) is PendingEnd else result


async def _finish(call: Call, mapped: Mapped) -> ToolResult:
    """Run the post hooks, store the bytes of the result, and record the end."""
    try:
        mapped = await post_hooks(call, mapped)
        result = await persist_result(call, mapped)
    except BaseException as crash:  # noqa: BLE001 -- the tool has run, so there is a result whatever happens now
        error = error_of_interruption(call, crash)
        # An interruption is for the caller's task; it does not turn the result into a failure.
        result = mapped.result if call.stop.interrupted is crash else failed_result(call, error).result
    return await _record(call, mapped, result)


async def _record(call: Call, mapped: Mapped, result: ToolResult) -> ToolResult:
    """Record the end, and return the result once it is on disk."""
    result = emit_terminal(call, mapped, result)
    if call.core.durable:
        result = await when_durable(call, result)
    if call.stop.interrupted is not None:
        raise call.stop.interrupted
    return result


def read_tool_of(call: Call) -> str:
    """Return the name that the tool for stored output has on the surface of a call."""
    return READ_RESULT if call.surface is None else call.surface.builtin_name(READ_RESULT, call.shown.known_as)
