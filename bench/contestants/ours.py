"""Ours: every phase, with the journal in memory."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from agenttool import Runtime, tool
from agenttool.records import JsonObject
from bench.contestants.arguments import ARGUMENTS, ARGUMENTS_JSON, NAP_S


@tool(read_only=True, concurrency_safe=True, open_world=False)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def _no_objection(_: JsonObject) -> None:
    pass


@tool(read_only=True, concurrency_safe=True, open_world=False, check=_no_objection)
async def add_checked(a: int, b: int) -> int:
    """Add two numbers; a check of the tool's own keeps the call from taking any short way through the phases."""
    return a + b


@tool(read_only=True, concurrency_safe=True, open_world=False)
async def nap(a: int, b: int) -> int:
    """Add two numbers after a short sleep."""
    await asyncio.sleep(NAP_S)
    return a + b


@asynccontextmanager
async def opened() -> AsyncGenerator[Mapping[str, Callable[[], Awaitable[object]]]]:
    """Open a runtime with one surface; what a model wrote comes as bytes, what a program wrote as a dictionary."""
    arguments: JsonObject = {**ARGUMENTS}
    spelled = ARGUMENTS_JSON.encode()
    async with Runtime.open(tools=[add, add_checked, nap]) as rt:
        surface = await rt.surface()
        yield {
            "add": lambda: rt.call("add", arguments, surface=surface),
            "add_bytes": lambda: rt.call("add", spelled, surface=surface),
            "add_checked": lambda: rt.call("add_checked", spelled, surface=surface),
            "nap": lambda: rt.call("nap", spelled, surface=surface),
        }
