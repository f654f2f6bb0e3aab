"""A governed catalog as a RAP toolset: each invocation is a call through every phase, and its rules decide.

Approvals stay with the runtime's own approvers. Whoever asked for a call over RAP must not be the one who approves it.
On a store that outlives the process a call outlives it, too: it is named before it is started, and found by its name.
"""

import asyncio
import re
from collections import Counter

from agenttool.adapters.rap.wire import ToolDefinition
from agenttool.errors import ConfigError
from agenttool.ports.offer import OfferedTool
from agenttool.rap.call import Call
from agenttool.rap.declare import RapTool
from agenttool.rap.outcome import Declined, Image, Result
from agenttool.records import ContentClass, ContentItem, InvocationId, JsonObject, ToolResult, ToolSurface
from agenttool.runtime import Runtime
from agenttool.schema.compile import compile_schema

_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME = 128


async def governed_tools(rt: Runtime) -> list[RapTool]:
    """Make a toolset of what a runtime's surface offers; what it defers or leaves out is not in it.

    Raises:
        ConfigError: it offers nothing, or two tools cannot be told apart by names that RAP allows.
    """
    surface = await rt.surface(scope="session")
    offered = [tool for tool in rt.offered(surface) if not tool.is_deferred]
    shared = {name for name, count in Counter(tool.name for tool in offered).items() if count > 1}
    tools = [_tool(rt, surface, tool, tool.qualified_name if tool.name in shared else tool.name) for tool in offered]
    twice = [name for name, count in Counter(tool.definition.name for tool in tools).items() if count > 1]
    if twice or not tools:
        fault = f"two tools become {twice[0]!r}; rename one" if twice else "its surface offers no tool; declare one"
        raise ConfigError(f"this runtime cannot be served over RAP: {fault}")
    return tools


def _tool(rt: Runtime, surface: ToolSurface, tool: OfferedTool, name: str) -> RapTool:
    async def run(call: Call, arguments: JsonObject) -> object:
        invocation_id = InvocationId(await call.keep_word(rt.new_invocation_id()))
        try:
            await rt.start(
                tool.qualified_name,
                arguments,
                surface=surface,
                native_call_id=call.idempotency_key,
                actor_ref=None if call.user_id is None else f"rap:{call.user_id}",
                invocation_id=invocation_id,
            )
            result = await rt.wait(invocation_id)
        except asyncio.CancelledError:
            if call.is_canceled:
                await rt.cancel(invocation_id)
            raise
        return await _outcome(rt, result)

    definition = ToolDefinition(
        name=_FOREIGN.sub("_", name)[:_MAX_NAME], description=tool.description, input_schema=tool.input_schema
    )
    return RapTool(
        definition=definition,
        checker=compile_schema(tool.input_schema),
        run=run,
        is_repeatable=rt.is_durable,
        has_own_turns=True,
    )


async def _outcome(rt: Runtime, result: ToolResult | None) -> object:
    """Tell a result as a model would be told it, images included.

    Raises:
        ToolFailure: it is an error.
    """
    if result is None:
        raise Declined("the call was left where it is")
    items = result.model_facing_content or result.content or ()
    if result.is_error:
        raise Declined("\n".join(item.text for item in items if item.text) or str(result.status))
    parts = [part for item in items for part in await _parts(rt, item)]
    if all(isinstance(part, str) for part in parts):
        return "\n".join(map(str, parts))
    return Result(parts=parts)


async def _parts(rt: Runtime, item: ContentItem) -> list[str | Image]:
    if item.type is ContentClass.IMAGE and item.ref is not None:
        data = await rt.payload(item.ref)
        if data is not None and item.media_type is not None:
            return [Image(data, item.media_type, item.name or "An image.")]
    return [item.text] if item.text else []
