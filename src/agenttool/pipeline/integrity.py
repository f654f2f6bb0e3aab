"""Compares checkpoints with the journal.

The journal is hash-chained and the checkpoints beside it are not. Without this check, a person who can edit the file
could have another input run than the one that was approved. A call is resumed, and an answer accepted, only if
checkpoint and journal agree.
"""

from collections.abc import Iterator, Sequence

from agenttool.codec import parse_object
from agenttool.errors import RecordError
from agenttool.journal import steps
from agenttool.journal.projection import invocation_of, records_of
from agenttool.pipeline.checkpoint import Checkpoint, CheckpointKind, awaited_answer
from agenttool.ports.deferred import result_key
from agenttool.ports.evidence import REDACTED, key_of, sealed_digest
from agenttool.ports.facts import Fact
from agenttool.ports.stores import OpenCall
from agenttool.records import EventType, InvocationStatus, Json, PermissionDecision, ToolInvocation, UnsetType


def checkpoint_mismatch(kind: str, checkpoint: Checkpoint, facts: Sequence[Fact]) -> str | None:
    """Return the name of the first part of a checkpoint that differs from the journal; none if all of it agrees.

    A secret is redacted in the journal; the keyed digest of the judged input binds it.
    """
    recorded = invocation_of(facts)
    if recorded is None:
        return "tool"
    return next((part for part, agrees in _compared(kind, checkpoint, recorded, facts) if not agrees), None)


def index_mismatch(opened: OpenCall, checkpoint: Checkpoint, facts: Sequence[Fact]) -> str | None:
    """Return the name of the first column beside a checkpoint that differs from it; none if all of them agree.

    Such a difference runs nothing that is not allowed, but a question or an answer might not be found.
    """
    recorded = invocation_of(facts)
    if recorded is not None and recorded.status.is_terminal:
        return "end"
    awaits_approval = recorded is not None and recorded.status is InvocationStatus.AWAITING_APPROVAL
    if opened.kind == CheckpointKind.APPROVED and awaits_approval:
        return "answer"
    if opened.kind in (CheckpointKind.SENDING, CheckpointKind.REMOTE):
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
    request = checkpoint.request
    yield (
        "caller",
        (
            request.surface_id,
            request.actor_ref,
            request.actor_roles,
            request.parent_invocation_id,
            request.native_call_id,
        )
        == (
            recorded.surface_id,
            recorded.actor_ref,
            recorded.actor_roles,
            recorded.parent_invocation_id,
            recorded.native_call_id,
        ),
    )
    yield "model_input", _agrees(recorded.model_input, checkpoint.model_input)
    if kind == CheckpointKind.PLANNED:
        yield "dependencies", checkpoint.depends_on == recorded.depends_on
        yield "hidden input", _seals_agree(checkpoint, facts)
        return
    runs = recorded.permission_input if isinstance(recorded.call_input, UnsetType) else recorded.call_input
    yield "call_input", _agrees(runs, checkpoint.call_input)
    yield "hidden input", _secrets_agree(checkpoint, facts)
    yield "question", _question_agrees(checkpoint, recorded, facts)


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
    is_known = any(
        (each.decision_id, each.input_digest) == (question.decision_id, question.input_digest) for each in decisions
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
