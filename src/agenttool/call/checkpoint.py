"""Checkpoints: the state of an open call from which another process can resume it after a crash.

`CheckpointKind` lists when a call has one. A call without a checkpoint has only its facts in the store. Checkpoints may
contain secrets; they are deleted when the call ends.

The journal is hash-chained and the checkpoints beside it are not. A person who can edit the file could replace an
approved input by another one. So a call is resumed, and an answer accepted, only if checkpoint and journal agree.
"""

from collections.abc import Iterator, Sequence
from typing import cast

from agenttool.call.call import Call, Core
from agenttool.call.tool import Tool
from agenttool.codec import json_bytes, parse_object, read_stored, write_own
from agenttool.errors import RecordError, StoreError, ToolFailure
from agenttool.journal import steps
from agenttool.journal.projection import invocation_of, records_of, result_in
from agenttool.policy.approvals import Question
from agenttool.policy.rules import parse_timestamp
from agenttool.ports.deferred import Thread, result_key
from agenttool.ports.evidence import REDACTED, CallEnded, CallRequest, key_of, sealed_digest
from agenttool.ports.facts import Fact
from agenttool.ports.stores import DurableLog, LeaseLost, OpenCall, SavedCheckpoint
from agenttool.records import (
    ApprovalId,
    ClosedEnum,
    Digest,
    ErrorClass,
    EventType,
    InvocationId,
    InvocationStatus,
    Json,
    JsonObject,
    Part,
    PermissionDecision,
    ToolId,
    ToolInvocation,
    ToolResult,
    UnsetType,
)
from agenttool.results.failure import guided, result_of_failure

UNAVAILABLE = "journal_unavailable"
"""The code of the error that the journal could not be written, so that nothing was run."""

NOT_STORED = "result_not_stored"
"""The code of the error that a call ended and its result could not be stored."""


class CheckpointKind(ClosedEnum):
    """How far a call had come at its checkpoint."""

    PLANNED = "planned"
    """The caller has the id of the call before it starts (`JournalView.checkpoint`)."""
    ASKED = "asked"
    """The call waits for an approval; on disk before it waits."""
    APPROVED = "approved"
    """The call was approved, written together with the answer; or a call with a known id waits for a permit."""
    RUNNING = "running"
    """The tool may run; on disk before a tool with effects runs."""
    SENDING = "sending"
    """A deferred tool may send its request; on disk before it sends."""
    REMOTE = "remote"
    """A deferred tool has acknowledged the request."""


_KINDS = frozenset(CheckpointKind)
DEFERRED_KINDS = (CheckpointKind.SENDING, CheckpointKind.REMOTE)
"""The kinds of checkpoints of calls that wait for a deferred result."""


