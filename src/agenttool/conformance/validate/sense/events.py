"""Does an event about a call say which call, and which tool (AT-EVT-02)."""

from collections.abc import Iterator

from agenttool.conformance.validate.finding import Flaw, Severity
from agenttool.conformance.validate.record import ForeignRecord
from agenttool.records import EventType


def check_event(record: ForeignRecord) -> Iterator[Flaw]:
    """Ask for both ids where the class of the event is about a call."""
    event_type = record.members.get("event_type")
    for member in ("invocation_id", "tool_id"):
        if member not in record.members and isinstance(event_type, str) and EventType(event_type).concerns_a_call:
            yield Flaw(
                message="an event about a call does not say which",
                expected=f"a member {member!r}",
                advice=f"add {member!r}",
                pointer=f"/{member}",
                requirement="AT-EVT-02",
                severity=Severity.WARNING,
            )
