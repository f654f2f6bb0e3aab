"""The twelve phases of one call, in order. Whatever happens, there is a result."""

from agenttool.errors import ToolFailure
from agenttool.pipeline.call import Call
from agenttool.pipeline.failed import error_of_interruption, failed
from agenttool.pipeline.phases.emit_terminal import emit_terminal
from agenttool.pipeline.phases.execute import execute
from agenttool.pipeline.phases.map_result import map_result
from agenttool.pipeline.phases.parse_schema import parse_schema
from agenttool.pipeline.phases.permission import permission
from agenttool.pipeline.phases.persist_result import persist_result
from agenttool.pipeline.phases.post_hooks import post_hooks
from agenttool.pipeline.phases.pre_hooks import pre_hooks
from agenttool.pipeline.phases.prepare_observable_input import prepare_observable_input
from agenttool.pipeline.phases.resolve_tool import resolve_tool
from agenttool.pipeline.phases.schedule import release, schedule
from agenttool.pipeline.phases.validate_values import validate_values
from agenttool.pipeline.stopping import refuse_if_stopped
from agenttool.records import ToolResult
from agenttool.results.mapping import Mapped


async def run_call(call: Call) -> ToolResult:
    """Carry one call through every phase. Whatever happens, there is a result.

    If the caller's own task was canceled meanwhile, the cancellation goes on once the result is written.
    """
    call.core.journal.begin(call)
    try:
        mapped = await attempt(call)
    except ToolFailure as failure:
        mapped = failed(call, failure.error)
    except BaseException as crash:  # noqa: BLE001 -- a crash in any phase is that phase's failure, and a result like any other
        mapped = failed(call, error_of_interruption(call, crash))
    try:
        mapped = await post_hooks(call, mapped)
        result = await persist_result(call, mapped)
    except BaseException as crash:  # noqa: BLE001 -- the tool has run, and that must be told whatever happens now
        error = error_of_interruption(call, crash)
        result = mapped.result if call.interrupted is crash else failed(call, error).result
    call.result = result
    emit_terminal(call, result)
    if call.interrupted is not None:
        raise call.interrupted
    return result


async def attempt(call: Call) -> Mapped:
    """Do the work, or raise the `ToolFailure` that says why not."""
    tool = resolve_tool(call)
    refuse_if_stopped(call)
    parsed = parse_schema(call, tool)
    validate_values(call, tool, parsed)
    observable = prepare_observable_input(call, tool, parsed)
    proposed, hints = await pre_hooks(call, tool, observable)
    refuse_if_stopped(call)
    call_input = await permission(call, tool, proposed, hints)
    refuse_if_stopped(call)
    turn = await schedule(call, tool, call_input)
    try:
        output = await execute(call, tool, call_input)
    finally:
        release(call, turn)
    return map_result(call, tool, output)
