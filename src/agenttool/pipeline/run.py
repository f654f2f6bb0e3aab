"""The twelve phases of one call, in order. Whatever happens, there is a result.

A phase that has nothing to do for a tool is passed over by a flag that was worked out when the tool was declared, and
one that has nothing to wait for is not awaited: most calls go through here without a pause.
"""

from agenttool.errors import ToolFailure
from agenttool.pipeline.call import Call
from agenttool.pipeline.failed import error_of_interruption, failed
from agenttool.pipeline.phases.emit_terminal import emit_terminal
from agenttool.pipeline.phases.execute import Waiting, begin, execute
from agenttool.pipeline.phases.map_result import map_result
from agenttool.pipeline.phases.parse_schema import parse_schema
from agenttool.pipeline.phases.permission import is_allowed_at_once, permission
from agenttool.pipeline.phases.persist_result import persist_result
from agenttool.pipeline.phases.post_hooks import post_hooks
from agenttool.pipeline.phases.pre_hooks import pre_hooks
from agenttool.pipeline.phases.prepare_observable_input import prepare_observable_input
from agenttool.pipeline.phases.resolve_tool import resolve_tool
from agenttool.pipeline.phases.schedule import enter_at_once, schedule
from agenttool.pipeline.phases.validate_values import validate_values
from agenttool.pipeline.stopping import refuse
from agenttool.pipeline.tool import UNKNOWN
from agenttool.records import ToolResult


async def run_call(call: Call) -> ToolResult:  # noqa: C901, PLR0912 -- a phase, a line; to split it would hide the table
    """Carry one call through every phase. Whatever happens, there is a result.

    If the caller's own task was canceled meanwhile, the cancellation goes on once the result is written.
    """
    core = call.core
    core.calls[call.invocation_id] = call
    tool = UNKNOWN
    try:
        tool = resolve_tool(call)
        if call.abort_reason is not None:
            refuse(call)
        parsed = parse_schema(call, tool)
        if tool.has_checks:
            validate_values(call, tool, parsed)
        observable = prepare_observable_input(call, tool, parsed) if tool.has_normal_form else parsed
        proposed = await pre_hooks(call, tool, observable) if tool.has_pre_hooks else observable
        call_input = proposed if is_allowed_at_once(call, tool) else await permission(call, tool, proposed)
        turn = enter_at_once(call, tool, call_input) or await schedule(call, tool, call_input)
        try:
            output = begin(call, tool, call_input)
            if type(output) is Waiting:
                output = await execute(call, output)
        finally:
            core.gate.leave(call.turn or turn)
        mapped = map_result(call, tool, output)
    except ToolFailure as failure:
        mapped = failed(call, failure.error)
    except BaseException as crash:  # noqa: BLE001 -- a crash in any phase is that phase's failure, and a result like any other
        mapped = failed(call, error_of_interruption(call, crash))
    try:
        if tool.has_post_hooks:
            mapped = await post_hooks(call, mapped)
        fits_inline = mapped.chars <= tool.inline_below and not mapped.payloads
        result = mapped.result if fits_inline else await persist_result(call, mapped)
    except BaseException as crash:  # noqa: BLE001 -- the tool has run, and that must be told whatever happens now
        error = error_of_interruption(call, crash)
        result = mapped.result if call.interrupted is crash else failed(call, error).result
    emit_terminal(call, result, mapped.chars)
    if call.interrupted is not None:
        raise call.interrupted
    return result
