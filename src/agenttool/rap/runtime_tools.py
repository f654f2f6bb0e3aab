"""The tools of a provider that are calls of a runtime.

They are governed calls: they pass through every phase, and the runtime's rules decide. Approvals stay with the
runtime's own approvers, because the RAP caller must not approve its own call. If the runtime's store is durable, a call
is named before it is started, so that it is found again after a restart.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from agenttool.adapters.rap.wire import ToolDefinition
from agenttool.errors import ConfigError
from agenttool.ports.calls import ToolCall
from agenttool.ports.deferred import Thread
from agenttool.ports.offer import OfferedTool
from agenttool.rap.call import RapCall
from agenttool.rap.declare import INVALID_NAME_CHAR, MAX_NAME, RapTool
from agenttool.rap.tool_api import Declined, DescribedImage, Result
from agenttool.records import ContentClass, ContentItem, InvocationId, JsonObject, ToolResult, ToolSurface
from agenttool.runtime import Runtime
from agenttool.schema.compile import compile_schema


@asynccontextmanager
async def open_runtime_tools(open_runtime: Callable[[], Runtime]) -> AsyncGenerator[list[RapTool]]:
    """Open a runtime and yield the tools that its surface offers, without deferred and excluded ones.

    Raises:
        ConfigError: there is none, or two tools have the same name in the characters that RAP allows.
    """
    async with open_runtime() as rt:
        surface = await rt.surface(scope="session")
        offered = [tool for tool in rt.surfaces.offered(surface) if not tool.is_deferred]
        names = Counter(tool.name for tool in offered)
        tools = [
            _runtime_tool(rt, surface, tool, tool.qualified_name if names[tool.name] > 1 else tool.name)
            for tool in offered
        ]
        duplicates = [name for name, count in Counter(tool.definition.name for tool in tools).items() if count > 1]
        if duplicates or not tools:
            fault = (
                f"two tools become {duplicates[0]!r}; rename one" if duplicates else "it offers no tool; declare one"
            )
            raise ConfigError(f"this runtime cannot be served over RAP: {fault}")
        yield tools


def _runtime_tool(rt: Runtime, surface: ToolSurface, tool: OfferedTool, name: str) -> RapTool:
    async def run(call: RapCall, arguments: JsonObject) -> object:
        invocation_id = InvocationId(await call.store_once(rt.calls.new_id()))
        conversation = Thread.of_caller(call.stored.caller, call.ancestors[0] if call.ancestors else call.thread_id)
        try:
            started = await rt.in_thread(conversation, caller=call.stored.caller).calls.start(
                ToolCall(
                    tool.qualified_name,
                    arguments,
                    native_call_id=call.idempotency_key,
                    invocation_id=invocation_id,
                ),
                surface=surface,
                actor_ref=call.user_id and f"rap:{call.user_id}",
            )
            result = await started.result()
        except asyncio.CancelledError:
            if call.is_canceled:
                await rt.cancel(invocation_id)
            raise
        return await _runtime_result(rt, result)

    definition = ToolDefinition(
        name=INVALID_NAME_CHAR.sub("_", name)[:MAX_NAME],
        description=tool.description,
        input_schema=tool.input_schema,
    )
    return RapTool(
        definition=definition,
        checker=compile_schema(tool.input_schema),
        run=run,
        is_repeatable=rt.inspection.is_durable,
        limits_itself=True,
    )


async def _runtime_result(rt: Runtime, result: ToolResult) -> object:
    """Return the model-facing content of a result, with its images.

    Raises:
        ToolFailure: it is an error.
    """
    items = result.model_facing_content or result.content or ()
    if result.is_error:
        raise Declined("\n".join(item.text for item in items if item.text) or str(result.status))
    parts = [part for item in items for part in await _parts(rt, item)]
    if all(isinstance(part, str) for part in parts):
        return "\n".join(map(str, parts))
    return Result(parts=parts)


async def _parts(rt: Runtime, item: ContentItem) -> list[str | DescribedImage]:
    if item.type is ContentClass.IMAGE and item.ref is not None:
        data = await rt.journal.payload(item.ref)
        if data is not None and item.media_type is not None:
            return [DescribedImage(data, item.media_type, item.name or "An image.")]
    return [item.text] if item.text else []
