"""The low-level server of the SDK as a program: `sdk_server.py [PORT]`; stdio without a port. It validates nothing.

Over HTTP, clients of older revisions can resume a broken stream, as with ours. The SDK does not do that by default.
"""
# pyright: basic, reportMissingImports=false

import asyncio
import sys
from collections import deque
from typing import Any

from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventStore
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, Tool

_NUMBERS = {"a": {"type": "integer"}, "b": {"type": "integer"}}
_SCHEMA = {"type": "object", "properties": _NUMBERS, "required": ["a", "b"]}


async def _list(_: Any, __: Any) -> ListToolsResult:
    return ListToolsResult(tools=[Tool(name="add", description="Add two numbers.", input_schema=_SCHEMA)])


async def _call(_: Any, request: CallToolRequestParams) -> CallToolResult:
    given = request.arguments or {}
    return CallToolResult(content=[TextContent(type="text", text=str(given["a"] + given["b"]))])


class _Events(EventStore):
    """Stores the latest events, which no client of this benchmark reads again."""

    def __init__(self) -> None:
        self._events: deque[tuple[int, str, Any]] = deque(maxlen=200)
        self._last = 0

    async def store_event(self, stream_id: str, message: Any) -> str:
        self._last += 1
        self._events.append((self._last, stream_id, message))
        return str(self._last)

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> None:
        raise NotImplementedError


async def _stdio(server: Server) -> None:
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())


if __name__ == "__main__":
    made = Server("bench", on_list_tools=_list, on_call_tool=_call)
    if len(sys.argv) > 1:
        import uvicorn

        app = made.streamable_http_app(event_store=_Events(), retry_interval=1000)
        uvicorn.run(app, port=int(sys.argv[1]), log_level="error")
    else:
        asyncio.run(_stdio(made))
