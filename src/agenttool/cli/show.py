"""`agenttool show`: one call drawn for a person."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from agenttool.cli.findings import printable
from agenttool.cli.journal.call import CANDIDATES, Ambiguous, RecordedCall, find_call
from agenttool.cli.journal.decisions import decisions_block
from agenttool.cli.journal.inputs import inputs_table
from agenttool.cli.journal.opening import JsonOption, StoreOption, opened
from agenttool.cli.journal.outcome import (
    cancellation_table,
    hooks_table,
    persistence_table,
    result_panel,
    result_table,
)
from agenttool.cli.journal.paper import draw
from agenttool.cli.journal.standing import how_it_stands, told
from agenttool.cli.journal.timeline import timeline
from agenttool.cli.journal.words import duration, heading, plain_table, style_of, tool_name
from agenttool.cli.loading import Named
from agenttool.cli.refusing import UNUSABLE, refuse
from agenttool.codec import json_bytes, to_json
from agenttool.records import InputMutation, JsonObject, PermissionDecision, ResultPersistence, ToolHook, ToolResult

app = typer.Typer(add_completion=False)


@app.command()
def show(
    part: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="A call, by either end of its id or of one of its records; else the newest"),
    ] = None,
    *,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw one call: what was asked, what was changed, who decided, what came of it"""  # noqa: D415 -- as in the table of commands
    with opened(store) as reader:
        try:
            call = find_call(reader, part)
        except Ambiguous as several:
            if as_json:
                ids = ", ".join(each.invocation_id for each in several.candidates)
                refuse(f"several calls have an id like {several.part!r}; write more of it: {ids}")
            _list_candidates(several)
            raise typer.Exit(UNUSABLE) from None
    if as_json:
        typer.echo(json_bytes(_document(call)).decode())
        return
    draw(_drawing(call, Named(store).words))


def _document(call: RecordedCall) -> JsonObject:
    return {
        "position": call.position,
        "invocation": to_json(call.invocation),
        "events": [to_json(event) for event in call.events],
        "records": [to_json(record) for record in call.records],
        "children": [*call.children],
        "held": told(call.held),
    }


def _drawing(call: RecordedCall, where: str) -> Iterator[RenderableType]:
    yield from _head(call)
    yield heading("Timeline")
    since = [(event, fact.at_ns - call.began_ns) for fact in call.facts for event, _ in fact.step.told if event]
    yield _indented(timeline([(ns, event) for (_, ns), event in zip(since, call.events, strict=True)]))
    yield heading("Inputs")
    decisions = call.of(PermissionDecision)
    yield _indented(inputs_table(call.invocation, call.of(InputMutation), decisions))
    if decisions:
        yield heading("Decisions")
        yield _indented(decisions_block(decisions))
    if hooks := call.of(ToolHook):
        yield heading("Hooks")
        yield _indented(hooks_table(hooks))
    if call.invocation.cancellation is not None:
        yield heading("Cancellation")
        yield _indented(cancellation_table(call.invocation.cancellation))
    yield heading("Result")
    yield from _result(call, where)


def _head(call: RecordedCall) -> Iterator[RenderableType]:
    invocation = call.invocation
    title = Text(tool_name(invocation.tool_id), style="bold")
    title.append(f"  {invocation.status.value}", style=style_of(invocation.status))
    if invocation.status.is_terminal:
        title.append(f" after {duration(call.facts[-1].at_ns - call.began_ns)}", style="not bold dim")
    yield title
    facts = {
        "call": invocation.invocation_id,
        "began": f"{datetime.fromtimestamp(call.began_ns / 1e9, UTC):%Y-%m-%d %H:%M:%S} UTC",
        "asked by": invocation.actor_ref,
        "native id": invocation.native_call_id,
        "made by": invocation.parent_invocation_id,
        "made": "\n".join(call.children) or None,
        "depends on": "\n".join(invocation.depends_on or ()) or None,
        "retry of": invocation.retry_of,
        "question": invocation.approval_request_ref,
        "surface": invocation.surface_id,
    }
    table = plain_table()
    for name, value in facts.items():
        if value is not None:
            table.add_row(Text(name, style="dim"), Text("\n".join(map(printable, value.split("\n")))))
    yield _indented(table)


def _result(call: RecordedCall, where: str) -> Iterator[RenderableType]:
    results = call.of(ToolResult)
    if not results:
        yield _indented(Text(f"none yet: the call is {call.invocation.status.value}", style="yellow"))
        stands = printable(how_it_stands(call.held, where))
        yield Group(Text(f"  {stands}", no_wrap=True, overflow="ignore"))  # what can be run stays in one piece
    for result in results:
        yield result_panel(result)
        table = result_table(result)
        if table is not None:
            yield _indented(table)
    if persisted := call.of(ResultPersistence):
        yield heading("Persistence")
        yield _indented(persistence_table(persisted))


def _indented(what: RenderableType) -> Padding:
    return Padding(what, (0, 0, 0, 2))


def _list_candidates(several: Ambiguous) -> None:
    """Say which calls might be meant, the newest first."""
    console = Console(stderr=True, highlight=False)
    console.print(f"several calls have an id like {several.part!r}; write more of it:", markup=False, style="red")
    table = plain_table()
    for each in several.candidates[:CANDIDATES]:
        status = Text(each.status.value, style=style_of(each.status))
        table.add_row(Text(printable(each.invocation_id)), status, Text(tool_name(each.tool_id)))
    console.print(table)
    if len(several.candidates) > CANDIDATES:
        console.print("… and more", style="dim")
