"""Whether what is kept of a call under way is what the log tells of it.

The log is chained, and what is kept beside it is not: whoever can edit the file could have another input run than the
one that somebody was asked about. So a call goes on, and an answer is taken, only if both say the same.
"""

from collections.abc import Sequence

from agenttool.codec import parse_object
from agenttool.errors import RecordError
from agenttool.journal.fold import invocation_of, records_of
from agenttool.pipeline.held import Held, Point
from agenttool.ports.facts import Fact
from agenttool.records import Json, PermissionDecision, ToolInvocation, UnsetType
from agenttool.results.redaction import MARKER


def unfaithful(kind: str, held: Held, facts: Sequence[Fact]) -> str | None:
    """Name what is kept of a call and is not what the log tells of it; none if all of it is.

    A secret was told to the log as redacted; of that, nobody but whoever keeps it knows what it was.
    """
    told = invocation_of(facts)
    if told is None or held.tool_id != told.tool_id:
        return "tool"
    if kind not in (Point.ASKED, Point.APPROVED) and told.started_at is None:
        return "start"
    if not _shows(told.model_input, held.model_input):
        return "model_input"
    runs = told.permission_input if isinstance(told.call_input, UnsetType) else told.call_input
    if not _shows(runs, held.call_input):
        return "call_input"
    return None if _is_asked(held, told, facts) else "question"


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
