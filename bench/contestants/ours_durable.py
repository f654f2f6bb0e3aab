"""Ours on disk: the start is synced before the tool runs, the result before it is returned."""

import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from agenttool import Runtime, tool
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource
from bench.contestants.shapes import ARGUMENTS_JSON

Path("build").mkdir(exist_ok=True)
ALLOW = Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))


@tool(read_only=False, concurrency_safe=True)
async def add(a: int, b: int) -> int:
    """Add two numbers, with unknown effects; a rule allows it."""
    return a + b


@asynccontextmanager
async def opened() -> AsyncGenerator[Mapping[str, Callable[[], Awaitable[object]]]]:
    """Open a runtime on a fresh file."""
    encoded = ARGUMENTS_JSON.encode()
    with tempfile.TemporaryDirectory(dir="build") as folder:
        async with Runtime.open(store=f"sqlite:{folder}/state.db", tools=[add], rules=[ALLOW]) as rt:
            surface = await rt.surface()
            yield {"add": lambda: rt.call("add", encoded, surface=surface)}
