"""Where commands read calls: a journal on this machine or a server, as the same messages of the HTTP API.

Also the state of an open call as text: which process runs it, and what it waits for.
"""

from collections.abc import Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agenttool.cli.event_log import JournalFollower
from agenttool.cli.format import utc
from agenttool.cli.options import StoreUrlOptions, flag, option
from agenttool.config.program import program_name
from agenttool.errors import ConfigError
from agenttool.history.listed_call import (
    CallFilter,
    ListedCall,
    check_status,
    check_tool,
    listed_calls,
    page_of_calls,
    parse_time,
    tool_name,
)
from agenttool.history.printable import printable
from agenttool.history.recorded_call import RecordedCall, read_call
from agenttool.journal import steps
from agenttool.ports.deferred import RESULT_PREFIX
from agenttool.ports.source import SourceStatus
from agenttool.records import INVOCATION, InvocationId, InvocationStatus
from agenttool.server.call_messages import detail_of, summary_of
from agenttool.server.messages import CallDetail, CallSummary
from agenttool.stores.sqlite.fact_rows import FactFilter
from agenttool.stores.sqlite.leases import Ownership
from agenttool.stores.sqlite.reader import SqliteReader
from agenttool.world import SystemClock

if TYPE_CHECKING:
    from agenttool.client import CallFilters, Client

MAX_MATCHES = 20
"""So many calls with a similar id are listed."""

_FOLLOWED = (steps.ASKED.name, *(step.name for step in steps.STEPS.values() if step.ends))
"""The steps after which a followed call is listed."""

_LATE_NS = 60_000_000_000
"""How long after the time of the next attempt the process that would make it counts as gone."""

_ENDED = [each.value for each in InvocationStatus if each.is_terminal]


@dataclass(frozen=True, kw_only=True)
class CallSelection:
    """The options that select calls."""

    since: str | None = option("--since TIME", "At or after this time: 30min, 2h, 7d, or a date")
    until: str | None = option("--until TIME", "Before this time")
    tool: str | None = option("--tool NAME", "Only this tool; * matches any characters")
    status: str | None = option(
        "--status STATUS",
        "Only calls with this status; --events: events that set it",
        completion=lambda: [each.value for each in InvocationStatus],
    )
    by: str | None = option(
        "--by NAME", "Only calls that this actor made, or that this person approved, denied or canceled"
    )
    containing: str | None = option(
        "--containing TEXT", "Only calls with this text in their inputs or results, in any case"
    )
    is_open: bool = flag("--open", "Only calls that have not ended, with their processes")

    @cached_property
    def filter(self) -> CallFilter:
        """The same for a journal.

        Raises:
            ConfigError: a time or the status is invalid.
        """
        check_status(self.status)
        return CallFilter(
            tool=self.tool,
            status=self.status,
            since_ns=parse_time("--since", self.since),
            until_ns=parse_time("--until", self.until),
            by=self.by,
            containing=self.containing,
            is_open=self.is_open,
        )

    @property
    def query(self) -> "CallFilters":
        """The same for a server."""
        return {
            "since": self.since,
            "until": self.until,
            "tool": self.tool,
            "status": self.status,
            "actor": self.by,
            "containing": self.containing,
            "is_open": self.is_open,
        }


class JournalCalls(NamedTuple):
    """The calls of a journal, which is only read; `arguments` name it in suggested commands."""

    file: Path
    arguments: str = ""

    @property
    def name(self) -> str:
        """The file."""
        return repr(str(self.file))

    def open(self) -> AbstractContextManager[SqliteReader]:
        """Open the journal for one read, because another process may replace the file."""
        return SqliteReader.open(self.file, steps=steps.STEPS)

    def listed(self, wanted: CallSelection, limit: int | None) -> Iterator[CallSummary]:
        """Yield the calls that match, or the newest of them: in the order of their ends, then the open ones."""
        with self.open() as reader:
            yield from map(summary_of, listed_calls(reader, wanted.filter, limit))

    def followed(self, wanted: CallSelection) -> Iterator[CallSummary]:
        """Yield the calls that match once they end or begin to wait for an approval from now on."""
        with self.open() as reader:
            follower = JournalFollower(reader, reader.head().position)

        def read_new(reader: SqliteReader) -> Iterator[CallSummary]:
            last = reader.head().position
            for call in _new_calls(reader, follower.position, last):
                if wanted.filter.matches(call):
                    yield summary_of(call)
            follower.position = last

        return follower.follow(read_new)

    def check_tool(self, tool: str | None) -> None:
        """Reject a tool that has no call, with a suggestion."""
        with self.open() as reader:
            check_tool(reader, tool)

    def like(self, part: str, limit: int) -> list[CallSummary]:
        """Return the calls whose ids, or whose records' ids, begin or end with a text, newest first."""
        with self.open() as reader:
            return [*map(summary_of, page_of_calls(reader, CallFilter(id_part=part), limit).calls)]

    def get(self, invocation_id: str) -> CallDetail:
        """Return everything that is recorded of a call."""
        with self.open() as reader:
            call = read_call(reader, InvocationId(invocation_id))
        return detail_of(call, None, open_call_notice(call, self.arguments))


def _new_calls(reader: SqliteReader, after: int, last: int) -> Iterator[ListedCall]:
    """Yield the calls that ended, or began to wait for an approval, between two positions."""
    while facts := reader.read(after, wanted=FactFilter(_FOLLOWED)):
        for position, fact in facts:
            if fact.invocation_id is not None and position <= last:
                recorded = [each for each in reader.facts_of(fact.invocation_id) if each[0] <= position]
                owner = None if fact.step.ends else reader.ownership(fact.invocation_id, SystemClock().moment())
                yield ListedCall(recorded, owner)
        after = facts[-1][0]


