"""Is a search hint a phrase that someone would search for (AT-DECL-07)."""

from collections.abc import Iterator

from agenttool.conformance.validate.finding import Flaw, Severity
from agenttool.conformance.validate.record import ForeignRecord

_FEWEST, _MOST = 3, 10


def check_search_hint(record: ForeignRecord) -> Iterator[Flaw]:
    """Ask for three to ten words."""
    hint = record.members.get("search_hint")
    if isinstance(hint, str) and not _FEWEST <= len(hint.split()) <= _MOST:
        yield Flaw(
            message="the search hint is too short or too long",
            expected=f"a phrase of {_FEWEST} to {_MOST} words",
            advice="say what the tool is good for, in words someone would search by",
            pointer="/search_hint",
            requirement="AT-DECL-07",
            severity=Severity.WARNING,
        )
