"""pydantic-ai: the tool manager of one run step validates and executes one call, as in an agent run.

The manager is prepared once, and its usage and retries count as within one long step. It marks no field as sensitive
and stores nothing here, so these calls are plain.
"""
# pyright: basic, reportMissingImports=false
# The peer is not installed where types are checked.

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

from pydantic_ai import FunctionToolset, ModelRetry, RunContext, Tool
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.models.test import TestModel
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.toolsets import ApprovalRequiredToolset, CombinedToolset, WrapperToolset
from pydantic_ai.usage import RunUsage

from bench.contestants.shapes import ARGUMENTS, ARGUMENTS_JSON, NAP_S, SHAPES


async def nap(a: int, b: int) -> int:
    """Add two numbers after a short sleep."""
    await asyncio.sleep(NAP_S)
    return a + b


async def _check(_: RunContext, a: int, b: int) -> None:
    if a == b == -1:
        raise ModelRetry("the sum is negative")


async def _hook(_name: str, _arguments: dict) -> None:
    pass


class _HookedToolset(WrapperToolset):
    async def call_tool(self, name, tool_args, ctx, tool):  # noqa: ANN001, ANN202 -- the peer's signature
        await _hook(name, tool_args)
        return await super().call_tool(name, tool_args, ctx, tool)


@asynccontextmanager
async def opened() -> AsyncGenerator[Mapping[str, Callable[[], Awaitable[object]]]]:
    """Prepare the manager of a run step."""
    context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    tools = {
        shape.name: Tool(shape.function, args_validator=_check if shape.name == "add_checked" else None)
        for shape in SHAPES
    }
    hooked, allowed = FunctionToolset([tools.pop("add_hooked")]), FunctionToolset([tools.pop("add_allowed")])
    toolset = CombinedToolset(
        [
            FunctionToolset([*tools.values(), nap]),
            _HookedToolset(hooked),
            ApprovalRequiredToolset(
                allowed, approval_required_func=lambda _context, _tool, given: given["a"] == given["b"] == -1
            ),
        ]
    )
    manager = await ToolManager(toolset=toolset).for_run_step(context)
    calls = {shape.name: _call(manager, shape.name, shape.arguments) for shape in SHAPES}
    calls["add_dictionary"] = _call(manager, "add", ARGUMENTS)
    calls["nap"] = _call(manager, "nap", ARGUMENTS_JSON)
    yield calls


def _call(manager: ToolManager, name: str, arguments: str | dict) -> Callable[[], Awaitable[object]]:
    part = ToolCallPart(tool_name=name, args=arguments, tool_call_id=f"call_{name}")
    return partial(manager.handle_call, part)
