"""One call read from the journal: found by a part of its id, with all its events and records."""

from collections.abc import Iterator
from dataclasses import dataclass

from agenttool.adapters.rap.settings import source_name_in
from agenttool.codec import read_stored
from agenttool.errors import ConfigError
from agenttool.history.reader import JournalReader
from agenttool.journal.projection import events_of, invocation_of, records_of
from agenttool.ports.deferred import RESULT_PREFIX
from agenttool.ports.facts import Fact
from agenttool.ports.source import SOURCE_STATUS, SourceStatus
from agenttool.records import InvocationId, Record, ToolEvent, ToolInvocation
from agenttool.stores.sqlite.leases import Ownership
from agenttool.stores.sqlite.reader import SqliteReader
from agenttool.world import SystemClock

MAX_CHILDREN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """Everything that the journal holds of one call.

    Attributes:
        position: the position of its newest fact.
        children: the calls that it made.
        owner: the process that runs it, and what it waits for; none once it has ended.
        server: the state of the server that it waits for; none if it waits for none, or if that server answers.
    """

    position: int
    invocation: ToolInvocation
    began_ns: int
    facts: tuple[Fact, ...]
    events: tuple[ToolEvent, ...]
    records: tuple[Record, ...]
    children: tuple[InvocationId, ...]
    owner: Ownership | None
    server: SourceStatus | None = None

    @property
    def traceback(self) -> str | None:
        """The traceback of the exception that ended it; none if none was recorded."""
        found = (fact.data.get("traceback") for fact in self.facts if isinstance(fact.data, dict))
        return next((trace for trace in found if isinstance(trace, str)), None)


def read_call(reader: JournalReader, invocation_id: InvocationId) -> RecordedCall:
    """Return one call.

    Raises:
        ConfigError: there is no such call.
    """
    positioned = reader.facts_of(invocation_id)
    facts = tuple(fact for _, fact in positioned)
    invocation = invocation_of(facts)
    if invocation is None:
        raise ConfigError(f"no call in {str(reader.path)!r} has the id {invocation_id!r}; use another")
    first, last = positioned[0][0], positioned[-1][0]
    has_ended = invocation.status.is_terminal
    owner = None if has_ended else reader.ownership(invocation_id, SystemClock().moment())
    # A call that never started has no children, however long it has been waiting.
    until = last if has_ended or invocation.started_at is None else reader.head().position
    return RecordedCall(
        position=last,
        invocation=invocation,
        began_ns=facts[0].at_ns,
        facts=facts,
        events=tuple(event for position, fact in positioned for event in events_of(fact, position=position)),
        records=tuple(records_of(facts)),
        children=tuple(reader.calls_made_by(invocation_id, (first, until), MAX_CHILDREN)),
        owner=owner,
        server=_server_of(reader, invocation, owner),
    )


def _server_of(reader: JournalReader, invocation: ToolInvocation, owner: Ownership | None) -> SourceStatus | None:
    """Return the state of the server that a call waits for, as the last process recorded it; none if it answers."""
    if owner is None or owner.waits_for is None or not owner.waits_for.startswith(RESULT_PREFIX):
        return None
    name = source_name_in(invocation.tool_id)
    return next((each for each in failing_servers(reader) if each.source == name), None)


def failing_servers(reader: JournalReader) -> Iterator[SourceStatus]:
    """Yield the servers that did not answer when a process last tried them."""
    for _, body in reader.documents(SOURCE_STATUS):
        if (status := read_stored(body, SourceStatus)) is not None:
            yield status


def walk_journal(reader: SqliteReader) -> Iterator[tuple[int, Fact, list[Fact]]]:
    """Yield every fact with its position; the first fact of a call comes with all facts of that call.

    Retention may have deleted the first facts of a call; then the first one left stands for the call.
    """
    after = 0
    while facts := reader.read(after):
        for position, fact in facts:
            call = fact.invocation_id
            begins = call is not None and (fact.sequence == 0 or reader.begins(call, position))
            yield position, fact, [each for _, each in reader.facts_of(call)] if begins and call is not None else []
        after = facts[-1][0]
