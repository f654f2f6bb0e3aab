"""`agenttool show`: one recorded call, with its inputs, decisions and result."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from agenttool.cli.format import duration, print_json, printable_lines, status_style, utc
from agenttool.cli.options import JsonOption, StoreOption, StoreOptions, UrlOption, open_journal, server_url
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
from agenttool.codec import read, read_any, to_json
from agenttool.codec.moments import nanoseconds
from agenttool.config.program import program_name
from agenttool.history.listed_call import owner_text, tool_name
from agenttool.history.printable import printable
from agenttool.history.recorded_call import RecordedCall, find_call
from agenttool.records import (
    InputMutation,
    JsonObject,
    PermissionDecision,
    Record,
    ResultPersistence,
    ToolEvent,
    ToolHook,
    ToolInvocation,
    ToolResult,
)

if TYPE_CHECKING:
    from agenttool.server.messages import CallDetail

_R = TypeVar("_R", bound=Record)


def show(
    part: Annotated[
        str | None,
        typer.Argument(
            metavar="ID", help="Beginning or end of the id of a call or of its records; default: newest call"
        ),
    ] = None,
    *,
    store: StoreOption = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one call: its inputs, who decided, and its result."""
    if (server := server_url(url, store=store)) is not None:
        from agenttool.cli.remote import document_of, find_call_id, open_server  # noqa: PLC0415 -- it loads the HTTP client

        with open_server(server) as gateway:
            detail = gateway.get(find_call_id(gateway, part))
        print_json(document_of(detail)) if as_json else print_blocks(_blocks(_from_server(detail, server)))
        return
    with open_journal(store) as reader:
        call = find_call(reader, part)
    if as_json:
        print_json(_document(call))
    else:
        print_blocks(_blocks(_from_journal(call, StoreOptions(store).arguments)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCall:
    """A recorded call as it is shown, from a journal or a server.

    Attributes:
        process: the process that runs it; none once it has ended.
        state: what an open call waits for, and the command that continues it.
    """

    invocation: ToolInvocation
    events: Sequence[ToolEvent]
    records: Sequence[Record]
    children: Sequence[str]
    traceback: str | None
    process: str | None
    state: str

    @property
    def began_ns(self) -> int:
        """When it began."""
        return _ns(self.events[0].time)

    @property
    def timeline(self) -> list[tuple[int, ToolEvent]]:
        """Its events, each with the nanoseconds since it began."""
        return [(max(0, _ns(each.time) - self.began_ns), each) for each in self.events]

    def of(self, kind: type[_R]) -> list[_R]:
        """Return its records of one type, in order."""
        return [record for record in self.records if isinstance(record, kind)]


def _ns(moment: str) -> int:
    return nanoseconds(datetime.fromisoformat(moment))


def _from_journal(call: RecordedCall, store_arguments: str) -> ShownCall:
    return ShownCall(
        invocation=call.invocation,
        events=call.events,
        records=call.records,
        children=call.children,
        traceback=call.traceback,
        process=None if call.owner is None else owner_text(call.owner),
        state="" if call.invocation.status.is_terminal else open_call_state(call, store_arguments),
    )


def _from_server(detail: "CallDetail", url: str) -> ShownCall:
    waits = f"it waits for an answer: {program_name()} approvals --url {shlex.quote(url)}"
    return ShownCall(
        invocation=read(bytes(detail.invocation), ToolInvocation),
        events=[read(bytes(each), ToolEvent) for each in detail.events],
        records=[read_any(bytes(each)) for each in detail.records],
        children=detail.children,
        traceback=detail.traceback,
        process=detail.process,
        state=waits if detail.approval_id else detail.notice or "the server runs it",
    )


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


def _blocks(call: ShownCall) -> Iterator[RenderableType]:
    yield from _head(call)
    decisions, hooks, cancellation = call.of(PermissionDecision), call.of(ToolHook), call.invocation.cancellation
    asked = {} if cancellation is None else to_json(cancellation)
    if "requested_by" in asked:
        asked["requested_by"] = approver_text("unknown", asked["requested_by"])
    yield from _section("Timeline", timeline_table(call.timeline))
    yield from _section("Inputs", inputs_table(call.invocation, call.of(InputMutation), decisions))
    yield from _section("Decisions", decisions_block(decisions) if decisions else None)
    yield from _section("Hooks", hooks_table(hooks) if hooks else None)
    yield from _section("Cancellation", _fields((name, str(value)) for name, value in asked.items()))
    yield heading("Result")
    yield from _result(call)
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


def _head(call: ShownCall) -> Iterator[RenderableType]:
    invocation = call.invocation
    title = Text(tool_name(invocation.tool_id), style="bold")
    title.append(f"  {invocation.status.value}", style=status_style(invocation.status))
    if invocation.status.is_terminal:
        title.append(f" after {duration(call.timeline[-1][0])}", style="not bold dim")
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
        "process": call.process,
    }
    yield indented(fields_table(fields.items()))


def _result(call: ShownCall) -> Iterator[RenderableType]:
    results = call.of(ToolResult)
    if not results:
        yield indented(Text(f"none yet: the call is {call.invocation.status.value}", style="yellow"))
        # A command to copy stays on one line.
        yield Group(Text(f"  {printable(call.state)}", no_wrap=True, overflow="ignore"))
    for result in results:
        yield result_panel(result)
        if (fields := _fields(result_fields(result))) is not None:
            yield indented(fields)
