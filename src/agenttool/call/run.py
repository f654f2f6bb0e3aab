"""The twelve phases of one call, in order. Read this first: every call of every tool goes through `run_call`.

A phase that most calls do not need is behind a flag that was computed when the tool was compiled (`Tool`). `try_allow`
and `try_acquire_permit` are phases 6 and 7 for a call that need not wait; if they return False, the full phase runs.
There is no second path.

`call_input` is the input so far. A phase that may change the input returns it, and the next phase gets that.
"""

from agenttool.call.call import Call
from agenttool.call.checkpoint import ensure_lease
from agenttool.call.completion import PendingEnd, end, failed, map_any_result, map_result
from agenttool.call.failures import refuse_if_stopped, stop_after_close
from agenttool.call.judge import refuse_if_denied
from agenttool.call.phases.execute import PendingOutput, start_tool
from agenttool.call.phases.input import (
    parse_schema,
    pre_hooks,
    prepare_observable_input,
    resolve_tool,
    validate_values,
)
from agenttool.call.phases.permission import has_expired, permission, try_allow
from agenttool.call.phases.schedule import release, schedule, try_acquire_permit, yield_to_batch
from agenttool.call.tool import Tool
from agenttool.codec import quick_levels
from agenttool.errors import ToolFailure
from agenttool.records import JsonObject, ToolResult


async def run_call(call: Call) -> ToolResult:  # noqa: C901, PLR0912, PLR0915 -- the phases in order, in one place
    """Run all phases of a call; return its result, also if it failed.

    Raises:
        asyncio.CancelledError: the caller's own task was canceled; the result is written first.
    """
    try:
        if call.core.host.is_closed:
            stop_after_close(call)
        if call.core.durable and not call.core.durability.has_lease:
            await ensure_lease(call)
        tool = resolve_tool(call)  # 1
        if call.stop_state is not None:
            refuse_if_stopped(call)
        call_input = parse_schema(call, tool)  # 2
        if tool.prepares_input:
            filled = tool.with_defaults(call_input)  # before phase 3, because values are converted with the defaults
            if tool.has_checks:
                validate_values(call, tool, call_input, filled[0])  # 3
            if tool.has_normal_form:
                call_input = prepare_observable_input(call, tool, call_input, filled)  # 4
            if tool.has_pre_hooks:
                call_input = await pre_hooks(call, tool, call_input)  # 5
                refuse_if_stopped(call)
        if not try_allow(call, tool, call_input):
            call_input = await permission(call, tool, call_input)  # 6
            refuse_if_stopped(call)
        if not try_acquire_permit(call, tool, call_input):
            call_input = await _wait_for_permit(call, tool, call_input)  # 7
        try:
            output = start_tool(call, tool, call_input)  # 8
            if type(output) is PendingOutput:
                output = await output.coroutine
        finally:
            release(call)
        if call.batch is not None:
            await yield_to_batch(call)
        levels = quick_levels(output)
        mapped = map_result(call, output, levels) if levels else await map_any_result(call, output)  # 9
    except BaseException as error:  # noqa: BLE001 -- a crash in any phase is that phase's failure
        mapped = failed(call, error)
    result = end(call, mapped)  # 10 to 12
    return await result.coroutine if type(result) is PendingEnd else result


async def _wait_for_permit(call: Call, tool: Tool, call_input: JsonObject) -> JsonObject:
    """Wait for a permit, and return the input that may run.

    A permission may expire during the wait; then the call returns its permit and repeats phase 6. Rules may be added
    during the wait; then they are evaluated again, and can deny the call.

    Raises:
        ToolFailure: as `schedule` and `permission`.
    """
    policy = call.core.policy
    await schedule(call, tool, call_input)
    while has_expired(call):
        release(call)
        call_input = await permission(call, tool, call_input)
        refuse_if_stopped(call)
        policy = call.core.policy
        await schedule(call, tool, call_input)
    if call.core.policy is not policy:
        try:
            refuse_if_denied(call, tool, call_input)
        except ToolFailure:
            release(call)
            raise
    return call_input
