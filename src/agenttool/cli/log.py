"""`agenttool log`: what happened, one line per event, from any point, and on while others write."""

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.text import Text

from agenttool.cli.journal.call import Ambiguous, find_call
from agenttool.cli.journal.following import Follower
from agenttool.cli.journal.opening import StoreOption, opened
from agenttool.cli.journal.paper import draw
from agenttool.cli.journal.sizes import Sizes
from agenttool.cli.journal.timeline import event_word, said
from agenttool.cli.journal.words import short_id, style_of, tool_name
from agenttool.cli.progress import CountBar
from agenttool.cli.refusing import refuse
from agenttool.codec import json_bytes, to_json
from agenttool.errors import ConfigError, StoreError
from agenttool.journal.fold import events_of
from agenttool.policy.wildcards import fits
from agenttool.ports.facts import Fact
from agenttool.records import InvocationId, InvocationStatus, ToolEvent
from agenttool.stores.sqlite.reader import PORTION, SqliteReader

app = typer.Typer(add_completion=False)


class Placed(NamedTuple):
    """An event, the position of its fact, and whether it is the last that the fact tells."""

    position: int
    event: ToolEvent
    is_last: bool

    @property
    def resume(self) -> int:
        """Where to come back to: whoever stops in the middle of a fact gets all of it again."""
        return self.position if self.is_last else self.position - 1


Wanted = Callable[[ToolEvent], bool]


class Source(NamedTuple):
    """Where events come from: the whole journal, or one call in it, for which nothing else is read."""

    reader: SqliteReader
    call: InvocationId | None

    def events_after(self, position: int) -> Iterator[Placed]:
        """Give events after a position as they are now, a portion at a time."""
        while facts := self._read(position):
            for place, fact in facts:
                yield from _placed(place, fact)
            position = facts[-1][0]

    def newest(self, last: int, limit: int, wanted: Wanted) -> Iterator[Placed]:
        """Give the newest events up to a position, the oldest of them first, without reading the others."""
        found: deque[Placed] = deque()
        before = last + 1
        while len(found) < limit and (facts := self._read_back(before, min(PORTION, max(limit, 16)))):
            for place, fact in facts:
                found.extendleft(each for each in reversed(tuple(_placed(place, fact))) if wanted(each.event))
            before = facts[-1][0]
        yield from tuple(found)[-limit:]

    def _read(self, after: int) -> Sequence[tuple[int, Fact]]:
        if self.call is None:
            return self.reader.read(after)
        return [each for each in self.reader.facts_of(self.call) if each[0] > after]

    def _read_back(self, before: int, limit: int) -> Sequence[tuple[int, Fact]]:
        if self.call is None:
            return self.reader.read_back(before, limit)
        return [each for each in reversed(self.reader.facts_of(self.call)) if each[0] < before]


@app.command()
def log(  # noqa: PLR0913 -- one for each word of the command
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on while others write, until Ctrl-C")] = False,
    after: Annotated[int | None, typer.Option(min=0, metavar="N", help="Begin after this position")] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="The newest N events; with --after, the first")
    ] = None,
    tool: Annotated[str | None, typer.Option(metavar="NAME", help="Only this tool; * is any run of characters")] = None,
    status: Annotated[str | None, typer.Option(metavar="WORD", help="Only events that bring a call here")] = None,
    call: Annotated[str | None, typer.Option(metavar="ID", help="Only this call")] = None,
    sizes: Annotated[bool, typer.Option("--sizes", help="Only tell what fills the journal, tool by tool")] = False,
    store: StoreOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print events as JSON Lines, with their positions")] = False,
) -> None:
    """Tell what happened, one line per event, and go on while others write"""  # noqa: D415 -- as in the table of commands
    if sizes and (follow or limit or tool or status or call):
        refuse(ConfigError("--sizes adds up everything after a position; leave out what else chooses, or follows"))
    try:
        with opened(store) as reader:
            if sizes:
                _tell_sizes(reader, after or 0, as_json=as_json)
                return
            news = News(_filter(tool, _status(status)), _tell_json if as_json else _teller(), limit)
            source = Source(reader, None if call is None else _call(reader, call))
            follower = Follower(reader, after or 0)
            if after is None and limit is not None:
                follower.position = reader.head().position
                news.tell_newest(source, follower.position, follow=follow)
            is_over = not news.tell(source, follower)
        if follow and not is_over:
            follower.follow(lambda reader: news.tell(Source(reader, source.call), follower))
    except KeyboardInterrupt:
        return  # the way to leave a log that is followed
    except (ConfigError, StoreError) as error:
        refuse(error)


