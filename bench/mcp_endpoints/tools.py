"""Our tool for MCP clients, as `agenttool mcp --from bench.mcp_endpoints.tools` serves it."""

from agenttool import tool


@tool(read_only=True, concurrency_safe=True, open_world=False)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
