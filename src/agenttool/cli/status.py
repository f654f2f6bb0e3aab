"""`agenttool status`: what a store and its processes do now."""

from dataclasses import asdict

from rich.console import RenderableType
from rich.text import Text

from agenttool.cli.call_sources import fault_state, waiting_for_tools
from agenttool.cli.format import document_of, duration, print_json, short_id
from agenttool.cli.options import StoreUrlOptions
from agenttool.cli.output import figures, heading, indented, plain_table, print_blocks
from agenttool.codec import json_bytes
from agenttool.config import load_config
from agenttool.config.program import program_name
from agenttool.history.listed_call import open_calls
from agenttool.history.printable import one_line, printable
from agenttool.history.recorded_call import failing_servers
from agenttool.records import Json, JsonObject
from agenttool.server.call_messages import summary_of
from agenttool.server.messages import CallSummary
from agenttool.stores.sqlite.reader import SqliteReader
from agenttool.world import SystemClock

SHOWN_CALLS = 20
"""So many open calls are printed; `agenttool log --open` prints all of them."""


def status(
    *,
    options: StoreUrlOptions,
) -> None:
    """Show open calls, approvals, sources, processes and the store.

    It only reads the store, so it also works on a full disk and beside other processes. A source is listed with
    the fault that a process recorded last, and with the time of its next attempt.
    With --url, it shows the status of the server. Only operators and auditors see all of it.
    """
    options = options.resolved()
    if options.url is not None:
        from agenttool.cli.remote import open_server  # noqa: PLC0415 -- it loads the HTTP client

        with open_server(options.url) as gateway:
            there = gateway.status()
        print_json(there)
        _print_server_status(there)
        return
    kinds = {name: str(each.members.get("kind", "")) for name, each in load_config(options.config).sources.items()}
    with options.open_journal() as reader, reader.at_one_moment():
        _print_store_status(reader, kinds, options.arguments)


def _print_server_status(status: JsonObject) -> None:
    rows = ((name, Text("\n".join(map(printable, _lines_of(each))))) for name, each in status.items())
    print_blocks([plain_table("member", "value", rows=rows)])


def _lines_of(value: Json) -> list[str]:
    """Return a member of the status as lines: a list has one entry on each."""
    values = value if isinstance(value, list) else [] if value is None else [value]
    return [each if isinstance(each, str) else json_bytes(each).decode() for each in values] or ["none"]


def _print_store_status(reader: SqliteReader, kinds: dict[str, str], arguments: str) -> None:
    """Print what a store and its processes do; `kinds` are those of the sources in the settings, by name."""
    events, calls = reader.count()
    beside = [reader.path, *(reader.path.with_name(f"{reader.path.name}{end}") for end in ("-wal", "-shm"))]
    size = sum(each.stat().st_size for each in beside if each.exists())
    processes = sorted({owner.partition("#")[0] for owner in reader.processes(SystemClock().moment())})
    listed = [*open_calls(reader)]
    found = [*map(summary_of, listed)]
    approvals = [each.approval_id for each in found if each.approval_id is not None]
    without_tool = [summary_of(each) for each in listed if each.owner is not None and each.owner.waits_for_tool]
    failing = {each.source: each for each in failing_servers(reader)}
    sources = {each: (kinds.get(each), failing.get(each)) for each in sorted({*kinds, *failing})}
    print_json(
        {
            "store": {"path": str(reader.path), "size_bytes": size, "events": events, "calls": calls},
            "processes": [*processes],
            "open_calls": [document_of(each) for each in found],
            "approvals": [*approvals],
            "waiting_for_tools": [each.invocation_id for each in without_tool],
            "sources": [
                {"name": name, "kind": kind, "fault": None, **({} if fault is None else asdict(fault))}
                for name, (kind, fault) in sources.items()
            ],
        }
    )
    head = f"{reader.path}  {size:,} bytes, {calls:,} calls, {events:,} events"
    blocks: list[RenderableType] = [Text(head, style="bold", no_wrap=True, overflow="ignore")]
    blocks += [heading(f"Processes: {len(processes)}"), *map(_line, processes), heading(f"Open calls: {len(found)}")]
    if found:
        columns = ("call", "tool", "status", figures("open for"), "process")
        more = f"; all: {program_name()} log --open{arguments}" if len(found) > SHOWN_CALLS else ""
        cancel = f"cancel one: {program_name()} cancel {found[0].invocation_id}{arguments}{more}"
        blocks += [indented(plain_table(*columns, rows=map(_cells, found[:SHOWN_CALLS]))), _line(cancel)]
    blocks.append(heading(f"Waiting approvals: {len(approvals)}"))
    if approvals:
        blocks.append(_line(f"answer them: {program_name()} approvals{arguments}"))
    if without_tool:
        waits = waiting_for_tools((each.tool for each in without_tool), arguments)
        blocks += [heading(f"Waiting for a tool: {len(without_tool)}"), _line(f"each {waits}")]
    blocks.append(heading(f"Sources: {len(sources)}"))
    for name, (kind, fault) in sources.items():
        state = "no fault recorded" if fault is None else fault_state(fault)
        blocks.append(_line(f"{name} {kind or ''} {state}"))
    print_blocks(blocks)


def _cells(call: CallSummary) -> tuple[str, ...]:
    took = duration(round(call.duration_s * 1e9))
    return short_id(call.invocation_id), call.tool, call.status, took, call.process or ""


def _line(line: str) -> Text:
    return Text(f"  {one_line(line)}", no_wrap=True, overflow="ignore")  # a command to copy stays on one line
