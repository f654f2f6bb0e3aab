"""Checkpoints: the state of an open call from which another process can resume it after a crash.

A call has a checkpoint while it waits for an approval, once it is approved, and before its tool can have an effect. The
first and the last are on disk before the call continues; the second is written together with the answer. A deferred
tool adds two: before the request is sent, and once the tool has acknowledged it. A call whose caller got its id before
it started has one, too: as it is planned, and as it waits for its turn (`acknowledge`). A call without a checkpoint is
listed by the store as started. Checkpoints may contain secrets; they are deleted when the call ends.
"""

from typing import cast

from agenttool.codec import json_bytes, write_own
from agenttool.errors import StoreError, ToolFailure
from agenttool.journal import steps
from agenttool.journal.projection import result_in
from agenttool.pipeline.call import Call, Core
from agenttool.pipeline.tool import Tool
from agenttool.policy.approvals import Question
from agenttool.policy.rules import parse_timestamp
from agenttool.ports.deferred import Thread, result_key
from agenttool.ports.evidence import CallEnded, CallRequest
from agenttool.ports.facts import Fact
from agenttool.ports.stores import DurableLog, LeaseLost, SavedCheckpoint
from agenttool.records import (
    ApprovalId,
    ClosedEnum,
    Digest,
    ErrorClass,
    InvocationId,
    InvocationStatus,
    JsonObject,
    Part,
    ToolId,
    ToolResult,
)
from agenttool.results.failure import guided, result_of_failure

UNAVAILABLE = "journal_unavailable"
"""The code of the error that the journal could not be written, so that nothing was run."""

NOT_STORED = "result_not_stored"
"""The code of the error that a call ended and its result could not be stored."""


class CheckpointKind(ClosedEnum):
    """How far a call had come at its checkpoint."""

    PLANNED = "planned"
    ASKED = "asked"
    APPROVED = "approved"
    RUNNING = "running"
    SENDING = "sending"
    REMOTE = "remote"


class Checkpoint(Part, frozen=True, kw_only=True):
    """The state of an open call; `call_input` is the input that was asked about, or that runs."""

    name: str
    model_input: bytes
    call_input: bytes
    tool_id: ToolId
    declaration_digest: Digest
    status: InvocationStatus
    events: int
    surface_id: str | None = None
    native_call_id: str | None = None
    actor_ref: str | None = None
    actor_roles: tuple[str, ...] | None = None
    parent_invocation_id: InvocationId | None = None
    decisions: int = 0
    mutations: int = 0
    progress: int = 0
    hook_runs: int = 0
    started_ns: int = 0
    attempts: int = 1
    thread: Thread | None = None
    salt: bytes | None = None
    """The key material of the digests of its inputs, where some of them are hidden; stored nowhere else."""
    secrets: tuple[str, ...] = ()
    """The secrets of the call that made it, which its own inputs do not show to be sensitive."""
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


def save_checkpoint(call: Call, kind: CheckpointKind, call_input: JsonObject, question: Question | None = None) -> None:
    """Save a checkpoint in the place of the one before; it is on disk after the next flush."""
    calls = call.core.durability.checkpoints
    checkpoint = None if calls is None else _checkpoint_of(call, call_input, question)
    if calls is not None and checkpoint is not None:
        call.ensure_recovery().is_planned = kind is CheckpointKind.PLANNED
        awaited = awaited_answer(kind, question)
        # Without its parent the answer has no use: recovery decides as soon as the process is dead.
        due_at_ns = None if call.request.parent_invocation_id is None else 0
        calls.save(SavedCheckpoint(call.invocation_id, kind.value, write_own(checkpoint), *awaited, due_at_ns))


def save_running_checkpoint(call: Call, tool: Tool, call_input: JsonObject) -> None:
    """Save that the tool is about to run. If it may run again after a crash, it will find its nested calls by a key."""
    nesting = call.ensure_nesting()
    if tool.is_repeatable and nesting.key is None:
        nesting.key = call.core.ids.secret()
    save_checkpoint(call, CheckpointKind.RUNNING, call_input)


def ensure_checkpoint(call: Call) -> None:
    """Save that the tool of a started call that only reads runs, before the call waits or makes a nested call.

    A call that ends before that needs no checkpoint: nothing of it can be on disk.
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


def save_deferred_checkpoint(
    call: Call, kind: CheckpointKind, expires_at_ns: int | None, *, is_unowned: bool = False
) -> None:
    """Save the checkpoint of a call that waits for a deferred result.

    Before the request is surely sent, the call is due as soon as its process is dead. An unowned call belongs to no
    process; the one that receives its result claims it.
    """
    calls, checkpoint = call.core.durability.deferred, _checkpoint_of(call, call.final_input, None)
    if checkpoint is None:
        raise AssertionError("a deferred call has a tool and a status")
    due_at_ns = 0 if kind is CheckpointKind.SENDING else None
    key, body = result_key(call.invocation_id), write_own(checkpoint)
    calls.save(SavedCheckpoint(call.invocation_id, kind.value, body, key, expires_at_ns, due_at_ns, is_unowned))


def _checkpoint_of(call: Call, call_input: JsonObject, question: Question | None) -> Checkpoint | None:
    tool, request = call.tool, call.request
    if tool is None or call.status is None:
        return None
    recovery = call.ensure_recovery()
    recovery.has_checkpoint = call.needs_detailed_end = True
    reach = None if call.surface is None else call.surface.reach
    return Checkpoint(
        name=request.name,
        model_input=request.model_input,
        call_input=json_bytes(call_input),
        tool_id=tool.tool_id,
        declaration_digest=tool.subject.declaration_digest,
        status=call.status,
        events=call.events,
        surface_id=request.surface_id,
        only=None if reach is None else tuple(sorted(reach)),
        native_call_id=request.native_call_id,
        actor_ref=request.actor_ref,
        actor_roles=request.actor_roles,
        parent_invocation_id=request.parent_invocation_id,
        decisions=call.counts.decisions,
        mutations=len(call.mutation_refs),
        progress=call.counts.progress,
        hook_runs=call.counts.hook_runs,
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
    """Acquire the lease of this process before its first call; without one no process would recover its calls.

    Raises:
        ToolFailure: dependency_unavailable; nothing has run.
    """
    try:
        await call.core.host.ensure_lease()
    except StoreError as error:
        raise journal_unavailable(call, error) from error


async def flush(call: Call) -> None:
    """Wait until all facts of a call are on disk.

    Raises:
        ToolFailure: dependency_unavailable; nothing has run.
    """
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
    """Return a result once it is on disk, or else the failure that says that it could not be stored.

    The journal says the same, or nothing: the end that is queued for the next write is replaced by the failure.
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
    # It was written meanwhile, or the file was lost with it.
    return result if failure is None or _has_stored_result(call) else _not_stored(call, failure)


def _not_stored(call: Call, failure: ToolResult) -> ToolResult:
    """Return the failure; a batch delivers it later, and a started call has its status."""
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
    if call.background is not None:
        call.background.facts = None  # the log decides what is left of them
    return cast("DurableLog", call.core.journal.log).amend_end(end)


def persistence_failure(call: Call, result: ToolResult, error: StoreError) -> ToolResult:
    """Return the result of a call whose own result could not be stored; one with that error stays as it is."""
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