class Checkpoint(Part, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """The state of an open call that is not in the journal; members of earlier versions are ignored.

    `call_input` is the input that was asked about, or that runs.
    """

    name: str
    model_input: bytes
    call_input: bytes
    tool_id: ToolId
    declaration_digest: Digest
    status: InvocationStatus
    surface_id: str | None = None
    native_call_id: str | None = None
    actor_ref: str | None = None
    actor_roles: tuple[str, ...] | None = None
    parent_invocation_id: InvocationId | None = None
    started_ns: int = 0
    attempts: int = 1
    thread: Thread | None = None
    salt: bytes | None = None
    """The key material of the digests of its inputs, where some of them are hidden; stored nowhere else."""
    secrets: tuple[str, ...] = ()
    """The secrets of the call that made it; its own sensitive fields do not contain them."""
    only: tuple[ToolId, ...] | None = None
    """The tools that its surface offered, if not all, so that nested calls find no more than before."""
    nested_key: bytes | None = None
    """Makes the ids of its nested calls predictable; none if it cannot be resumed."""
    parent_resumes: bool = False
    """Whether the call that made it is resumed after a crash, and takes its result."""
    ends_with_process: bool = False
    """Whether its tool is not run again after a crash, because no caller takes its result."""
    depends_on: tuple[InvocationId, ...] | None = None
    """The calls that must end before it starts."""
    ignores_failures: bool = False
    """Whether it starts also if one of those fails."""
    question: Question | None = None
    """The question, also once it was answered: an approval does not outlive its question. None if rules allowed it."""

    @property
    def arguments(self) -> JsonObject:
        """The decoded `call_input`; empty if it is no JSON object; then `checkpoint_mismatch` rejects it."""
        try:
            return parse_object(self.call_input)
        except RecordError:
            return {}

    @property
    def request(self) -> CallRequest:
        """The original request."""
        return CallRequest(
            self.name,
            self.model_input,
            self.surface_id,
            self.native_call_id,
            self.actor_ref,
            self.parent_invocation_id,
            self.depends_on,
            actor_roles=self.actor_roles,
        )


def checkpoint_in(opened: OpenCall | None) -> Checkpoint | None:
    """Return the checkpoint of an open call; none if it has none, or if another version wrote it."""
    return read_stored(opened.body, Checkpoint) if opened is not None and opened.kind in _KINDS else None


def save_checkpoint(
    call: Call,
    kind: CheckpointKind,
    call_input: JsonObject,
    question: Question | None = None,
    *,
    expires_at_ns: int | None = None,
    is_unowned: bool = False,
) -> None:
    """Save a checkpoint in place of the earlier one; it is on disk after the next flush.

    A store in memory has only those of calls that wait for a deferred result, which expires at `expires_at_ns`. An
    unowned call belongs to no process, so that each one may claim it.
    """
    is_deferred = kind in DEFERRED_KINDS
    tool, request = call.tool, call.request
    if not (call.core.durable or is_deferred) or tool is None or call.status is None:
        return
    recovery = call.ensure_recovery()
    recovery.has_checkpoint = call.needs_detailed_end = True
    recovery.is_planned = kind is CheckpointKind.PLANNED
    reach = None if call.surface is None else call.surface.reach
    checkpoint = Checkpoint(
        name=request.name,
        model_input=request.model_input,
        call_input=json_bytes(call_input),
        tool_id=tool.tool_id,
        declaration_digest=tool.subject.declaration_digest,
        status=call.status,
        surface_id=request.surface_id,
        only=None if reach is None else tuple(sorted(reach)),
        native_call_id=request.native_call_id,
        actor_ref=request.actor_ref,
        actor_roles=request.actor_roles,
        parent_invocation_id=request.parent_invocation_id,
        started_ns=call.started_ns,
        attempts=recovery.attempts,
        thread=call.core.thread if tool.later is not None or _is_in_other_thread(call.core) else None,
        salt=call.salt or None,
        secrets=_stored_secrets(call),
        nested_key=None if call.nesting is None else call.nesting.key,
        parent_resumes=call.parent is not None and call.parent.ensure_nesting().key is not None,
        ends_with_process=call.background is not None and call.background.ends_with_process,
        depends_on=request.depends_on,
        ignores_failures=call.batch is not None and call.batch.ignores_failures,
        question=question,
    )
    awaited = (result_key(call.invocation_id), expires_at_ns) if is_deferred else awaited_answer(kind, question)
    # A nested call ends if its parent has ended, and a request that may not have arrived is sent again. So recovery
    # examines such a call as soon as the process is dead, without waiting for an answer.
    is_due = kind is CheckpointKind.SENDING or (not is_deferred and request.parent_invocation_id is not None)
    saved = SavedCheckpoint(
        call.invocation_id, kind.value, write_own(checkpoint), *awaited, 0 if is_due else None, is_unowned
    )
    call.core.durability.checkpoints.save(saved)


def save_running_checkpoint(call: Call, tool: Tool, call_input: JsonObject) -> None:
    """Save that the tool is about to run; with a key to find its nested calls by, if it may run again after a crash."""
    nesting = call.ensure_nesting()
    if tool.is_repeatable and nesting.key is None:
        nesting.key = call.core.ids.secret()
    save_checkpoint(call, CheckpointKind.RUNNING, call_input)


def ensure_checkpoint(call: Call) -> None:
    """Save a checkpoint of a started call whose tool only reads, before the tool waits or makes a nested call.

    A call whose tool ends without either needs none, because none of its facts is on disk before its end.
    """
    tool = call.tool
    is_started = call.background is not None and not call.has_checkpoint
    if call.core.durable and is_started and tool is not None and not tool.has_effects:
        save_running_checkpoint(call, tool, call.final_input)


def awaited_answer(kind: str, question: Question | None) -> tuple[ApprovalId | None, int | None]:
    """Return the id of the approval that a checkpoint waits for, and when it expires; none if it waits for none."""
    if question is None or kind != CheckpointKind.ASKED:
        return None, None
    return question.approval_id, round(parse_timestamp(question.expires_at).timestamp() * 1e9)


def _is_in_other_thread(core: Core) -> bool:
    """Return whether a core is not in the conversation of its runtime, which is another one in the next process."""
    return core.parent is not None and core.parent.thread != core.thread


def _stored_secrets(call: Call) -> tuple[str, ...]:
    """Return the secrets that a call inherits and its own input does not have; credentials are never stored."""
    if call.parent is None or call.secrets is None or call.scrubber is None:
        return ()
    leased = call.secrets.leased
    return tuple(sorted(call.scrubber.secrets - (frozenset() if leased is None else leased.secrets)))


async def ensure_lease(call: Call) -> None:
    """Acquire the lease of this process before its first call, or renew it if that is due.

    Without one, other processes would recover the call while it runs here.

    Raises:
        ToolFailure: dependency_unavailable; nothing has run.
    """
    calls = call.core.durability.checkpoints
    owner = calls.owner
    try:
        await call.core.host.ensure_lease()
        if calls.owner != owner:
            raise LeaseLost(
                f"this process lost its lease, and {call.invocation_id} with it; look in the log for its end"
            )
    except StoreError as error:
        raise journal_unavailable(call, error) from error


async def flush(call: Call) -> None:
    """Wait until all facts and the checkpoint of a call are on disk, and this process has a lease.

    `Call.flush` only appends facts to the log; it does not wait.

    Raises:
        ToolFailure: dependency_unavailable; nothing has run.
    """
    await ensure_lease(call)
    try:
        await call.core.journal.log.settle()
    except StoreError as error:
        raise journal_unavailable(call, error) from error


def journal_unavailable(call: Call, error: StoreError) -> ToolFailure:
    """Return the failure of a call that was not started because the journal could not be written."""
    message = f"the journal cannot be written, so nothing was run: {error}"
    return ToolFailure(
        guided(ErrorClass.DEPENDENCY_UNAVAILABLE, phase=call.phase, message=message, code=UNAVAILABLE, effects=False)
    )


async def when_durable(call: Call, result: ToolResult) -> ToolResult:
    """Return a result once it is on disk, or the failure that reports that it could not be stored.

    The failure replaces the end that is queued for the next write. So the journal has the returned result, or none.
    """
    log, failure = call.core.journal.log, None
    while True:
        try:
            await log.settle()
            break
        except StoreError as error:
            failure = persistence_failure(call, result, error)
            is_final = failure is result or isinstance(error, LeaseLost)
            if is_final or (was_queued := _amend_end(call, failure)):
                return _not_stored(call, failure)
            if was_queued is not None:
                break
    # The end was written during the loop, or the file is lost.
    return result if failure is None or _has_stored_result(call) else _not_stored(call, failure)


def _not_stored(call: Call, failure: ToolResult) -> ToolResult:
    """Return the failure, and set it on the call: a batch may deliver it later, and a handle reads the status."""
    call.result = failure
    if call.status is not None and call.status.is_terminal:
        call.status = InvocationStatus.FAILED
    return failure


def _has_stored_result(call: Call) -> bool:
    try:
        return result_in(call.core.journal.log.stored_facts_of(call.invocation_id)) is not None
    except StoreError:
        return False


def _amend_end(call: Call, failure: ToolResult) -> bool | None:
    """Replace the queued end of a call by a failure; return whether it was queued, and none while it is written."""
    unreleased = None if call.recovery is None else call.recovery.unreleased
    if unreleased is not None:  # the end is not written yet
        call.ensure_recovery().unreleased = CallEnded(failure, unreleased.context_modifiers)
        return True
    step = steps.ENDED[InvocationStatus.FAILED]
    end = Fact(step, call.core.now_ns(), 0, call.invocation_id, call.tool_id, CallEnded(failure))
    return cast("DurableLog", call.core.journal.log).amend_end(end)


def persistence_failure(call: Call, result: ToolResult, error: StoreError) -> ToolResult:
    """Return the result of a call whose own result could not be stored; one with that error stays as it is.

    A call that another process has claimed is left to that process, which records how it ends.
    """
    if isinstance(error, LeaseLost):
        call.ensure_recovery().is_parked = True
    if result.error is not None and result.error.error_code in (UNAVAILABLE, NOT_STORED):
        return result
    message = f"the call has ended, but its result could not be stored: {error}"
    only_reads = call.tool is not None and not call.tool.has_effects
    failure = guided(
        ErrorClass.DEPENDENCY_UNAVAILABLE,
        phase=call.phase,
        message=message,
        code=NOT_STORED,
        effects=False if only_reads or not call.started_ns else None,
    )
    return result_of_failure(
        failure, result_id=result.result_id, invocation_id=result.invocation_id, created_at=result.created_at
    )


def checkpoint_mismatch(kind: str, checkpoint: Checkpoint, facts: Sequence[Fact]) -> str | None:
    """Return the name of the first part of a checkpoint that differs from the journal; none if all of it agrees.

    A secret is redacted in the journal; the keyed digest of the judged input binds it.
    """
    recorded = invocation_of(facts)
    if recorded is None:
        return "tool"
    return next((part for part, agrees in _compared(kind, checkpoint, recorded, facts) if not agrees), None)


def index_mismatch(opened: OpenCall, checkpoint: Checkpoint, facts: Sequence[Fact]) -> str | None:
    """Return the name of the first column of a stored row that differs from its checkpoint; none if all agree.

    Such a difference cannot run a call that is not allowed, but its question or its answer might not be found.
    """
    recorded = invocation_of(facts)
    if recorded is not None and recorded.status.is_terminal:
        return "end"
    awaits_approval = recorded is not None and recorded.status is InvocationStatus.AWAITING_APPROVAL
    if opened.kind == CheckpointKind.APPROVED and awaits_approval:
        return "answer"
    if opened.kind in DEFERRED_KINDS:
        return None if opened.approval_id == result_key(opened.invocation_id) else "approval_id"
    approval_id, expires_at_ns = awaited_answer(opened.kind, checkpoint.question)
    if opened.approval_id != approval_id:
        return "approval_id"
    return None if opened.expires_at_ns == expires_at_ns else "expires_at"


def _compared(
    kind: str, checkpoint: Checkpoint, recorded: ToolInvocation, facts: Sequence[Fact]
) -> Iterator[tuple[str, bool]]:
    """Yield each part of a checkpoint and whether the journal agrees; each comparison relies on those before it."""
    yield "tool", checkpoint.tool_id == recorded.tool_id
    yield "start", kind in _BEFORE_START or recorded.started_at is not None
    yield "caller", all(getattr(checkpoint, name) == getattr(recorded, name) for name in _CALLER)
    yield "model_input", _agrees(recorded.model_input, checkpoint.model_input)
    if kind == CheckpointKind.PLANNED:
        yield "dependencies", checkpoint.depends_on == recorded.depends_on
        yield "hidden input", _seals_agree(checkpoint, facts)
        return
    runs = recorded.permission_input if isinstance(recorded.call_input, UnsetType) else recorded.call_input
    yield "call_input", _agrees(runs, checkpoint.call_input)
    yield "hidden input", _secrets_agree(checkpoint, facts)
    yield "question", _question_agrees(checkpoint, recorded, facts)


_CALLER = ("surface_id", "actor_ref", "actor_roles", "parent_invocation_id", "native_call_id")
_BEFORE_START = (CheckpointKind.PLANNED, CheckpointKind.ASKED, CheckpointKind.APPROVED)


def _seals_agree(checkpoint: Checkpoint, facts: Sequence[Fact]) -> bool:
    """Return whether the keyed digest of the stored input is the recorded one, if the journal hides the input."""
    sealed = [fact.data for fact in facts if fact.step is steps.PLAN_SEALED]
    key = key_of(checkpoint.salt or b"", checkpoint.model_input)
    return all(each == {"digest": sealed_digest(parse_object(checkpoint.model_input), key)} for each in sealed)


def _secrets_agree(checkpoint: Checkpoint, facts: Sequence[Fact]) -> bool:
    """Return whether the keyed digest of the stored input is that of the last judged one, if a digest was keyed."""
    if not any(map(_is_salted, facts)):
        return True
    decisions = [each for each in records_of(facts) if isinstance(each, PermissionDecision)]
    judged = [each.input_digest for each in decisions if each.input_digest is not None]
    key = key_of(checkpoint.salt or b"", checkpoint.model_input)
    return sealed_digest(parse_object(checkpoint.call_input), key) in judged[-1:]


def _is_salted(fact: Fact) -> bool:
    """Return whether the digest of a fact is keyed with the salt in the checkpoint."""
    if fact.data is None or isinstance(fact.data, dict):
        return False
    return fact.data.members(EventType.PERMISSION_REQUESTED).get("salted") is True


def _question_agrees(checkpoint: Checkpoint, recorded: ToolInvocation, facts: Sequence[Fact]) -> bool:
    """Return whether the stored question, if there is one, is the one in the journal."""
    question = checkpoint.question
    if question is None:
        return True
    decisions = [each for each in records_of(facts) if isinstance(each, PermissionDecision)]
    asked = (question.decision_id, question.input_digest, question.suggested_updates, question.verdict.reason)
    is_known = any(
        (each.decision_id, each.input_digest, each.suggested_updates or (), each.reason) == asked for each in decisions
    )
    return is_known and question.invocation_id == recorded.invocation_id and question.shown == recorded.permission_input


def _agrees(recorded: Json | UnsetType, stored: bytes) -> bool:
    """Return whether a stored input equals the recorded one; redacted places are skipped."""
    try:
        rest: list[tuple[Json, Json]] = [] if isinstance(recorded, UnsetType) else [(recorded, parse_object(stored))]
    except RecordError:
        return False
    agrees = bool(rest)
    while agrees and rest:
        one, other = rest.pop()
        if isinstance(one, str) and REDACTED in one:
            continue
        if isinstance(one, dict) and any(REDACTED in name for name in one):
            continue
        if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
            rest.extend((one[name], other[name]) for name in one)
        elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            rest.extend(zip(one, other, strict=True))
        else:
            agrees = one == other and isinstance(one, bool) == isinstance(other, bool)
    return agrees
