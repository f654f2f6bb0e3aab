"""Does progress count from one (AT-PROG-04, G-52)."""

from collections.abc import Iterator

from agenttool.conformance.validate.finding import Flaw
from agenttool.conformance.validate.record import ForeignRecord
from agenttool.records import Json

_FARTHEST = (1 << 63) - 1


def whole_number(value: Json) -> int | None:
    """Give a number without a fraction, however it is spelled: to JSON, 1 and 1.0 are one; a huge one is cut."""
    if isinstance(value, float) and not value.is_integer():
        return None
    return max(-_FARTHEST, min(int(value), _FARTHEST)) if isinstance(value, int | float) else None


def check_sequence(record: ForeignRecord) -> Iterator[Flaw]:
    """Ask for a number of one or more; gaps are seen only across a file."""
    sequence = whole_number(record.members.get("sequence"))
    if sequence is not None and sequence < 1:
        yield Flaw(
            message="progress counts from one",
            expected="1 or more",
            advice="number the progress of a call 1, 2, 3, without gaps",
            pointer="/sequence",
            requirement="AT-PROG-04",
        )
