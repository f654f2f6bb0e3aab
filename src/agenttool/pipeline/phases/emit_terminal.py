"""Phase 12: record the end. It cannot fail, and it always runs."""

from contextlib import suppress

from agenttool.codec import clone, read, write
from agenttool.errors import StoreError
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.cancellation import request_cancel, settle_cancellation
from agenttool.pipeline.checkpoint import persistence_failure
from agenttool.pipeline.evidence import shared_decision
from agenttool.ports.evidence import CallCompleted, CallEnded, ResultMade
from agenttool.records import AbortReason, InvocationStatus, Json, JsonObject, Phase, ToolResult, replace
from agenttool.results.failure import outcome_of
from agenttool.results.mapping import Mapped
from agenttool.scheduler.batch_order import ModifierOutcome, modifier_outcome, strictest_modifier_policy

LARGE = 4096
"""After a result of more characters, the log checks its retention limits."""

TIDY_EVERY = 256
"""After this many calls, the log checks its retention limits in any case."""

_CONTAINERS = (dict, list)
_PHASE = Phase.EMIT_TERMINAL
_ENDED = steps.ENDED
_COMPLETED = steps.COMPLETED
_LAUNCHED = steps.LAUNCHED
_SUCCEEDED = _ENDED[InvocationStatus.SUCCEEDED]


def emit_terminal(call: Call, mapped: Mapped, result: ToolResult) -> ToolResult:
    """Record the end of the call: its result, its delivery and its terminal event; return the result to deliver.

    If the journal rejects the result, the call has failed, and a result that says so is recorded and returned. If the
    journal rejects that, too, the call stays open there, and recovery ends it once this process is gone.
    """
    call.phase = _PHASE
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
            call.write(_COMPLETED, whole, call.mapped_ns)
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
    _delete_checkpoint(call)  # also if the result has to wait: its question may not be answered any more
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
        call.core.durability.deferred.remove(call.invocation_id, is_sensitive=is_sensitive)


def settle_changes(call: Call, result: ToolResult) -> JsonObject:
    """Apply, defer or reject the requested changes; return what the terminal event records of them."""
    changes = call.wanted_changes or {}
    outcome = ModifierOutcome.REJECTED if result.is_error else _outcome_of_changes(call)
    if outcome is ModifierOutcome.APPLIED:
        call.core.shared.update(changes)
    if call.batch is not None:
        call.batch.has_deferred_changes = outcome is ModifierOutcome.DEFERRED
    members: list[Json] = [*sorted(changes)]
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
