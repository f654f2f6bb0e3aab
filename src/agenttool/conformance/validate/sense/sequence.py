"""Does progress count from one (AT-PROG-04, G-52)."""

from collections.abc import Iterator

from agenttool.conformance.validate.finding import Flaw
from agenttool.conformance.validate.record import ForeignRecord


def check_sequence(record: ForeignRecord) -> Iterator[Flaw]:
    """Ask for a number of one or more; gaps are seen only across a file."""
    sequence = record.members.get("sequence")
    if isinstance(sequence, int) and sequence < 1:
        yield Flaw(
            message="progress counts from one",
            expected="1 or more",
            advice="number the progress of a call 1, 2, 3, without gaps",
            pointer="/sequence",
            requirement="AT-PROG-04",
        )
