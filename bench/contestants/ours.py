"""Ours: every call shape but the durable one, with the journal in memory."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Literal

from agenttool import FunctionHook, Hook, Question, Runtime, tool
from agenttool.adapters.python.options import ToolOptions
from agenttool.policy.rules import Rule
from agenttool.ports.hooks import HookQuestion
from agenttool.records import Behavior, HookEvent, JsonObject, RuleSource
from bench.contestants.shapes import ARGUMENTS, ARGUMENTS_JSON, DURABLE, NAP_S, SHAPES


@tool(read_only=True, concurrency_safe=True, open_world=False)
async def nap(a: int, b: int) -> int:
    """Add two numbers after a short sleep."""
    await asyncio.sleep(NAP_S)
    return a + b


def _check(arguments: JsonObject) -> None:
    if arguments["a"] == arguments["b"] == -1:
        raise ValueError("the sum is negative")


async def _hook(_: HookQuestion) -> None:
    pass


async def _approve(_: Question) -> Literal["allow"]:
    return "allow"


_READ_ONLY = ToolOptions(read_only=True, concurrency_safe=True, open_world=False)
_OPTIONS: Mapping[str, ToolOptions] = {
    "add_sensitive": {**_READ_ONLY, "sensitive": ("/pin",)},
    "add_checked": {**_READ_ONLY, "check": _check},
    "add_allowed": {"read_only": False, "concurrency_safe": True},
    "add_approved": {"read_only": False, "concurrency_safe": True},
}
_HOOKS = (Hook(name="bench", event=HookEvent.PRE_TOOL_USE, runner=FunctionHook(_hook)),)
_RULES = (Rule(ref="bench", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("local.add_allowed",)),)


@asynccontextmanager
async def opened() -> AsyncGenerator[Mapping[str, Callable[[], Awaitable[object]]]]:
    """Open a runtime for most shapes, and one each with a hook, a rule and an approver; arguments are JSON bytes."""
    tools = {
        shape.name: tool(**_OPTIONS.get(shape.name, _READ_ONLY))(shape.function)
        for shape in SHAPES
        if shape.name != DURABLE
    }
    own = {
        "add_hooked": Runtime.open(tools=[tools.pop("add_hooked")], hooks=_HOOKS),
        "add_allowed": Runtime.open(tools=[tools.pop("add_allowed")], rules=_RULES),
        "add_approved": Runtime.open(tools=[tools.pop("add_approved")], approve=_approve),
    }
    async with AsyncExitStack() as stack:
        plain = await stack.enter_async_context(Runtime.open(tools=[*tools.values(), nap]))
        surface = await plain.surface()
        calls: dict[str, Callable[[], Awaitable[object]]] = {}
        for shape in SHAPES:
            rt, shown = plain, surface
            if shape.name in own:
                rt = await stack.enter_async_context(own[shape.name])
                shown = await rt.surface()
            if shape.name != DURABLE:
                calls[shape.name] = partial(rt.call, shape.name, shape.arguments.encode(), surface=shown)
        arguments: JsonObject = {**ARGUMENTS}
        calls["add_dictionary"] = partial(plain.call, "add", arguments, surface=surface)
        calls["nap"] = partial(plain.call, "nap", ARGUMENTS_JSON.encode(), surface=surface)
        yield calls
