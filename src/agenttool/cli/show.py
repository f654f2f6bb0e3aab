"""`agenttool show`: one recorded call, with its inputs, decisions and result."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TypeVar

from rich.console import Group, RenderableType
from rich.text import Text

from agenttool.cli.call_sources import find_call, open_call_state, open_calls
from agenttool.cli.format import document_of, duration, print_json, printable_lines, status_style, utc
from agenttool.cli.options import StoreUrlOptions, argument
from agenttool.cli.output import heading, indented, print_blocks
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
from agenttool.history.listed_call import tool_name
from agenttool.history.printable import printable
from agenttool.records import (
    InputMutation,
    PermissionDecision,
    Record,
    ResultPersistence,
    ToolEvent,
    ToolHook,
    ToolInvocation,
    ToolResult,
)
from agenttool.server.messages import CallDetail

_R = TypeVar("_R", bound=Record)


def show(
    part: str | None = argument("ID", "Beginning or end of the id of a call or of its records; default: newest call"),
    *,
    options: StoreUrlOptions,
) -> None:
    """Show one call: its inputs, who decided, and its result."""
    with open_calls(options.resolved()) as calls:
        detail = calls.get(find_call(calls, part))
    print_json(document_of(detail))
    print_blocks(_blocks(ShownCall(detail, calls.arguments)))


class ShownCall:
    """A recorded call, decoded.

    Attributes:
        state: what an open call waits for, and the command that continues it.
    """

    def __init__(self, detail: CallDetail, arguments: str) -> None:
        """Take a call, and the options that name its store or server."""
        self.detail = detail
        self.invocation = read(bytes(detail.invocation), ToolInvocation)
        self.events = [read(bytes(each), ToolEvent) for each in detail.events]
        self.records = [read_any(bytes(each)) for each in detail.records]
        self.state = open_call_state(detail, arguments)

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
    trace = None if call.detail.traceback is None else Text(printable_lines(call.detail.traceback), overflow="fold")
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
        "made": "\n".join(call.detail.children),
        "depends on": "\n".join(invocation.depends_on or ()),
        "retry of": invocation.retry_of,
        "question": invocation.approval_request_ref,
        "surface": invocation.surface_id,
        "process": call.detail.process,
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
