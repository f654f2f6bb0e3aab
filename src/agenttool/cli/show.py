"""`agenttool show`: one recorded call, with its inputs, decisions and result."""

from collections.abc import Iterable, Iterator
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from agenttool.cli.format import duration, print_json, printable_lines, status_style, utc
from agenttool.cli.options import JournalOption, JsonOption, StoreOptions, UrlOption, open_journal, server_url
from agenttool.cli.output import heading, indented, print_blocks
from agenttool.cli.recorded_call import open_call_state
from agenttool.cli.render import (
    approver_text,
    decisions_block,
    fields_table,
    hooks_table,
    inputs_table,
    persistence_fields,
    result_fields,
    result_panel,
    timeline_table,
)
from agenttool.codec import to_json
from agenttool.history.listed_call import owner_text, tool_name
from agenttool.history.printable import printable
from agenttool.history.recorded_call import RecordedCall, find_call
from agenttool.records import InputMutation, JsonObject, PermissionDecision, ResultPersistence, ToolHook, ToolResult


def show(
    part: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="Begin or end of the id of a call or of its records; default: newest call"),
    ] = None,
    *,
    store: JournalOption = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one call: its inputs, who decided, and its result.

    With --url, ID is the id of a recent call or a part of it, and its records are printed as JSON.
    """
    if (server := server_url(url, store=store)) is not None:
        from agenttool.cli.remote import print_call  # noqa: PLC0415 -- it loads the HTTP client

        print_call(server, part)
        return
    with open_journal(store) as reader:
        call = find_call(reader, part)
    if as_json:
        print_json(_document(call))
    else:
        print_blocks(_blocks(call, StoreOptions(store).arguments))


def _document(call: RecordedCall) -> JsonObject:
    return {
        "position": call.position,
        "invocation": to_json(call.invocation),
        "events": [to_json(event) for event in call.events],
        "records": [to_json(record) for record in call.records],
        "traceback": call.traceback,
        "children": [*call.children],
        "owner": None if call.owner is None else {**call.owner._asdict(), "process": call.owner.process},
    }


def _blocks(call: RecordedCall, store_arguments: str) -> Iterator[RenderableType]:
    yield from _head(call)
    decisions, hooks, cancellation = call.of(PermissionDecision), call.of(ToolHook), call.invocation.cancellation
    since = [fact.at_ns - call.began_ns for fact in call.facts for event, _ in fact.step.transitions if event]
    asked = {} if cancellation is None else to_json(cancellation)
    if "requested_by" in asked:
        asked["requested_by"] = approver_text("unknown", asked["requested_by"])
    yield from _section("Timeline", timeline_table(list(zip(since, call.events, strict=True))))
    yield from _section("Inputs", inputs_table(call.invocation, call.of(InputMutation), decisions))
    yield from _section("Decisions", decisions_block(decisions) if decisions else None)
    yield from _section("Hooks", hooks_table(hooks) if hooks else None)
    yield from _section("Cancellation", _fields((name, str(value)) for name, value in asked.items()))
    yield heading("Result")
    yield from _result(call, store_arguments)
    trace = None if call.traceback is None else Text(printable_lines(call.traceback), overflow="fold")
    yield from _section("Traceback (not shown to the model)", trace)
    persisted = (field for each in call.of(ResultPersistence) for field in persistence_fields(each))
    yield from _section("Persistence", _fields(persisted))


def _section(title: str, content: RenderableType | None) -> Iterator[RenderableType]:
    if content is not None:
        yield heading(title)
        yield indented(content)


def _fields(fields: Iterable[tuple[str, str | None]]) -> RenderableType | None:
    table = fields_table(fields)
    return table if table.rows else None


def _head(call: RecordedCall) -> Iterator[RenderableType]:
    invocation = call.invocation
    title = Text(tool_name(invocation.tool_id), style="bold")
    title.append(f"  {invocation.status.value}", style=status_style(invocation.status))
    if invocation.status.is_terminal:
        title.append(f" after {duration(call.facts[-1].at_ns - call.began_ns)}", style="not bold dim")
    yield title
    fields = {
        "call": invocation.invocation_id,
        "began": utc(call.began_ns),
        "asked by": invocation.actor_ref,
        "native id": invocation.native_call_id,
        "made by": invocation.parent_invocation_id,
        "made": "\n".join(call.children) or None,
        "depends on": "\n".join(invocation.depends_on or ()) or None,
        "retry of": invocation.retry_of,
        "question": invocation.approval_request_ref,
        "surface": invocation.surface_id,
        "process": None if call.owner is None else owner_text(call.owner),
    }
    yield indented(fields_table(fields.items()))


def _result(call: RecordedCall, store_arguments: str) -> Iterator[RenderableType]:
    results = call.of(ToolResult)
    if not results:
        yield indented(Text(f"none yet: the call is {call.invocation.status.value}", style="yellow"))
        state = printable(open_call_state(call, store_arguments))
        yield Group(Text(f"  {state}", no_wrap=True, overflow="ignore"))  # a command to copy stays on one line
    for result in results:
        yield result_panel(result)
        if (fields := _fields(result_fields(result))) is not None:
            yield indented(fields)
