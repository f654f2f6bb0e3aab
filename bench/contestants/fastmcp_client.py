"""fastmcp: a client calls a server in memory; `add_server` leaves the client out."""
# pyright: basic, reportMissingImports=false
# The peer is not installed where types are checked.

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from fastmcp import Client, FastMCP

from bench.contestants.shapes import ARGUMENTS, NAP_S

server = FastMCP("bench")


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
async def nap(a: int, b: int) -> int:
    """Add two numbers after a short sleep."""
    await asyncio.sleep(NAP_S)
    return a + b


@asynccontextmanager
async def opened() -> AsyncGenerator[Mapping[str, Callable[[], Awaitable[object]]]]:
    """Connect a client; its results are not converted, which is to its advantage."""
    async with Client(server) as client:
        yield {
            "add": lambda: client.call_tool_mcp("add", ARGUMENTS),
            "add_server": lambda: server.call_tool("add", ARGUMENTS),
            "nap": lambda: client.call_tool_mcp("nap", ARGUMENTS),
        }
