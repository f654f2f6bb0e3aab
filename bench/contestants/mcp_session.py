"""mcp: a client calls a low-level server, which does not validate arguments and is therefore the fastest variant.

In one process the client passes requests as objects; over memory streams they are framed as JSON-RPC.
"""
# pyright: basic, reportMissingImports=false
# The peer is not installed where types are checked.

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client
from mcp.server import Server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, Tool

from bench.contestants.shapes import ARGUMENTS, NAP_S

_SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}


async def _list(_: Any, __: Any) -> ListToolsResult:
    return ListToolsResult(tools=[Tool(name=name, input_schema=_SCHEMA) for name in ("add", "nap")])


async def _call(_: Any, request: CallToolRequestParams) -> CallToolResult:
    if request.name == "nap":
        await asyncio.sleep(NAP_S)
    given = request.arguments or {}
    total = given["a"] + given["b"]
    return CallToolResult(content=[TextContent(type="text", text=str(total))])


@asynccontextmanager
async def opened() -> AsyncGenerator[Mapping[str, Callable[[], Awaitable[object]]]]:
    """Connect both ways; each client has listed the tools."""
    server = Server("bench", on_list_tools=_list, on_call_tool=_call)
    async with Client(server) as direct, Client(server, mode="legacy") as streamed:
        await direct.list_tools()
        await streamed.list_tools()
        yield {
            "add": lambda: direct.session.call_tool("add", ARGUMENTS),
            "add_streamed": lambda: streamed.session.call_tool("add", ARGUMENTS),
            "nap": lambda: direct.session.call_tool("nap", ARGUMENTS),
        }
