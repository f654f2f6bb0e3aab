"""`agenttool status`: what a store and its processes do now."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from agenttool.cli.format import duration, print_json, short_id
from agenttool.cli.options import (
    JsonOption,
    SettingsOption,
    StoreOption,
    StoreOptions,
    UrlOption,
    open_journal,
    server_url,
)
from agenttool.cli.output import figures, heading, indented, plain_table, print_blocks
from agenttool.cli.recorded_call import fault_state, waiting_for_tools
from agenttool.config import AUTO, load_config
from agenttool.config.program import program_name
from agenttool.history.listed_call import ListedCall, open_calls, owner_text, tool_name
from agenttool.history.printable import one_line
from agenttool.history.recorded_call import failing_servers
from agenttool.ports.deferred import RESULT_PREFIX
from agenttool.ports.source import SourceStatus
from agenttool.records import Json, JsonObject
from agenttool.stores.sqlite.reader import SqliteReader
from agenttool.world import SystemClock

SHOWN_CALLS = 20
"""So many open calls are printed; `agenttool log --open` prints all of them."""


def status(
    *,
    store: StoreOption = None,
    settings: SettingsOption = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show open calls, approvals, sources, processes and the store.

    It only reads the store, so it also works on a full disk and beside other processes. A source is listed with
    the fault that a process recorded last, and with the time of its next attempt.
    With --url, it shows the status of the server. Only operators and auditors see all of it.
    """
    if (server := server_url(url, store=store, settings=settings)) is not None:
        from agenttool.cli.remote import print_status  # noqa: PLC0415 -- it loads the HTTP client

        print_status(server, as_json=as_json)
        return
    options = StoreOptions(store, settings)
    kinds = {name: str(each.members.get("kind", "")) for name, each in load_config(settings or AUTO).sources.items()}
    with open_journal(str(options.existing_file())) as reader:
        found = _read(reader, kinds)
    if as_json:
        print_json(found.document())
    else:
        print_blocks(found.blocks(options.journal_arguments))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """The state of a store.

    Attributes:
        events: how many facts the journal holds.
        processes: the processes that have the store open.
        kinds: the sources of the settings, and their kinds.
        failing: the servers that did not answer when a process last tried them.
    """

    path: Path
    size_bytes: int
    events: int
    calls: int
    processes: list[str]
    open_calls: list[ListedCall]
    kinds: dict[str, str]
    failing: list[SourceStatus]

    @property
    def waiting(self) -> list[ListedCall]:
        """The calls that wait for an approval."""
        return [each for each in self.open_calls if _approval_of(each) is not None]

    @property
    def without_tool(self) -> list[ListedCall]:
        """The calls that wait for a process that has their tool."""
        return [each for each in self.open_calls if each.owner is not None and each.owner.waits_for_tool]

    @property
    def sources(self) -> dict[str, SourceStatus | None]:
        """The sources by name, each with its fault if one is recorded."""
        found = dict.fromkeys(self.kinds) | {each.source: each for each in self.failing}
        return dict(sorted(found.items()))

    def document(self) -> JsonObject:
        """Return the status as `--json` prints it."""
        sources: list[Json] = [
            {"name": name, "kind": self.kinds.get(name), "fault": None, **({} if fault is None else asdict(fault))}
            for name, fault in self.sources.items()
        ]
        return {
            "store": {
                "path": str(self.path),
                "size_bytes": self.size_bytes,
                "events": self.events,
                "calls": self.calls,
            },
            "processes": [*self.processes],
            "open_calls": [each.document() for each in self.open_calls],
            "approvals": [_approval_of(each) for each in self.waiting],
            "waiting_for_tools": [each.facts[0][1].invocation_id for each in self.without_tool],
            "sources": sources,
        }

    def blocks(self, store_arguments: str) -> Iterator[RenderableType]:
        """Yield what people read."""
        size = f"{self.size_bytes:,} bytes, {self.calls:,} calls, {self.events:,} events"
        yield Text(f"{self.path}  {size}", style="bold", no_wrap=True, overflow="ignore")
        yield heading(f"Processes: {len(self.processes)}")
        yield from _lines(self.processes)
        yield heading(f"Open calls: {len(self.open_calls)}")
        if self.open_calls:
            rows = (_row(each) for each in islice(self.open_calls, SHOWN_CALLS))
            yield indented(plain_table("call", "tool", "status", figures("open for"), "process", rows=rows))
            yield from _lines(_commands(self.open_calls, store_arguments))
        yield heading(f"Waiting approvals: {len(self.waiting)}")
        if self.waiting:
            yield from _lines([f"answer them: {program_name()} approvals{store_arguments}"])
        if self.without_tool:
            yield heading(f"Waiting for a tool: {len(self.without_tool)}")
            names = (tool_name(each.tool_id) for each in self.without_tool)
            yield from _lines([f"each {waiting_for_tools(names, store_arguments)}"])
        yield heading(f"Sources: {len(self.sources)}")
        yield from _lines(
            f"{name} {self.kinds.get(name, '')} {'no fault recorded' if fault is None else fault_state(fault)}"
            for name, fault in self.sources.items()
        )


def _read(reader: SqliteReader, kinds: dict[str, str]) -> StoreStatus:
    with reader.at_one_moment():
        events, calls = reader.count()
        beside = [reader.path, *(reader.path.with_name(f"{reader.path.name}{end}") for end in ("-wal", "-shm"))]
        return StoreStatus(
            path=reader.path,
            size_bytes=sum(each.stat().st_size for each in beside if each.exists()),
            events=events,
            calls=calls,
            processes=sorted({owner.partition("#")[0] for owner in reader.processes(SystemClock().moment())}),
            open_calls=list(open_calls(reader)),
            kinds=kinds,
            failing=list(failing_servers(reader)),
        )


def _approval_of(call: ListedCall) -> str | None:
    """Return the approval that a call waits for and that is not answered; none if there is none."""
    owner = call.owner
    if owner is None or owner.waits_for is None or owner.is_answered or owner.waits_for.startswith(RESULT_PREFIX):
        return None
    return owner.waits_for


def _row(call: ListedCall) -> tuple[Text, ...]:
    owner = "" if call.owner is None else owner_text(call.owner)
    cells = (
        short_id(str(call.facts[0][1].invocation_id)),
        tool_name(call.tool_id),
        call.status.value,
        duration(call.taken_ns),
        owner,
    )
    return tuple(map(Text, cells))


def _commands(calls: list[ListedCall], store_arguments: str) -> Iterator[str]:
    first = calls[0].facts[0][1].invocation_id
    more = "" if len(calls) <= SHOWN_CALLS else f"; all {len(calls):,}: {program_name()} log --open{store_arguments}"
    yield f"cancel one: {program_name()} cancel {first}{store_arguments}{more}"


def _lines(lines: Iterable[str]) -> Iterator[RenderableType]:
    for line in lines:
        yield Text(f"  {one_line(line)}", no_wrap=True, overflow="ignore")  # a command to copy stays on one line
