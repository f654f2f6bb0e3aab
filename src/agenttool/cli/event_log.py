"""The events of the journal, one line each, from any position, and while others write."""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from agenttool.cli.format import print_json, short_id, status_style
from agenttool.cli.options import open_journal
from agenttool.cli.render import event_details, event_name
from agenttool.codec import to_json
from agenttool.errors import ConfigError, StoreError
from agenttool.history.listed_call import check_tool, is_tool, name_text, tool_name
from agenttool.history.recorded_call import find_call
from agenttool.journal.projection import events_of
from agenttool.journal.steps import STEPS
from agenttool.ports.facts import Fact
from agenttool.records import InvocationId, ToolEvent
from agenttool.stores.fact_codec import FactHead
from agenttool.stores.sqlite.fact_rows import FactFilter
from agenttool.stores.sqlite.reader import PORTION, SqliteReader

POLL_S = 0.2
"""How often `--follow` reads the journal."""

UNREADABLE_S = 30.0
"""A journal may be unreadable for this long, for example while a copy is written over it."""

MAX_HEADS = 1000
"""This many positions of the chain are remembered, to find where a replacement differs."""


class EventFilter(NamedTuple):
    """Which events are wanted: those of a tool, those that set a status, those within a time."""

    tool: str | None
    status: str | None
    since_ns: int | None
    until_ns: int | None

    @property
    def facts(self) -> FactFilter:
        """Selects the facts with wanted events."""
        named = tuple(step.name for step in STEPS.values() if self.status in step.statuses)
        is_all = self.tool is None and self.since_ns is None and self.until_ns is None
        return FactFilter(named, None if is_all else self._accepts, name_text(self.tool))

    def _accepts(self, head: FactHead) -> bool:
        return (
            (self.tool is None or is_tool(self.tool, head.tool_id))
            and (self.since_ns is None or head.at_ns >= self.since_ns)
            and (self.until_ns is None or head.at_ns < self.until_ns)
        )

    def matches(self, event: ToolEvent) -> bool:
        """Return whether an event of a selected fact is wanted."""
        return self.status is None or (event.data or {}).get("status") == self.status


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

    def newest(self, last: int, limit: int, wanted: "EventFilter") -> Iterator[LogEntry]:
        """Yield the newest events up to a position, oldest first, without reading earlier ones."""
        found: deque[LogEntry] = deque()
        before = last + 1
        while len(found) < limit and (facts := self._read_back(before, min(PORTION, max(limit, 16)))):
            for place, fact in facts:
                found.extendleft(each for each in reversed(tuple(_entries(place, fact))) if wanted.matches(each.event))
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
    count: int = 0

    def print_newest(self, source: EventSource, position: int, *, follow: bool) -> None:
        """Print the newest events up to a position."""
        for entry in source.newest(position, self.remaining or 0, self.wanted):
            self.print_entry(entry)
            self.count += 1
        self.remaining = None if follow else 0

    def print_new(self, source: EventSource, follower: JournalFollower) -> bool:
        """Print the events after the follower's position and advance it; return whether more are wanted."""
        last = source.reader.head().position
        for entry in source.after(follower.position) if self.remaining != 0 else ():
            follower.position = entry.resume_position
            if self.wanted.matches(entry.event):
                self.print_entry(entry)
                self.count += 1
                self.remaining = None if self.remaining is None else max(self.remaining - 1, 0)
            # A fact is printed whole; otherwise a reader with a small limit would never get past it.
            if self.remaining == 0 and entry.is_last:
                break
        else:
            follower.position = max(follower.position, last)
        sys.stdout.flush()
        return self.remaining != 0


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


def print_events(  # noqa: PLR0913 -- the options of the command
    store: str | None,
    wanted: EventFilter,
    limit: int | None,
    *,
    call: str | None,
    after: int | None,
    follow: bool,
    as_json: bool,
) -> None:
    """Print the newest events, or those after a position, of all calls or of one whose id has a part.

    Raises:
        ConfigError: the call or the tool is unknown.
    """
    with open_journal(store) as reader:
        printer = _EventPrinter(wanted, _print_as_json if as_json else _line_printer(), limit)
        chosen = None if call is None else find_call(reader, call).invocation.invocation_id
        source = EventSource(reader, chosen, wanted.facts)
        follower = JournalFollower(reader, after or 0)
        if after is None and limit is not None:
            follower.position = reader.head().position
            printer.print_newest(source, follower.position, follow=follow)
        if not follow:
            printer.print_new(source, follower)
            if not printer.count:
                check_tool(reader, wanted.tool)
            return
    follower.follow(lambda reader: printer.print_new(source._replace(reader=reader), follower))
