"""`agenttool log`: calls or events of the journal, one line each, from any position, and while others write."""

import sys
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass
from itertools import chain, islice

from agenttool.cli.call_lines import ALIGNED, CallLines
from agenttool.cli.call_sources import CallSelection, JournalCalls, ServerCalls, find_call, open_calls
from agenttool.cli.event_log import EventFilter, print_events
from agenttool.cli.format import document_of, print_json, short_id
from agenttool.cli.options import StoreUrlOptions, flag, option
from agenttool.cli.output import figures, hint, is_json, plain_table, print_blocks
from agenttool.cli.progress import WorkBar
from agenttool.errors import ConfigError
from agenttool.history.listed_call import tool_name
from agenttool.records import InvocationId
from agenttool.stores.fact_codec import FactHead
from agenttool.stores.sqlite.reader import PORTION

TERMINAL_LIMIT = 50
"""So many calls are printed on a terminal if no option selects calls."""


def log(  # noqa: PLR0913 -- one for each option of the command
    *,
    wanted: CallSelection,
    limit: int | None = option("--limit N", "Only the newest N", low=1),
    follow: bool = flag("--follow -f", "Print new ones as they arrive, until Ctrl-C"),
    events: bool = flag("--events", "Print every event, with its position"),
    after: int | None = option("--after N", "With --events or --sizes: begin after this position", low=0),
    call: str | None = option("--call ID", "With --events: only this call"),
    sizes: bool = flag("--sizes", "Only print the size of the journal, tool by tool"),
    options: StoreUrlOptions,
) -> None:
    """List calls, one line each, by time, tool, status, user or text.

    A line has the time in UTC, the end of the id, the tool, the status, the duration, the
    actor, the approver, and the first line of the result or error. Calls are in the order
    in which they ended, so the newest is last. Open calls follow, in the order of their
    newest events. On a terminal, and without a filter, only the newest 50 are printed.
    --containing does not search masked values and payloads outside of the journal.
    """
    times = wanted.filter
    is_filtered = call is not None or any(each not in (None, False) for each in astuple(wanted))
    is_short = not (is_filtered or limit or is_json()) and sys.stdout.isatty()
    options = options.resolved({"events": events, "after": after, "call": call, "sizes": sizes})
    _refuse_combination(
        (sizes, "--sizes", is_filtered or follow or limit or events),
        (events, "--events", wanted.by is not None or wanted.containing is not None or wanted.is_open),
        (not events and not sizes, "a list of calls", after is not None or call is not None),
        (follow, "--follow", wanted.until is not None or wanted.is_open),
    )
    with suppress(KeyboardInterrupt), open_calls(options) as calls:  # Ctrl-C ends --follow
        if sizes and isinstance(calls, JournalCalls):
            _print_sizes(calls, after or 0)
        elif events and isinstance(calls, JournalCalls):
            chosen = None if call is None else InvocationId(find_call(calls, call))
            selected = EventFilter(wanted.tool, wanted.status, times.since_ns, times.until_ns, chosen)
            print_events(calls.file, selected, limit, after=after, follow=follow)
        else:
            limit = TERMINAL_LIMIT if is_short else limit
            count = _print_calls(calls, wanted, limit, follow=follow)
            if is_short and count == limit:
                hint(f"these are the newest {limit} calls; --since, --limit and other options show more")


_ADVICE = {
    "--sizes": "counts everything after a position; leave out --follow and all filters",
    "--events": "cannot be combined with --by, --containing and --open, which select calls; leave one of them out",
    "a list of calls": "has no --after and no --call; add --events, or use `agenttool show ID`",
    "--follow": "prints what comes; leave out --until and --open",
}


def _refuse_combination(*checks: tuple[bool, str, object]) -> None:
    for applies, name, conflicts in checks:
        if applies and conflicts:
            raise ConfigError(f"{name} {_ADVICE[name]}")


def _print_calls(source: JournalCalls | ServerCalls, wanted: CallSelection, limit: int | None, *, follow: bool) -> int:
    """Print the newest calls, and return how many; then, if asked, those that end or begin to wait for approval.

    Raises:
        ConfigError: the journal has no call of the tool that is wanted; it suggests one.
    """
    lines = CallLines()
    new = source.followed(wanted) if follow else ()
    calls = iter(source.listed(wanted, limit))
    first = [*islice(calls, ALIGNED)]
    lines.measure(() if is_json() else first)
    count = 0
    for call in chain(first, calls, new):
        count += 1
        print_json(document_of(call)) if is_json() else lines.print_call(call)
        if follow:
            sys.stdout.flush()
    if not first and not follow:
        source.check_tool(wanted.tool)
        if not is_json():
            hint("no call is open" if wanted.is_open else "no call matches")
    return count


def _print_sizes(journal: JournalCalls, after: int) -> None:
    """Print the share of each tool, largest first; memory grows with the number of tools only."""
    found: dict[str, ToolShare] = {}
    with journal.open() as reader, WorkBar(reader.head().position - reader.anchor().position) as bar:
        for count, (fact, size) in enumerate(reader.sizes(after), 1):
            key = fact.tool_id or fact.step
            if key not in found:
                found[key] = ToolShare(tool_name(fact.tool_id) or f"({fact.step.replace('_', ' ')})")
            found[key].add(fact, size)
            if not count % PORTION:
                bar.advance(PORTION)
    shares = sorted(found.values(), key=lambda share: -share.bytes)
    for share in shares:
        print_json(asdict(share))
    calls, facts = sum(each.calls for each in shares), sum(each.facts for each in shares)
    total = ToolShare("total", calls, facts, sum(each.bytes for each in shares))
    columns = (figures("bytes"), figures("calls"), figures("facts"), "about", "largest")
    print_blocks([plain_table(*columns, rows=(each.cells for each in (*shares, total)))])


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

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of a table."""
        call = f" in {short_id(self.largest)}" if self.calls else ""
        largest = f"{self.largest_bytes:,}{call}" if self.largest else ""
        return f"{self.bytes:,}", f"{self.calls:,}", f"{self.facts:,}", self.about, largest
