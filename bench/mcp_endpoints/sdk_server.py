"""The low-level server of the SDK as a program: `sdk_server.py [PORT]`; stdio without a port. It validates nothing."""
# pyright: basic, reportMissingImports=false

import asyncio
import sys
from typing import Any

from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, Tool

_NUMBERS = {"a": {"type": "integer"}, "b": {"type": "integer"}}
_SCHEMA = {"type": "object", "properties": _NUMBERS, "required": ["a", "b"]}


async def _list(_: Any, __: Any) -> ListToolsResult:
    return ListToolsResult(tools=[Tool(name="add", description="Add two numbers.", input_schema=_SCHEMA)])


async def _call(_: Any, request: CallToolRequestParams) -> CallToolResult:
    given = request.arguments or {}
    return CallToolResult(content=[TextContent(type="text", text=str(given["a"] + given["b"]))])


async def _stdio(server: Server) -> None:
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())


if __name__ == "__main__":
    made = Server("bench", on_list_tools=_list, on_call_tool=_call)
    if len(sys.argv) > 1:
        import uvicorn

        uvicorn.run(made.streamable_http_app(), port=int(sys.argv[1]), log_level="error")
    else:
        asyncio.run(_stdio(made))
