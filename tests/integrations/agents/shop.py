"""The tools of the agents, and what their journal says afterwards."""

from agenttool import Runtime, tool
from agenttool.records import ToolInvocation


@tool(namespace="depot", read_only=True, concurrency_safe=True, open_world=False)
async def stock(article: str, config: str = "") -> str:
    """Count what is left of an article. Not for prices."""
    return f"7 {article}{config}"


@tool(namespace="depot")
async def order(article: str) -> str:
    """Order an article. Not for prices."""
    raise AssertionError("it is never allowed")


OPTIONS = {"tools": [stock, order], "approve": "deny"}
STOCK, ORDER = {"article": "soap", "config": " left"}, {"article": "salt"}


async def recorded(rt: Runtime) -> list[list[str]]:
    """Return the tools and states of all calls."""
    calls = {}
    async for record in rt.journal.export():
        if isinstance(record, ToolInvocation):
            calls[record.invocation_id] = [record.tool_id, record.status.value]
    return sorted(calls.values())