@dataclass(slots=True)
class News:
    """Tells what is there, then what comes: what is wanted of it, to whom, and how much more at most."""

    wanted: Wanted
    teller: Callable[[Placed], None]
    left: int | None

    def tell_newest(self, source: Source, position: int, *, follow: bool) -> None:
        """Tell the newest events up to a position; a limit without a beginning means these."""
        for placed in source.newest(position, self.left or 0, self.wanted):
            self.teller(placed)
        self.left = None if follow else 0

    def tell(self, source: Source, follower: Follower) -> bool:
        """Tell all that came after a position, and move that on; say whether more is wanted."""
        for placed in source.events_after(follower.position) if self.left != 0 else ():
            follower.position = placed.resume
            if self.wanted(placed.event):
                self.teller(placed)
                self.left = None if self.left is None else max(self.left - 1, 0)
            # A fact is told whole, or whoever reads in small steps would never get beyond it.
            if self.left == 0 and placed.is_last:
                break
        sys.stdout.flush()
        return self.left != 0


def _placed(position: int, fact: Fact) -> Iterator[Placed]:
    told = tuple(events_of(fact, position=position))
    return (Placed(position, event, event is told[-1]) for event in told)


def _filter(tool: str | None, status: str | None) -> Wanted:
    def wanted(event: ToolEvent) -> bool:
        name = tool_name(event.tool_id)
        return (status is None or (event.data or {}).get("status") == status) and (
            tool is None or any(fits(tool, each) for each in (name, name.rpartition(".")[2], event.tool_id or ""))
        )

    return wanted


def _status(word: str | None) -> str | None:
    if word is not None and word not in list(InvocationStatus):
        refuse(ConfigError(f"no status is called {word!r}; use one of {', '.join(InvocationStatus)}"))
    return word


def _call(reader: SqliteReader, part: str) -> InvocationId:
    try:
        return find_call(reader, part).invocation.invocation_id
    except Ambiguous as several:
        ids = "\n".join(f"  {each.invocation_id}  {tool_name(each.tool_id)}" for each in several.candidates)
        refuse(ConfigError(f"several calls have an id like {part!r}; write more of it:\n{ids}"))


def _tell_sizes(reader: SqliteReader, after: int, *, as_json: bool) -> None:
    sizes = Sizes()
    with CountBar(reader.count()[0]) as bar:
        for _, fact, size in reader.weigh(after):
            sizes.add(fact, size)
            bar.advance()
    if not as_json:
        draw([sizes.table()])
    for told in sizes.told() if as_json else ():
        sys.stdout.write(json_bytes(told).decode() + "\n")


def _tell_json(placed: Placed) -> None:
    sys.stdout.write(json_bytes({"position": placed.resume, "event": to_json(placed.event)}).decode() + "\n")


def _teller() -> Callable[[Placed], None]:
    """Give who writes lines for people; a day is told when it begins."""
    console = Console(highlight=False)
    days: set[str] = set()

    def tell(placed: Placed) -> None:
        moment = datetime.fromisoformat(placed.event.time).astimezone(UTC)
        if (day := f"{moment:%Y-%m-%d}") not in days:
            days.clear()
            days.add(day)
            console.print(Text(f"{day} UTC", style="bold"))
        console.print(line_of(placed.position, moment, placed.event), soft_wrap=True)

    return tell


def line_of(position: int, moment: datetime, event: ToolEvent) -> Text:
    """Write an event on one line."""
    data = event.data or {}
    about = tool_name(event.tool_id) or str(data.get("name") or data.get("surface_id") or "")
    line = Text(f"{position:>6} ", style="dim")
    line.append(f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}  ", style="not dim")
    line.append(f"{short_id(event.invocation_id or ''):8}  ", style="not dim cyan")
    status = data.get("status")
    style = style_of(str(status)) if event.event_type.is_terminal else "default"
    line.append(f"{event_word(event):20}  ", style=f"not dim {style}")
    line.append(about, style="not dim")
    words = said(event).removeprefix(about).strip()
    return line.append(f"  {words}" if words else "", style="dim")
