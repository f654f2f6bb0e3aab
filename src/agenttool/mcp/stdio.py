"""Serve a runtime to one MCP client over standard input and output."""

from mcp.server.stdio import stdio_server

from agenttool.mcp.profiles import McpOptions
from agenttool.mcp.server import RuntimeMcpServer
from agenttool.runtime import Runtime


async def serve_stdio(runtime: Runtime, options: McpOptions | None = None) -> None:
    """Serve until the client closes standard input. What tools print goes to standard error.

    Raises:
        StoreError: the store cannot be used.
    """
    async with RuntimeMcpServer.open(runtime, options) as server, stdio_server() as (received, sent):
        await server.lowlevel.run(received, sent, server.lowlevel.create_initialization_options())
