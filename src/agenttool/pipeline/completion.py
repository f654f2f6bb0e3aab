"""The end of a call: one function for calls that ran here, were recovered, or got a deferred result."""

from collections.abc import Awaitable, Callable

from agenttool.errors import StoreError, ToolFailure
from agenttool.pipeline.call import Call
from agenttool.pipeline.checkpoint import persistence_failure
from agenttool.pipeline.failures import error_of_interruption, failed_result
from agenttool.pipeline.phases.emit_terminal import emit_terminal
from agenttool.pipeline.phases.persist_result import persist_result
from agenttool.pipeline.phases.post_hooks import post_hooks
from agenttool.pipeline.shutdown import leave_parked
from agenttool.records import ToolError, ToolResult
from agenttool.results.mapping import Mapped


async def complete(call: Call, work: Callable[[Call], Awaitable[Mapped]]) -> ToolResult:
    """Run the work of a call and phases 10 to 12, and return the result once it is on disk.

    Every exception of the work becomes a result. A parked call is left to another process. If the caller's task was
    canceled, that is raised after the result is written.
    """
    try:
        mapped = await work(call)
    except ToolFailure as failure:
        mapped = failed_result(call, failure.error)
    except BaseException as crash:  # noqa: BLE001 -- a crash in any phase is that phase's failure
        mapped = failed_result(call, error_of_interruption(call, crash))
    if call.is_parked:
        return leave_parked(call, mapped.result)
    tool = call.tool
    if tool is None or (mapped.chars <= tool.inline_below and not tool.has_post_hooks and not mapped.needs_decision):
        result = mapped.result  # no hook wants to see it, and it can be delivered inline
    else:
        result = await finish(call, mapped)
    result = emit_terminal(call, result, mapped.chars, is_plain=mapped.is_plain and result is mapped.result)
    if call.core.durable:
        try:
            await call.core.settle()
        except StoreError as error:
            result = persistence_failure(call, result, error)
    if call.stop.interrupted is not None:
        raise call.stop.interrupted
    return result


async def fail(call: Call, error: ToolError) -> ToolResult:
    """End a call that did no more work, with an error."""

    async def work(_: Call) -> Mapped:
        raise ToolFailure(error)

    return await complete(call, work)


async def finish(call: Call, mapped: Mapped) -> ToolResult:
    """Run phases 10 and 11: run the post hooks and store the bytes of the result."""
    try:
        mapped = await post_hooks(call, mapped)
        return await persist_result(call, mapped)
    except BaseException as crash:  # noqa: BLE001 -- the tool has run, so there is a result whatever happens now
        error = error_of_interruption(call, crash)
        return mapped.result if call.stop.interrupted is crash else failed_result(call, error).result
