"""pydantic-ai: the tool manager of one run step validates and executes one call, as an agent has it do.

The manager is prepared once, and its usage and retries go on counting as within one long step.
"""
# pyright: basic, reportMissingImports=false
# The peer is not installed where types are checked.

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from pydantic_ai import FunctionToolset, RunContext
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.models.test import TestModel
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.usage import RunUsage

from bench.contestants.arguments import ARGUMENTS, ARGUMENTS_JSON, NAP_S


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def nap(a: int, b: int) -> int:
    """Add two numbers after a short sleep."""
    await asyncio.sleep(NAP_S)
    return a + b


@asynccontextmanager
async def opened() -> AsyncGenerator[Mapping[str, Callable[[], Awaitable[object]]]]:
    """Prepare the manager of a run step."""
    context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    manager = await ToolManager(toolset=FunctionToolset([add, nap])).for_run_step(context)
    from_dict = ToolCallPart(tool_name="add", args=ARGUMENTS, tool_call_id="call_1")
    from_json = ToolCallPart(tool_name="add", args=ARGUMENTS_JSON, tool_call_id="call_2")
    napping = ToolCallPart(tool_name="nap", args=ARGUMENTS_JSON, tool_call_id="call_3")
    yield {
        "add": lambda: manager.handle_call(from_json),
        "add_dict": lambda: manager.handle_call(from_dict),
        "nap": lambda: manager.handle_call(napping),
    }
