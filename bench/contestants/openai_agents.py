"""openai-agents: a function tool is invoked with the JSON text of its arguments.

The runner makes a new `ToolContext` for each call, since it carries the call's id and arguments; `add_context` does the
same. All other calls share one context per tool, which is to the peer's advantage. What its runner awaits before it
invokes a tool is awaited here in the same order: the approval function, the input guardrail, the start hook. A large
output is written as text, as its runner does; its other work is not measured. It marks no field as sensitive and stores
nothing, so these calls are plain.
"""
# pyright: basic, reportMissingImports=false
# The peer is not installed where types are checked.

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

from agents import (
    Agent,
    FunctionTool,
    RunHooks,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    function_tool,
    tool_input_guardrail,
)
from agents.tool_context import ToolContext

from bench.contestants.shapes import ARGUMENTS_JSON, NAP_S, SHAPES

AGENT = Agent(name="bench")


@function_tool
async def nap(a: int, b: int) -> int:
    """Add two numbers after a short sleep."""
    await asyncio.sleep(NAP_S)
    return a + b


@tool_input_guardrail
async def _check(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
    arguments = json.loads(data.context.tool_arguments)
    if arguments["a"] == arguments["b"] == -1:
        return ToolGuardrailFunctionOutput.reject_content("the sum is negative")
    return ToolGuardrailFunctionOutput.allow()


async def _needs_approval(_context: object, arguments: Mapping[str, object], _call_id: str) -> bool:
    return arguments["a"] == arguments["b"] == -1


async def _checked(tool: FunctionTool, context: ToolContext[None], arguments: str) -> object:
    verdict = await _check.run(ToolInputGuardrailData(context=context, agent=AGENT))
    if verdict.behavior["type"] != "allow":
        return verdict
    return await tool.on_invoke_tool(context, arguments)


async def _hooked(tool: FunctionTool, context: ToolContext[None], arguments: str) -> object:
    await _HOOKS.on_tool_start(context, AGENT, tool)
    return await tool.on_invoke_tool(context, arguments)


async def _allowed(tool: FunctionTool, context: ToolContext[None], arguments: str) -> object:
    if await tool.needs_approval(context, json.loads(arguments), context.tool_call_id):
        return None
    return await tool.on_invoke_tool(context, arguments)


async def _shown(tool: FunctionTool, context: ToolContext[None], arguments: str) -> str:
    return str(await tool.on_invoke_tool(context, arguments))


_HOOKS = RunHooks()
_WAYS = {"add_checked": _checked, "add_hooked": _hooked, "add_allowed": _allowed, "add_output": _shown}
_OPTIONS: Mapping[str, dict] = {
    "add_nested": {"strict_mode": False},  # its strict mode takes no mapping
    "add_choices": {"strict_mode": False},
    "add_checked": {"tool_input_guardrails": [_check]},
    "add_allowed": {"needs_approval": _needs_approval},
}


@asynccontextmanager
async def opened() -> AsyncGenerator[Mapping[str, Callable[[], Awaitable[object]]]]:
    """Make the tool of each shape, and its context for the calls that share it."""
    tools = {shape.name: function_tool(shape.function, **_OPTIONS.get(shape.name, {})) for shape in SHAPES}
    calls: dict[str, Callable[[], Awaitable[object]]] = {}
    for shape in SHAPES:
        tool, context = tools[shape.name], _context(tools[shape.name], shape.arguments)
        way = _WAYS.get(shape.name)
        calls[shape.name] = partial(*((tool.on_invoke_tool,) if way is None else (way, tool)), context, shape.arguments)
    add = tools["add"]
    calls["add_context"] = lambda: add.on_invoke_tool(_context(add, ARGUMENTS_JSON), ARGUMENTS_JSON)
    calls["nap"] = partial(nap.on_invoke_tool, _context(nap, ARGUMENTS_JSON), ARGUMENTS_JSON)
    yield calls


def _context(tool: FunctionTool, arguments: str) -> ToolContext[None]:
    return ToolContext(context=None, tool_name=tool.name, tool_call_id="call_1", tool_arguments=arguments)