class ServerCalls(NamedTuple):
    """The calls of a server, with the methods of `JournalCalls`."""

    client: "Client"
    url: str
    arguments: str

    @property
    def name(self) -> str:
        """The address."""
        return repr(self.url)

    def listed(self, wanted: CallSelection, limit: int | None) -> Iterator[CallSummary]:
        """Yield the calls that match, or the newest of them: in the order of their ends, then the open ones."""
        return reversed([*islice(self.client.iter_calls(**wanted.query), limit)])

    def followed(self, wanted: CallSelection) -> Iterator[CallSummary]:
        """Yield the calls that match once they end or begin to wait for an approval from now on."""
        events = self.client.events()
        next(events)  # the stream is ready, and misses nothing from now on
        return (
            call
            for event in events
            if event.event == "call" and (event.data.get("approval_id") or event.data.get("status") in _ENDED)
            for call in self.client.calls(id_part=str(event.data["invocation_id"]), limit=1, **wanted.query).items
        )

    def check_tool(self, tool: str | None) -> None:
        """Accept every tool: a caller sees only its own calls."""

    def like(self, part: str, limit: int) -> list[CallSummary]:
        """Return the calls whose ids, or whose records' ids, begin or end with a text, newest first."""
        return self.client.calls(id_part=part, limit=limit).items

    def get(self, invocation_id: str) -> CallDetail:
        """Return everything that is recorded of a call."""
        return self.client.get(invocation_id)


@contextmanager
def open_calls(options: StoreUrlOptions) -> Generator[JournalCalls | ServerCalls]:
    """Open the calls of a server, or else those of a store, which is only read."""
    if options.url is None:
        yield JournalCalls(options.existing_file(), options.arguments)
        return
    from agenttool.cli.remote import open_server  # noqa: PLC0415 -- it loads the HTTP client

    with open_server(options.url) as client:
        yield ServerCalls(client, options.url, options.arguments)


def find_call(calls: JournalCalls | ServerCalls, part: str | None) -> str:
    """Return the id of the call that begins or ends with a text; without a text, that of the newest call.

    Raises:
        ConfigError: there is no such call, or there are several, which are listed.
    """
    found = calls.like(part or INVOCATION.compose(""), MAX_MATCHES if part else 1)
    if not found and part is None:
        raise ConfigError(f"there is no call in {calls.name} yet; make one first")
    if not found:
        raise ConfigError(f"no call in {calls.name} has an id like {part!r}; `{program_name()} log` shows their ids")
    if len(found) > 1:
        matches = "\n".join(printable(f"  {each.invocation_id}  {each.status}  {each.tool}") for each in found)
        raise ConfigError(f"several calls have an id like {part!r}; write more of it:\n{matches}")
    return found[0].invocation_id


def open_call_state(call: CallDetail, arguments: str) -> str:
    """Return what an open call waits for, or which process runs it; `arguments` name its store or server."""
    if call.notice or not call.approval_id:
        return call.notice or f"the process {call.process} runs it"
    return f"it waits for an answer: {program_name()} approvals answer {call.approval_id} allow{arguments}"


def open_call_notice(call: RecordedCall, store_arguments: str) -> str | None:
    """Return what an open call waits for, and the command that continues it; none if it runs or waits for an answer."""
    owner = call.owner
    if call.invocation.status.is_terminal:
        return None
    if owner is None:
        return f"no process runs it: check the journal with `{program_name()} verify{store_arguments}`"
    if owner.waits_for_tool or owner.is_answered:
        return _continuation(call, owner, store_arguments)
    if owner.waits_for is not None and owner.waits_for.startswith(RESULT_PREFIX):
        return f"{server_state(call.server)}; `{program_name()} serve` receives the result"
    return None


def _continuation(call: RecordedCall, owner: Ownership, store_arguments: str) -> str:
    done = "its answer is recorded; " if owner.is_answered else ""
    if not owner.waits_for_tool:
        return f"{done}its process ({owner.process}) is about to read it"
    if owner.process is not None and not owner.is_gone:
        remedy = "look whether its disk is full, or whether it hangs"
        return f"{done}its process ({owner.process}) runs, but has not renewed its lease: {remedy}"
    gone = "no process runs it" if owner.process is None else f"its process ({owner.process}) is gone"
    return f"{done}{gone}, so it {waiting_for_tools([tool_name(call.invocation.tool_id)], store_arguments)}"


def waiting_for_tools(tools: Iterable[str], store_arguments: str) -> str:
    """Return what the calls of a dead process wait for, and the commands that continue them."""
    names = ", ".join(dict.fromkeys(tools))
    recover = f"`{program_name()} approvals --from MODULE{store_arguments}`"
    return (
        f"waits for a process that has the tool {names}, such as {recover}, or `{program_name()} serve` with its source"
    )


def server_state(server: SourceStatus | None) -> str:
    """Return what the server of a waiting call does; if it does not answer, since when, why, and the next attempt."""
    if server is None or server.is_ready:
        return "its server works on it"
    return f"its server {server.source!r} {fault_state(server)}"


def fault_state(server: SourceStatus) -> str:
    """Return since when a server has not answered, why, and when it is tried again."""
    state = f"has not answered since {utc(server.since_ns)} ({server.fault})"
    if server.next_try_at_ns is None:
        return state
    is_past = server.next_try_at_ns < SystemClock().now_ns() - _LATE_NS
    next_try = "no process has tried it since" if is_past else "the next attempt is at"
    return f"{state}; {next_try} {utc(server.next_try_at_ns)}"
