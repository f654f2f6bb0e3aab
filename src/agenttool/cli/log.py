"""`agenttool log`: the events of the journal, one line each, from any position, and while others write."""

import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache, partial
from typing import Annotated, NamedTuple, TypeAlias

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agenttool.cli.format import print_json, short_id, status_style, tool_name
from agenttool.cli.options import JournalOption, open_journal
from agenttool.cli.output import figures, fixed, plain_table, print_blocks
from agenttool.cli.progress import WorkBar
from agenttool.cli.recorded_call import find_call, owner_text
from agenttool.cli.render import event_details, event_name
from agenttool.codec import to_json
from agenttool.codec.moments import timestamp
from agenttool.errors import ConfigError, StoreError
from agenttool.journal.projection import events_of, invocation_of
from agenttool.journal.steps import STEPS
from agenttool.policy.wildcards import fits
from agenttool.ports.facts import Fact, Step
from agenttool.records import InvocationId, InvocationStatus, JsonObject, ToolEvent, ToolId
from agenttool.stores.fact_codec import FactHead
from agenttool.stores.sqlite.fact_rows import FactFilter
from agenttool.stores.sqlite.reader import PORTION, SqliteReader
from agenttool.world import SystemClock

POLL_S = 0.2
"""How often `--follow` reads the journal."""

UNREADABLE_S = 30.0
"""A journal may be unreadable for this long, for example while a copy is written over it."""

MAX_HEADS = 1000
"""This many positions of the chain are remembered, to find where a replacement differs."""

_PLAIN = re.compile(r"[A-Za-z0-9_.:-]+")
"""The parts of a pattern that are the same in the journal."""

EventFilter: TypeAlias = Callable[[ToolEvent], bool]


def log(  # noqa: PLR0913 -- one for each option of the command
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new events until Ctrl-C")] = False,
    after: Annotated[int | None, typer.Option(min=0, metavar="N", help="Begin after this position")] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="The newest N events; with --after, the first")
    ] = None,
    tool: Annotated[str | None, typer.Option(metavar="NAME", help="Only this tool; * matches any characters")] = None,
    status: Annotated[str | None, typer.Option(metavar="STATUS", help="Only events that set this status")] = None,
    call: Annotated[str | None, typer.Option(metavar="ID", help="Only this call")] = None,
    is_open: Annotated[bool, typer.Option("--open", help="Only list the calls that have not ended")] = False,
    sizes: Annotated[bool, typer.Option("--sizes", help="Only print the size of the journal, tool by tool")] = False,
    store: JournalOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print events as JSON Lines, with their positions")] = False,
) -> None:
    """Print events, one line each, and follow the journal while others write."""
    if sizes and (follow or limit or tool or status or call or is_open):
        raise ConfigError("--sizes counts everything after a position; leave out --follow and all filters")
    if is_open and (follow or limit or tool or status or call or after is not None):
        raise ConfigError("--open lists every open call; leave out --follow, --after and all filters")
    if status is not None and status not in list(InvocationStatus):
        raise ConfigError(f"unknown status {status!r}; use one of {', '.join(InvocationStatus)}")
    with suppress(KeyboardInterrupt):  # the way to end --follow
        with open_journal(store) as reader:
            if sizes or is_open:
                _print_sizes(reader, after or 0, as_json=as_json) if sizes else _print_open(reader, as_json=as_json)
                return
            wanted = partial(_is_wanted, tool, status)
            printer = _EventPrinter(wanted, _print_as_json if as_json else _line_printer(), limit)
            chosen = None if call is None else find_call(reader, call).invocation.invocation_id
            source = EventSource(reader, chosen, _fact_filter(tool, status))
            follower = JournalFollower(reader, after or 0)
            if after is None and limit is not None:
                follower.position = reader.head().position
                printer.print_newest(source, follower.position, follow=follow)
            if not follow:
                printer.print_new(source, follower)
                return
        follower.follow(lambda reader: printer.print_new(source._replace(reader=reader), follower))


class LogEntry(NamedTuple):
    """An event, the position of its fact, and whether it is the last event of that fact."""

    position: int
    event: ToolEvent
    is_last: bool

    @property
    def resume_position(self) -> int:
        """The position to continue after; a reader that stops within a fact gets the whole fact again."""
        return self.position if self.is_last else self.position - 1


