"""One call out of the journal: found by a part of its id, with everything that became of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from agenttool.errors import ConfigError
from agenttool.journal.fold import events_of, invocation_of, records_of
from agenttool.ports.facts import Fact
from agenttool.records import ID_KINDS, INVOCATION, InvocationId, Record, ToolEvent, ToolInvocation
from agenttool.stores.sqlite.holding import Holding
from agenttool.stores.sqlite.reader import SqliteReader
from agenttool.world import SystemClock

CANDIDATES = 20
CHILDREN = 100

_R = TypeVar("_R", bound=Record)


class Ambiguous(Exception):
    """Several calls answer to one part of an id."""

    def __init__(self, part: str, candidates: Sequence[ToolInvocation]) -> None:
        """Take the part and the calls, the newest first."""
        super().__init__(part)
        self.part = part
        self.candidates = candidates


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """What the journal holds of one call.

    Attributes:
        position: that of its newest fact, to look on from.
        children: the calls that it made.
        held: who has it in hand; none if nobody has, or it has ended.
    """

    position: int
    invocation: ToolInvocation
    began_ns: int
    facts: tuple[Fact, ...]
    events: tuple[ToolEvent, ...]
    records: tuple[Record, ...]
    children: tuple[InvocationId, ...]
    held: Holding | None

    def of(self, kind: type[_R]) -> list[_R]:
        """Give its records of one kind, in order."""
        return [record for record in self.records if isinstance(record, kind)]


def find_call(reader: SqliteReader, part: str | None) -> RecordedCall:
    """Find one call by its id or either end of it, by the id of one of its records, or the newest of all.

    Raises:
        ConfigError: there is none.
        Ambiguous: there are several.
    """
    if part is None:
        newest = reader.newest_call()
        if newest is None:
            raise ConfigError(f"there is no call in {str(reader.path)!r} yet; make one first")
        return recorded_call(reader, newest)
    limit = CANDIDATES + 1
    found = reader.calls_beginning(_beginning(part), limit) or reader.calls_ending(part, limit)
    if not found:
        raise ConfigError(f"no call in {str(reader.path)!r} has an id like {part!r}; `agenttool log` shows their ids")
    if len(found) > 1:
        raise Ambiguous(part, [_envelope(reader, each, [fact for _, fact in reader.facts_of(each)]) for each in found])
    return recorded_call(reader, found[0])


def recorded_call(reader: SqliteReader, invocation_id: InvocationId) -> RecordedCall:
    """Read one call."""
    placed = reader.facts_of(invocation_id)
    facts = tuple(fact for _, fact in placed)
    invocation = _envelope(reader, invocation_id, facts)
    first, last = placed[0][0], placed[-1][0]
    # One that was never started has made none, however long it waits already.
    is_over = invocation.status.is_terminal or invocation.started_at is None
    until = last if is_over else reader.head().position
    return RecordedCall(
        position=last,
        invocation=invocation,
        began_ns=facts[0].at_ns,
        facts=facts,
        events=tuple(event for position, fact in placed for event in events_of(fact, position=position)),
        records=tuple(records_of(facts)),
        children=tuple(reader.calls_made_by(invocation_id, (first, until), CHILDREN)),
        held=None if invocation.status.is_terminal else reader.holding(invocation_id, SystemClock().moment()),
    )


def _envelope(reader: SqliteReader, invocation_id: InvocationId, facts: Sequence[Fact]) -> ToolInvocation:
    invocation = invocation_of(facts)
    if invocation is None:
        raise ConfigError(f"no call in {str(reader.path)!r} is called {invocation_id!r}; name another")
    return invocation


def _beginning(part: str) -> str:
    """Make the beginning of a call's id of that of any of its records: `dec_01a…-2` belongs to `inv_01a…`."""
    kind, separator, rest = part.partition("_")
    if not separator:
        return INVOCATION.compose(part)
    return INVOCATION.compose(rest.partition("-")[0]) if any(kind == each.prefix for each in ID_KINDS) else part
