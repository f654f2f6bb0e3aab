"""The twelve phases of one call, in order. Whatever happens, there is a result."""

from agenttool.errors import StoreError, ToolFailure
from agenttool.pipeline.call import Call
from agenttool.pipeline.express import NOT_PLAIN, ToBeKept, begin_kept, express, give_back
from agenttool.pipeline.failed import error_of_interruption, failed
from agenttool.pipeline.held import awake, unkept
from agenttool.pipeline.parking import leave_parked
from agenttool.pipeline.phases.emit_terminal import emit_terminal
from agenttool.pipeline.phases.execute import execute
from agenttool.pipeline.phases.map_result import map_result
from agenttool.pipeline.phases.parse_schema import parse_schema
from agenttool.pipeline.phases.permission import has_expired, permission
from agenttool.pipeline.phases.persist_result import persist_result
from agenttool.pipeline.phases.post_hooks import post_hooks
from agenttool.pipeline.phases.pre_hooks import pre_hooks
from agenttool.pipeline.phases.prepare_observable_input import prepare_observable_input
from agenttool.pipeline.phases.resolve_tool import resolve_tool
from agenttool.pipeline.phases.schedule import give_way, release, schedule
from agenttool.pipeline.phases.validate_values import validate_values
from agenttool.pipeline.started import Waiting, carry
from agenttool.pipeline.stopping import refuse_if_stopped
from agenttool.records import ToolResult
from agenttool.results.mapping import Mapped


async def run_call(call: Call) -> ToolResult:  # noqa: C901, PLR0912, PLR0915 -- every way to an end, side by side
    """Carry one call through every phase. Whatever happens, there is a result.

    If the caller's own task was canceled meanwhile, the cancellation goes on once the result is written.
    """
    core = call.core
    try:
        if core.durable and not core.is_awake:
            await awake(call)
        output = express(call)
        if output is NOT_PLAIN:
            mapped = await attempt(call)
        else:
            if type(output) is ToBeKept:
                output = await begin_kept(call, output)
            if type(output) is Waiting:
                output = await carry(call, output, give_back)
            mapped = map_result(call, output)
    except ToolFailure as failure:
        mapped = failed(call, failure.error)
    except BaseException as crash:  # noqa: BLE001 -- a crash in any phase is that phase's failure, and a result like any other
        mapped = failed(call, error_of_interruption(call, crash))
    if call.is_parked:
        return leave_parked(call, mapped.result)
    tool = call.tool
    if tool is None or (mapped.chars <= tool.inline_below and not tool.has_post_hooks and not mapped.needs_decision):
        result = mapped.result  # no hook waits for it, and all of it can be delivered as it is
    else:
        result = await finish(call, mapped)
    result = emit_terminal(call, result, mapped.chars, is_plain=mapped.is_plain and result is mapped.result)
    if core.durable:
        try:  # it is handed out only once it is on disk
            await core.settle()
        except StoreError as error:
            result = unkept(call, result, error)
    if call.interrupted is not None:
        raise call.interrupted
    return result


async def attempt(call: Call) -> Mapped:
    """Do the work, or raise the `ToolFailure` that says why not."""
    call.core.calls[call.invocation_id] = call
    tool = resolve_tool(call)
    refuse_if_stopped(call)
    parsed = parse_schema(call, tool)
    validate_values(call, tool, parsed)
    observable = prepare_observable_input(call, tool, parsed)
    proposed = await pre_hooks(call, tool, observable)
    refuse_if_stopped(call)
    call_input = await permission(call, tool, proposed)
    refuse_if_stopped(call)
    await schedule(call, tool, call_input)
    while has_expired(call):  # it waited longer than its permission holds
        release(call)
        call_input = await permission(call, tool, call_input)
        refuse_if_stopped(call)
        await schedule(call, tool, call_input)
    try:
        output = await execute(call, tool, call_input)
    finally:
        release(call)
    await give_way(call)
    return map_result(call, output)


async def finish(call: Call, mapped: Mapped) -> ToolResult:
    """Let hooks see the result, and put its bytes where they belong."""
    try:
        mapped = await post_hooks(call, mapped)
        return await persist_result(call, mapped)
    except BaseException as crash:  # noqa: BLE001 -- the tool has run, and that must be told whatever happens now
        error = error_of_interruption(call, crash)
        return mapped.result if call.interrupted is crash else failed(call, error).result