class EventSource(NamedTuple):
    """The events of the facts that a filter selects, in the whole journal or in one call; no other facts are read."""

    reader: SqliteReader
    call: InvocationId | None
    facts: FactFilter

    def after(self, position: int) -> Iterator[LogEntry]:
        """Yield the events after a position, reading them in portions."""
        while facts := self._read(position):
            for place, fact in facts:
                yield from _entries(place, fact)
            position = facts[-1][0]

    def newest(self, last: int, limit: int, wanted: EventFilter) -> Iterator[LogEntry]:
        """Yield the newest events up to a position, oldest first, without reading earlier ones."""
        found: deque[LogEntry] = deque()
        before = last + 1
        while len(found) < limit and (facts := self._read_back(before, min(PORTION, max(limit, 16)))):
            for place, fact in facts:
                found.extendleft(each for each in reversed(tuple(_entries(place, fact))) if wanted(each.event))
            before = facts[-1][0]
        yield from tuple(found)[-limit:]

    def _read(self, after: int) -> Sequence[tuple[int, Fact]]:
        if self.call is None:
            return self.reader.read(after, wanted=self.facts)
        return [each for each in self.reader.facts_of(self.call) if each[0] > after]

    def _read_back(self, before: int, limit: int) -> Sequence[tuple[int, Fact]]:
        if self.call is None:
            return self.reader.read_back(before, limit, self.facts)
        return [each for each in reversed(self.reader.facts_of(self.call)) if each[0] < before]


def _entries(position: int, fact: Fact) -> Iterator[LogEntry]:
    events = tuple(events_of(fact, position=position))
    return (LogEntry(position, event, event is events[-1]) for event in events)


class JournalFollower:
    """Reads a journal again and again, while other processes write it, or replace it by a copy.

    The file is opened for each read and closed in between. A reader that held it open would miss everything written to
    a replacement, would mix two files, and could write the old write-ahead log into the new file when it closes.

    Attributes:
        position: the position of the last fact that was read; the reader advances it.
    """

    def __init__(self, reader: SqliteReader, position: int) -> None:
        """Start with an open journal and the position to continue after."""
        self.position = position
        self._file = reader.path
        self._heads = deque(reader.heads(MAX_HEADS), maxlen=MAX_HEADS)

    def follow(self, read_new: Callable[[SqliteReader], bool]) -> None:
        """Call `read_new` now and whenever the journal has changed, until it returns false.

        Raises:
            ConfigError, StoreError: the journal was unreadable for `UNREADABLE_S`.
        """
        readable_at, last = time.monotonic(), None
        while True:
            try:
                with SqliteReader.open(self._file, steps=STEPS) as reader:
                    self._check_chain(reader)
                    head = reader.head()
                    if head != last:
                        if not read_new(reader):
                            return
                        self._heads.append(head)
                    readable_at, last = time.monotonic(), head
            except (ConfigError, StoreError):
                if time.monotonic() - readable_at > UNREADABLE_S:
                    raise
            time.sleep(POLL_S)

    def _check_chain(self, reader: SqliteReader) -> None:
        """Detect a replaced journal: return to the last position that both chains share, and print that."""
        read_up_to = self._heads[-1].position
        while self._heads and not reader.holds(self._heads[-1]):
            self._heads.pop()
        if self._heads and self._heads[-1].position == read_up_to:
            return
        known = self._heads[-1] if self._heads else reader.head()
        self._heads.append(known)
        self.position = min(self.position, known.position)
        sys.stdout.flush()
        problem = f"the journal was replaced: it is not the one that was read up to {read_up_to}"
        sys.stderr.write(f"{problem}; continuing after {self.position}, --after 0 prints all of it\n")


@dataclass(slots=True)
class _EventPrinter:
    """Prints the events that match a filter, until `remaining` of them are printed."""

    wanted: EventFilter
    print_entry: Callable[[LogEntry], None]
    remaining: int | None

    def print_newest(self, source: EventSource, position: int, *, follow: bool) -> None:
        """Print the newest events up to a position."""
        for entry in source.newest(position, self.remaining or 0, self.wanted):
            self.print_entry(entry)
        self.remaining = None if follow else 0

    def print_new(self, source: EventSource, follower: JournalFollower) -> bool:
        """Print the events after the follower's position and advance it; return whether more are wanted."""
        last = source.reader.head().position
        for entry in source.after(follower.position) if self.remaining != 0 else ():
            follower.position = entry.resume_position
            if self.wanted(entry.event):
                self.print_entry(entry)
                self.remaining = None if self.remaining is None else max(self.remaining - 1, 0)
            # A fact is printed whole; otherwise a reader with a small limit would never get past it.
            if self.remaining == 0 and entry.is_last:
                break
        else:
            follower.position = max(follower.position, last)
        sys.stdout.flush()
        return self.remaining != 0


def _fact_filter(tool: str | None, status: str | None) -> FactFilter:
    """Select the facts with wanted events."""
    named = [] if status is None else [step.name for step in STEPS.values() if _sets(step, status)]
    # The longest plain part of a pattern is a part of the tool's id.
    text = max(_PLAIN.findall(tool or ""), key=len, default="")
    return FactFilter(tuple(named), None if tool is None else partial(_is_tool, tool), text.encode())


def _sets(step: Step, status: str) -> bool:
    return any(status == each for _, each in step.transitions)


@cache
def _is_tool(pattern: str, tool_id: ToolId | None) -> bool:
    name = tool_name(tool_id)
    return any(fits(pattern, each) for each in (name, name.rpartition(".")[2], tool_id or ""))


def _is_wanted(tool: str | None, status: str | None, event: ToolEvent) -> bool:
    is_status = status is None or (event.data or {}).get("status") == status
    return is_status and (tool is None or _is_tool(tool, event.tool_id))


