"""The events of the journal, one line each, from any position, and while others write."""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TypeVar

from rich.text import Text

from agenttool.cli.call_lines import DayLines
from agenttool.cli.format import print_json, short_id, status_style
from agenttool.cli.output import is_json
from agenttool.cli.render import event_details, event_name
from agenttool.codec import to_json
from agenttool.errors import ConfigError, StoreError
from agenttool.history.listed_call import check_tool, is_tool, name_text, tool_name
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

_T = TypeVar("_T")

MAX_HEADS = 1000
"""This many positions of the chain are remembered, to find where a replacement differs."""


class LogEntry(NamedTuple):
    """An event, the position of its fact, and whether it is the last event of that fact."""

    position: int
    event: ToolEvent
    is_last: bool

    @property
    def resume_position(self) -> int:
        """The position to continue after; a reader that stops within a fact gets the whole fact again."""
        return self.position if self.is_last else self.position - 1


class EventFilter(NamedTuple):
    """Which events are wanted: those of a tool, those that set a status, those within a time, those of one call."""

    tool: str | None
    status: str | None
    since_ns: int | None
    until_ns: int | None
    call: InvocationId | None = None

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

    def matches(self, entry: LogEntry) -> bool:
        """Return whether an event of a selected fact is wanted."""
        return self.status is None or (entry.event.data or {}).get("status") == self.status

    def after(self, reader: SqliteReader, position: int) -> Iterator[LogEntry]:
        """Yield all events of the selected facts after a position, reading them in portions."""
        while facts := self._read(reader, position):
            for place, fact in facts:
                yield from _entries(place, fact)
            position = facts[-1][0]

    def newest(self, reader: SqliteReader, last: int, limit: int) -> Iterator[LogEntry]:
        """Yield the newest wanted events up to a position, oldest first, without reading earlier ones."""
        found: deque[LogEntry] = deque()
        before = last + 1
        while len(found) < limit and (facts := self._read_back(reader, before, min(PORTION, max(limit, 16)))):
            for place, fact in facts:
                found.extendleft(filter(self.matches, reversed(_entries(place, fact))))
            before = facts[-1][0]
        yield from tuple(found)[-limit:]

    def _read(self, reader: SqliteReader, after: int) -> Sequence[tuple[int, Fact]]:
        if self.call is None:
            return reader.read(after, wanted=self.facts)
        return [each for each in reader.facts_of(self.call) if each[0] > after]

    def _read_back(self, reader: SqliteReader, before: int, limit: int) -> Sequence[tuple[int, Fact]]:
        if self.call is None:
            return reader.read_back(before, limit, self.facts)
        return [each for each in reversed(reader.facts_of(self.call)) if each[0] < before]


def _entries(position: int, fact: Fact) -> list[LogEntry]:
    events = tuple(events_of(fact, position=position))
    return [LogEntry(position, event, event is events[-1]) for event in events]


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

    def follow(self, read_new: Callable[[SqliteReader], Iterator[_T]]) -> Iterator[_T]:
        """Yield what `read_new` yields, now and whenever the journal has changed.

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
                        yield from read_new(reader)
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


def _print_line(lines: DayLines, entry: LogEntry) -> None:
    event, data = entry.event, entry.event.data or {}
    moment = datetime.fromisoformat(event.time).astimezone(UTC)
    about = tool_name(event.tool_id) or str(data.get("name") or data.get("surface_id") or "")
    details = event_details(event).removeprefix(about).strip()
    line = Text.assemble(
        (f"{entry.position:>6} ", "dim"),
        f"{moment:%H:%M:%S.%f}"[:-3] + "  ",
        (f"{short_id(event.invocation_id or ''):8}  ", "cyan"),
        (f"{event_name(event):20}  ", status_style(str(data.get("status"))) if event.event_type.is_terminal else ""),
        about,
        (f"  {details}" if details else "", "dim"),
    )
    lines.print(f"{moment:%Y-%m-%d}", line)


def _print_until(
    entries: Iterator[LogEntry], wanted: EventFilter, limit: int | None, show: Callable[[LogEntry], None]
) -> int:
    """Print wanted events and return how many; a limit ends it after a whole fact, or a reader would never pass it."""
    count = 0
    for entry in entries:
        if wanted.matches(entry):
            show(entry)
            count += 1
        if limit is not None and count >= limit and entry.is_last:
            break
    return count


def print_events(file: Path, wanted: EventFilter, limit: int | None, *, after: int | None, follow: bool) -> None:
    """Print the newest events, or those after a position; then, if asked, new ones.

    Raises:
        ConfigError: the tool is unknown.
    """
    lines = DayLines()

    def show(entry: LogEntry) -> None:
        if is_json():
            print_json({"position": entry.resume_position, "event": to_json(entry.event)})
        else:
            _print_line(lines, entry)

    def read_new(reader: SqliteReader) -> Iterator[LogEntry]:
        last = reader.head().position
        for entry in wanted.after(reader, follower.position):
            follower.position = entry.resume_position
            yield entry
        follower.position = max(follower.position, last)
        sys.stdout.flush()

    with SqliteReader.open(file, steps=STEPS) as reader:
        follower = JournalFollower(reader, after or 0)
        if after is None and limit is not None:
            follower.position = reader.head().position
            count = _print_until(wanted.newest(reader, follower.position, limit), wanted, None, show)
            limit = None
        else:
            count = 0 if follow else _print_until(read_new(reader), wanted, limit, show)
        if not count and not follow:
            check_tool(reader, wanted.tool)
    if follow:
        _print_until(follower.follow(read_new), wanted, limit, show)
