"""The calls of the journal, one line each, in the order in which they ended; open calls come last."""

import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain, islice

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from agenttool.cli.event_log import JournalFollower
from agenttool.cli.format import duration, print_json, short_id, status_style
from agenttool.cli.output import print_text
from agenttool.history.listed_call import CallFilter, ListedCall, check_tool, listed_calls, tool_name
from agenttool.journal import steps
from agenttool.journal.steps import STEPS
from agenttool.ports.facts import Fact
from agenttool.stores.sqlite.fact_rows import FactFilter
from agenttool.stores.sqlite.reader import SqliteReader
from agenttool.world import SystemClock

MAX_RESULT_CHARS = 200
"""So many characters of a result are printed where the output is no terminal; on a terminal, one line."""

MAX_WIDTHS = {"time": 8, "call": 8, "tool": 32, "status": 19, "took": 8, "by": 32}
"""The columns before the result, and how wide each may make the others move."""

WIDE, MAX_TOOL = 110, 24
"""On a terminal with fewer columns, a longer name of a tool is cut."""

OWNER_INDENT = 10
"""Where the process of an open call begins, if it needs a line of its own."""

ALIGNED = 100
"""The first so many lines decide about the widths of the columns."""

_FOLLOWED = (steps.ASKED.name, *(step.name for step in STEPS.values() if step.ends))
"""The steps after which `--follow` prints a call."""


class CallLines:
    """Prints calls for people, and the date before the first line of a day."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._is_terminal = self._console.is_terminal
        self._widths = dict.fromkeys(MAX_WIDTHS, 0)
        self._day = ""

    def measure(self, calls: Iterable[ListedCall]) -> None:
        """Make the columns wide enough for some calls."""
        for call in calls:
            for name, cell in self._fitting(_cells(call)).items():
                self._widths[name] = max(self._widths[name], min(cell_len(cell), MAX_WIDTHS[name]))

    def print(self, call: ListedCall) -> None:
        """Print one call on one line; a terminal cuts it at its width."""
        day = f"{_moment(call):%Y-%m-%d}"
        if day != self._day:
            self._day = day
            self._write(Text(f"{day} UTC", style="bold"))
        cells = self._fitting(_cells(call))
        is_error = call.result is not None and call.result.is_error
        text = call.first_line[:MAX_RESULT_CHARS]
        padded = {name: self._padded(name, cell) for name, cell in cells.items() if self._widths[name]}
        if not self._is_terminal:  # without styles there is nothing to render, which takes most of the time
            self._console.file.write(f"{'  '.join((*padded.values(), text)).rstrip()}\n")
            return
        styles = {"call": "cyan", "status": status_style(call.status), "tool": "bold", "took": "dim", "by": "magenta"}
        line = Text()
        for name, cell in padded.items():
            line.append(f"{cell}  ", style=styles.get(name, ""))
        if call.owner is not None and cell_len(text) > self._console.width - line.cell_len:
            self._write(line)
            print_text(self._console, f"{'':{OWNER_INDENT}}{text}")  # what an operator needs is not cut off
            return
        self._write(line.append(text, style="red" if is_error else ""))

    def _fitting(self, cells: dict[str, str]) -> dict[str, str]:
        """Return the cells with a shorter name of the tool, where a terminal is narrow."""
        if not self._is_terminal or self._console.width >= WIDE or cell_len(cells["tool"]) <= MAX_TOOL:
            return cells
        return {**cells, "tool": f"{cells['tool'][: MAX_TOOL - 1]}…"}

    def _write(self, line: Text) -> None:
        self._console.print(line, no_wrap=True, overflow="ellipsis", crop=True)

    def _padded(self, name: str, cell: str) -> str:
        padding = " " * (self._widths[name] - cell_len(cell))
        return padding + cell if name == "took" else cell + padding


def _moment(call: ListedCall) -> datetime:
    return datetime.fromtimestamp(call.at_ns / 1e9, UTC)


def _cells(call: ListedCall) -> dict[str, str]:
    return {
        "time": f"{_moment(call):%H:%M:%S}",
        "call": short_id(str(call.facts[0][1].invocation_id)),
        "tool": tool_name(call.tool_id),
        "status": call.status.value,
        "took": duration(call.taken_ns),
        "by": call.people,
    }


class CallPrinter:
    """Prints the calls that match a filter."""

    def __init__(self, wanted: CallFilter, *, as_json: bool) -> None:
        self._wanted = wanted
        self._as_json = as_json
        self._lines = CallLines()

    def print_listed(self, reader: SqliteReader, limit: int | None, *, is_complete: bool) -> int:
        """Print the newest calls and return how many; if there are none and none will follow, say so.

        Raises:
            ConfigError: the journal has no call of the tool that is wanted; it suggests one.
        """
        calls, count = listed_calls(reader, self._wanted, limit), 0
        first = list(islice(calls, ALIGNED))
        self._lines.measure(() if self._as_json else first)
        for call in chain(first, calls):
            self._print(call)
            count += 1
        if count or not is_complete:
            sys.stdout.flush()
            return count
        check_tool(reader, self._wanted.tool)
        if not self._as_json:
            print_text(Console(stderr=True), "no call is open" if self._wanted.is_open else "no call matches", "dim")
        return count

    def print_new(self, reader: SqliteReader, follower: JournalFollower) -> bool:
        """Print the calls that have ended, or wait for approval, after a position, and advance it; always true."""
        last = reader.head().position
        for position, fact in _read_all(reader, follower.position, FactFilter(_FOLLOWED)):
            call = fact.invocation_id
            if call is None or position > last:
                continue
            facts = [each for each in reader.facts_of(call) if each[0] <= position]
            owner = None if fact.step.ends else reader.ownership(call, SystemClock().moment())
            if self._wanted.matches(listed := ListedCall(facts, owner)):
                self._print(listed)
        follower.position = last
        sys.stdout.flush()
        return True

    def _print(self, call: ListedCall) -> None:
        print_json(call.document()) if self._as_json else self._lines.print(call)


def _read_all(reader: SqliteReader, after: int, wanted: FactFilter) -> Iterator[tuple[int, Fact]]:
    while facts := reader.read(after, wanted=wanted):
        yield from facts
        after = facts[-1][0]
