"""openai-agents: a function tool is invoked with the JSON text of its arguments.

The runner makes a new `ToolContext` for each call, since it carries the call's id and arguments; `add_context` does the
same. For `add` one context serves all calls, which is to the peer's advantage.
"""
# pyright: basic, reportMissingImports=false
# The peer is not installed where types are checked.

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from agents import FunctionTool, function_tool
from agents.tool_context import ToolContext

from bench.contestants.arguments import ARGUMENTS_JSON, NAP_S


@function_tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@function_tool
async def nap(a: int, b: int) -> int:
    """Add two numbers after a short sleep."""
    await asyncio.sleep(NAP_S)
    return a + b


@asynccontextmanager
async def opened() -> AsyncGenerator[Mapping[str, Callable[[], Awaitable[object]]]]:
    """Make the context of each tool once, for those calls that share it."""
    of_add, of_nap = _context(add), _context(nap)
    yield {
        "add": lambda: add.on_invoke_tool(of_add, ARGUMENTS_JSON),
        "add_context": lambda: add.on_invoke_tool(_context(add), ARGUMENTS_JSON),
        "nap": lambda: nap.on_invoke_tool(of_nap, ARGUMENTS_JSON),
    }


def _context(tool: FunctionTool) -> ToolContext[None]:
    return ToolContext(context=None, tool_name=tool.name, tool_call_id="call_1", tool_arguments=ARGUMENTS_JSON)