def _print_as_json(entry: LogEntry) -> None:
    print_json({"position": entry.resume_position, "event": to_json(entry.event)})


def _line_printer() -> Callable[[LogEntry], None]:
    """Return a function that prints lines for a terminal, and the date before the first line of a day."""
    console = Console(highlight=False)
    is_plain = console.color_system is None
    current = ""

    def print_line(line: Text) -> None:
        if is_plain:  # without styles there is nothing to render, which takes most of the time
            console.file.write(f"{line.plain}\n")
        else:
            console.print(line, soft_wrap=True)

    def print_entry(entry: LogEntry) -> None:
        nonlocal current
        moment = datetime.fromisoformat(entry.event.time).astimezone(UTC)
        if (day := f"{moment:%Y-%m-%d}") != current:
            current = day
            print_line(Text(f"{day} UTC", style="bold"))
        print_line(_event_line(entry.position, moment, entry.event))

    return print_entry


def _event_line(position: int, moment: datetime, event: ToolEvent) -> Text:
    data = event.data or {}
    about = tool_name(event.tool_id) or str(data.get("name") or data.get("surface_id") or "")
    line = Text(f"{position:>6} ", style="dim")
    line.append(f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}  ", style="not dim")
    line.append(f"{short_id(event.invocation_id or ''):8}  ", style="not dim cyan")
    style = status_style(str(data.get("status"))) if event.event_type.is_terminal else "default"
    line.append(f"{event_name(event):20}  ", style=f"not dim {style}")
    line.append(about, style="not dim")
    details = event_details(event).removeprefix(about).strip()
    return line.append(f"  {details}" if details else "", style="dim")


def _print_open(reader: SqliteReader, *, as_json: bool) -> None:
    """Print each open call, the oldest first: its tool and status, since when, and the process that owns it."""
    owners = sorted(reader.open_owners(SystemClock().moment()))
    table = plain_table("call", "tool", fixed("status"), fixed("since (UTC)"), fixed("process"))
    for call, owner in owners:
        facts = [fact for _, fact in reader.facts_of(call)]
        invocation = invocation_of(facts)
        tool, status = ("", "unknown") if invocation is None else (tool_name(invocation.tool_id), invocation.status)
        since = timestamp(facts[-1].at_ns) if facts else ""
        if as_json:
            found: JsonObject = {"invocation_id": call, "tool": tool, "status": status, "since": since}
            print_json({**found, **owner._asdict(), "process": owner.process})
        else:
            state = Text(status, style=status_style(status))
            table.add_row(
                Text(short_id(call)), Text(tool), state, since[:19].replace("T", " "), Text(owner_text(owner))
            )
    if not as_json:
        print_blocks([table] if owners else ["no call is open"])


@dataclass(slots=True)
class ToolShare:
    """The part of the journal that belongs to one tool, or to one step without a tool.

    Attributes:
        calls: how many calls began in the range that was read.
        largest: the call, or the step, of the largest fact.
    """

    about: str
    calls: int = 0
    facts: int = 0
    bytes: int = 0
    largest: str = ""
    largest_bytes: int = 0

    def add(self, fact: FactHead, size: int) -> None:
        """Count one fact."""
        self.calls += fact.invocation_id is not None and fact.sequence == 0
        self.facts += 1
        self.bytes += size
        if size > self.largest_bytes:
            self.largest, self.largest_bytes = fact.invocation_id or fact.step, size


def _print_sizes(reader: SqliteReader, after: int, *, as_json: bool) -> None:
    """Print the share of each tool, largest first; memory grows with the number of tools only."""
    found: dict[str, ToolShare] = {}
    count = 0
    with WorkBar(reader.head().position - reader.anchor().position) as bar:
        for fact, size in reader.sizes(after):
            key = fact.tool_id or fact.step
            share = found.get(key)
            if share is None:
                about = tool_name(fact.tool_id) or f"({fact.step.replace('_', ' ')})"
                share = found[key] = ToolShare(about)
            share.add(fact, size)
            count += 1
            if not count % PORTION:
                bar.advance(PORTION)
    shares = sorted(found.values(), key=lambda share: -share.bytes)
    if not as_json:
        print_blocks([_sizes_table(shares)])
    for share in shares if as_json else ():
        print_json(asdict(share))


def _sizes_table(shares: list[ToolShare]) -> Table:
    table = plain_table(figures("bytes"), figures("calls"), figures("facts"), "about", "largest")
    for share in shares:
        counts = (f"{share.bytes:,}", f"{share.calls:,}", f"{share.facts:,}")
        largest = f"{share.largest_bytes:,}" + (f" in {short_id(share.largest)}" if share.calls else "")
        table.add_row(*counts, Text(share.about), Text(largest, style="dim"))
    totals = (sum(s.bytes for s in shares), sum(s.calls for s in shares), sum(s.facts for s in shares))
    table.add_row(*(f"{total:,}" for total in totals), Text("total", style="bold"), "")
    return table
