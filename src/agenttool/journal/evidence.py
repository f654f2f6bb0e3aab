"""What most evidence has in common: it says little, and what it does say it says when somebody reads."""

from collections.abc import Mapping

from agenttool.ports.facts import Brief, Fact, Telling, tell_in_parts
from agenttool.records import EventType, JsonObject, Part, Record

_NOTHING: Mapping[str, object] = {}


class Plain(Part, frozen=True):
    """Evidence that is told by events alone."""

    def members(self, event: EventType) -> JsonObject:
        """Tell nothing more."""
        return {}

    def contributes(self) -> Mapping[str, object]:
        """Fill nothing."""
        return _NOTHING

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Stand for nothing else."""
        return ()

    def tell(self, fact: Fact) -> Telling | Brief:
        """Tell all of it."""
        return tell_in_parts(self, fact)
