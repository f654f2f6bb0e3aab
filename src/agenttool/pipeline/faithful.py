"""Whether what is kept of a call under way is what the log tells of it.

The log is chained, and what is kept beside it is not: whoever can edit the file could have another input run than the
one that somebody was asked about. So a call goes on, and an answer is taken, only if both say the same.
"""

from collections.abc import Iterator, Sequence

from agenttool.codec import parse_object
from agenttool.errors import RecordError
from agenttool.journal.fold import invocation_of, records_of
from agenttool.pipeline.digests import key_of, sealed_digest
from agenttool.pipeline.held import Held, Point, waits_for
from agenttool.ports.facts import Fact
from agenttool.ports.later import late_key
from agenttool.ports.stores import OpenCall
from agenttool.records import EventType, InvocationStatus, Json, PermissionDecision, ToolInvocation, UnsetType
from agenttool.results.redaction import MARKER


def unfaithful(kind: str, held: Held, facts: Sequence[Fact]) -> str | None:
    """Name what is kept of a call and is not what the log tells of it; none if all of it is.

    A secret was told to the log as redacted, and is bound to it by the digest of what was judged, which is sealed.
    """
    told = invocation_of(facts)
    if told is None:
        return "tool"
    return next((what for what, is_told in _compared(kind, held, told, facts) if not is_told), None)


def misplaced(opened: OpenCall, held: Held, facts: Sequence[Fact]) -> str | None:
    """Name what stands beside a kept call, to find it by, and is not what it was held with; none if all of it is.

    Nothing runs because of it that should not, but nobody might be asked, or an answer might not be heard.
    """
    told = invocation_of(facts)
    if told is not None and told.status.is_terminal:
        return "end"
    if opened.kind == Point.APPROVED and told is not None and told.status is InvocationStatus.AWAITING_APPROVAL:
        return "answer"
    if opened.kind in (Point.SENDING, Point.AWAY):
        return None if opened.approval_id == late_key(opened.invocation_id) else "approval_id"
    approval_id, expires_at_ns = waits_for(opened.kind, held.question)
    if opened.approval_id != approval_id:
        return "approval_id"
    return None if opened.expires_at_ns == expires_at_ns else "expires_at"


def _compared(kind: str, held: Held, told: ToolInvocation, facts: Sequence[Fact]) -> Iterator[tuple[str, bool]]:
    """Name what is kept, one after the other, and tell whether the log tells it; each relies on those before it."""
    yield "tool", held.tool_id == told.tool_id
    yield "start", kind in (Point.ASKED, Point.APPROVED) or told.started_at is not None
    asked = held.request
    yield (
        "caller",
        (asked.surface_id, asked.actor_ref, asked.parent_invocation_id, asked.native_call_id)
        == (
            told.surface_id,
            told.actor_ref,
            told.parent_invocation_id,
            told.native_call_id,
        ),
    )
    yield "model_input", _shows(told.model_input, held.model_input)
    runs = told.permission_input if isinstance(told.call_input, UnsetType) else told.call_input
    yield "call_input", _shows(runs, held.call_input)
    yield "hidden input", _keeps_secrets(held, facts)
    yield "question", _is_asked(held, told, facts)


def _keeps_secrets(held: Held, facts: Sequence[Fact]) -> bool:
    """Tell whether what the log does not show is what was judged last; earlier versions kept nothing to tell it by."""
    if not any(map(_is_salted, facts)):
        return True
    decisions = [each for each in records_of(facts) if isinstance(each, PermissionDecision)]
    judged = [each.input_digest for each in decisions if each.input_digest is not None]
    key = key_of(held.salt or b"", held.model_input)
    return sealed_digest(parse_object(held.call_input), key) in judged[-1:]


def _is_salted(fact: Fact) -> bool:
    """Tell whether a fact says that the key of its digest is made of a salt that is kept with the call."""
    if fact.data is None or isinstance(fact.data, dict):
        return False
    return fact.data.members(EventType.PERMISSION_REQUESTED).get("salted") is True


def _is_asked(held: Held, told: ToolInvocation, facts: Sequence[Fact]) -> bool:
    """Tell whether the question that is kept, if there is one, is the one that the log says was asked."""
    asked = held.question
    if asked is None:
        return True
    decisions = [each for each in records_of(facts) if isinstance(each, PermissionDecision)]
    is_known = any(
        (each.decision_id, each.input_digest) == (asked.decision_id, asked.input_digest) for each in decisions
    )
    return is_known and asked.invocation_id == told.invocation_id and asked.shown == told.permission_input


def _shows(told: Json | UnsetType, kept: bytes) -> bool:
    """Tell whether the log tells this input, as far as it tells it at all."""
    try:
        rest: list[tuple[Json, Json]] = [] if isinstance(told, UnsetType) else [(told, parse_object(kept))]
    except RecordError:
        return False
    is_told = bool(rest)
    while is_told and rest:
        one, other = rest.pop()
        if one == MARKER:
            continue
        if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
            rest.extend((one[name], other[name]) for name in one)
        elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            rest.extend(zip(one, other, strict=True))
        else:
            is_told = one == other and isinstance(one, bool) == isinstance(other, bool)
    return is_told
