"""The end of a call: one function for calls that ran here, were recovered, or got a deferred result."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import final

from agenttool.errors import ToolFailure
from agenttool.pipeline.call import Call
from agenttool.pipeline.checkpoint import when_durable
from agenttool.pipeline.failures import error_of_interruption, failed_result
from agenttool.pipeline.phases.emit_terminal import emit_terminal
from agenttool.pipeline.phases.result import persist_result, post_hooks
from agenttool.pipeline.shutdown import leave_parked
from agenttool.records import Live, ToolError, ToolResult
from agenttool.results.mapping import Mapped


@final
class PendingEnd(Live, eq=False, gc=False):
    """An end that takes time: await `coroutine` for the result."""

    coroutine: Coroutine[object, object, ToolResult]


def end(call: Call, mapped: Mapped) -> ToolResult | PendingEnd:
    """Run phases 10 to 12; return the result to deliver, or a `PendingEnd` if hooks or a store must be awaited.

    A parked call is left to another process. If the caller's task was canceled, that is raised after the result is
    written.
    """
    tool = call.tool
    if call.recovery is not None and call.recovery.is_parked:
        return leave_parked(call, mapped.result)
    if tool is not None and (mapped.chars > tool.inline_below or tool.has_post_hooks or mapped.needs_decision):
        return PendingEnd(_finish(call, mapped))
    if call.core.durable:
        return PendingEnd(_record(call, mapped, mapped.result))
    result = emit_terminal(call, mapped, mapped.result)
    if call.stop_state is not None and call.stop_state.interrupted is not None:
        raise call.stop_state.interrupted
    return result


def failed(call: Call, crash: BaseException) -> Mapped:
    """Return the draft of the result of a call that raised; every exception becomes a result."""
    if isinstance(crash, ToolFailure):
        return failed_result(call, crash.error)
    return failed_result(call, error_of_interruption(call, crash))


async def complete(call: Call, work: Callable[[Call], Awaitable[Mapped]]) -> ToolResult:
    """Run the work of a call and end it; return the result once it is on disk."""
    try:
        mapped = await work(call)
    except BaseException as crash:  # noqa: BLE001 -- a crash in any phase is that phase's failure
        mapped = failed(call, crash)
    result = end(call, mapped)
    return await result.coroutine if type(result) is PendingEnd else result


async def fail(call: Call, error: ToolError) -> ToolResult:
    """End a call with an error, without running it."""
    result = end(call, failed_result(call, error))
    return await result.coroutine if type(result) is PendingEnd else result


async def _finish(call: Call, mapped: Mapped) -> ToolResult:
    """Run the post hooks, store the bytes of the result, and record the end."""
    try:
        mapped = await post_hooks(call, mapped)
        result = await persist_result(call, mapped)
    except BaseException as crash:  # noqa: BLE001 -- the tool has run, so there is a result whatever happens now
        error = error_of_interruption(call, crash)
        result = mapped.result if call.stop.interrupted is crash else failed_result(call, error).result
    return await _record(call, mapped, result)


async def _record(call: Call, mapped: Mapped, result: ToolResult) -> ToolResult:
    """Record the end, and return the result once it is on disk."""
    result = emit_terminal(call, mapped, result)
    if call.core.durable:
        result = await when_durable(call, result)
    if call.stop.interrupted is not None:
        raise call.stop.interrupted
    return result
