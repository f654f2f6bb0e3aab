"""`agenttool log`: calls or events of the journal, one line each, from any position, and while others write."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Annotated

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agenttool.cli.event_log import EventFilter, JournalFollower, print_events
from agenttool.cli.format import duration, print_json, short_id, status_style
from agenttool.cli.options import MAX_PAGE, StoreOption, UrlOption, open_journal, server_url
from agenttool.cli.output import figures, hint, plain_table, print_blocks, print_text
from agenttool.cli.progress import WorkBar
from agenttool.errors import ConfigError
from agenttool.history.listed_call import (
    CallFilter,
    ListedCall,
    check_status,
    check_tool,
    listed_calls,
    parse_time,
    tool_name,
)
from agenttool.journal import steps
from agenttool.records import InvocationStatus
from agenttool.stores.fact_codec import FactHead
from agenttool.stores.sqlite.fact_rows import FactFilter
from agenttool.stores.sqlite.reader import PORTION, SqliteReader
from agenttool.world import SystemClock

TERMINAL_LIMIT = 50
"""So many calls are printed on a terminal if no option selects calls."""

MAX_RESULT_CHARS = 200
"""How many characters of a result are printed if the output is not a terminal; a terminal shows one line."""

MAX_WIDTHS = {"time": 8, "call": 8, "tool": 32, "status": 19, "took": 8, "by": 32}
"""The columns before the result, and the widest cell of each that later columns are aligned to."""

WIDE, MAX_TOOL = 110, 24
"""On a terminal with fewer than `WIDE` columns, the name of a tool is cut after `MAX_TOOL` characters."""

OWNER_INDENT = 10
"""The indentation of the process of an open call, if it is printed on its own line."""

ALIGNED = 100
"""How many lines, from the first on, decide the widths of the columns."""

_FOLLOWED = (steps.ASKED.name, *(step.name for step in steps.STEPS.values() if step.ends))
"""The steps after which `--follow` prints a call."""


def log(  # noqa: PLR0913 -- one for each option of the command
    *,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="At or after this time: 30min, 2h, 7d, or a date")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Before this time")] = None,
    tool: Annotated[str | None, typer.Option(metavar="NAME", help="Only this tool; * matches any characters")] = None,
    status: Annotated[
        str | None,
        typer.Option(
            metavar="STATUS",
            help="Only calls with this status; --events: events that set it",
            autocompletion=lambda: [each.value for each in InvocationStatus],
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Only calls that this actor made, or that this person approved, denied or canceled"
        ),
    ] = None,
    containing: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Only calls with this text in their inputs or results, in any case"),
    ] = None,
    is_open: Annotated[
        bool, typer.Option("--open", help="Only calls that have not ended, with their processes")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the newest N")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new ones as they arrive, until Ctrl-C")] = False,
    events: Annotated[bool, typer.Option("--events", help="Print every event, with its position")] = False,
    after: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="With --events or --sizes: begin after this position")
    ] = None,
    call: Annotated[str | None, typer.Option(metavar="ID", help="With --events: only this call")] = None,
    sizes: Annotated[bool, typer.Option("--sizes", help="Only print the size of the journal, tool by tool")] = False,
    store: StoreOption = None,
    url: UrlOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON Lines")] = False,
) -> None:
    """List calls, one line each, by time, tool, status, user or text.

    A line has the time in UTC, the end of the id, the tool, the status, the duration, the
    actor, the approver, and the first line of the result or error. Calls are in the order
    in which they ended, so the newest is last. Open calls follow, in the order of their
    newest events. On a terminal, and without a filter, only the newest 50 are printed.
    --containing does not search masked values and payloads outside of the journal.
    """
    check_status(status)
    server = server_url(url, store=store, follow=follow, events=events, after=after, call=call, sizes=sizes)
    if server is not None:
        number = min(limit or TERMINAL_LIMIT, MAX_PAGE)
        times = {"since": since, "until": until}
        wanted_calls = {"tool": tool, "status": status, "actor": by, "containing": containing, **times}
        from agenttool.cli.remote import print_calls  # noqa: PLC0415 -- it loads the HTTP client

        print_calls(server, number, as_json=as_json, is_open=is_open, **wanted_calls)
        return
    moments = (parse_time("--since", since), parse_time("--until", until))
    is_filtered = any(each is not None for each in (tool, status, by, containing, call, since, until))
    _refuse_combination(
        (sizes, "--sizes", is_filtered or follow or limit or is_open or events),
        (events, "--events", by is not None or containing is not None or is_open),
        (not events and not sizes, "a list of calls", after is not None or call is not None),
        (follow, "--follow", until is not None or is_open),
    )
    with suppress(KeyboardInterrupt):  # the way to end --follow
        if sizes:
            with open_journal(store) as reader:
                _print_sizes(reader, after or 0, as_json=as_json)
        elif events:
            wanted_events = EventFilter(tool, status, *moments)
            print_events(store, wanted_events, limit, call=call, after=after, follow=follow, as_json=as_json)
        else:
            wanted = CallFilter(
                tool=tool,
                status=status,
                since_ns=moments[0],
                until_ns=moments[1],
                by=by,
                containing=containing,
                is_open=is_open,
            )
            is_short = not (is_filtered or limit or is_open or as_json) and sys.stdout.isatty()
            limit = TERMINAL_LIMIT if is_short else limit
            count = _print_calls(store, wanted, limit, follow=follow, as_json=as_json)
            if is_short and count == limit:
                hint(f"these are the newest {limit} calls; --since, --limit and other options show more")


_ADVICE = {
    "--sizes": "counts everything after a position; leave out --follow and all filters",
    "--events": "cannot be combined with --by, --containing and --open, which select calls; leave one of them out",
    "a list of calls": "has no --after and no --call; add --events, or use `agenttool show ID`",
    "--follow": "prints what comes; leave out --until and --open",
}


def _refuse_combination(*checks: tuple[bool, str, object]) -> None:
    for applies, option, conflicts in checks:
        if applies and conflicts:
            raise ConfigError(f"{option} {_ADVICE[option]}")


def _print_calls(store: str | None, wanted: CallFilter, limit: int | None, *, follow: bool, as_json: bool) -> int:
    """Print the newest calls and return how many; then, if asked, those that end or wait for approval.

    Raises:
        ConfigError: the journal has no call of the tool that is wanted; it suggests one.
    """
    lines = CallLines()

    def print_call(call: ListedCall) -> None:
        print_json(call.document()) if as_json else lines.print(call)

    with open_journal(store) as reader:
        follower = JournalFollower(reader, reader.head().position)
        calls, count = listed_calls(reader, wanted, limit), 0
        first = list(islice(calls, ALIGNED))
        lines.measure(() if as_json else first)
        for call in chain(first, calls):
            print_call(call)
            count += 1
        sys.stdout.flush()
        if not count and not follow:
            check_tool(reader, wanted.tool)
            if not as_json:
                hint("no call is open" if wanted.is_open else "no call matches")

    def print_new(reader: SqliteReader) -> bool:
        last = reader.head().position
        for call in _new_calls(reader, follower.position, last):
            if wanted.matches(call):
                print_call(call)
        follower.position = last
        sys.stdout.flush()
        return True

    if follow:
        follower.follow(print_new)
    return count


def _new_calls(reader: SqliteReader, after: int, last: int) -> Iterator[ListedCall]:
    """Yield the calls that ended, or began to wait for an approval, between two positions."""
    while facts := reader.read(after, wanted=FactFilter(_FOLLOWED)):
        for position, fact in facts:
            if fact.invocation_id is not None and position <= last:
                recorded = [each for each in reader.facts_of(fact.invocation_id) if each[0] <= position]
                owner = None if fact.step.ends else reader.ownership(fact.invocation_id, SystemClock().moment())
                yield ListedCall(recorded, owner)
        after = facts[-1][0]


class CallLines:
    """Prints calls for people, and the date before the first line of a day."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._is_terminal = self._console.is_terminal
        self._widths = dict.fromkeys(MAX_WIDTHS, 0)
        self._day = ""

    def measure(self, calls: Iterable[ListedCall]) -> None:
        """Widen the columns so that these calls fit."""
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
        if not self._is_terminal:  # rendering takes most of the time, and is needed only for styles
            self._console.file.write(f"{'  '.join((*padded.values(), text)).rstrip()}\n")
            return
        styles = {"call": "cyan", "status": status_style(call.status), "tool": "bold", "took": "dim", "by": "magenta"}
        line = Text()
        for name, cell in padded.items():
            line.append(f"{cell}  ", style=styles.get(name, ""))
        if call.owner is not None and cell_len(text) > self._console.width - line.cell_len:
            self._write(line)
            print_text(self._console, f"{'':{OWNER_INDENT}}{text}")  # not cut off, because an operator needs it
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
