"""langchain-core: a structured tool is invoked with a dictionary and no callbacks."""
# pyright: basic, reportMissingImports=false
# The peer is not installed where types are checked.

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from langchain_core.tools import tool

from bench.contestants.shapes import ARGUMENTS, NAP_S


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def nap(a: int, b: int) -> int:
    """Add two numbers after a short sleep."""
    await asyncio.sleep(NAP_S)
    return a + b


@asynccontextmanager
async def opened() -> AsyncGenerator[Mapping[str, Callable[[], Awaitable[object]]]]:
    """Prepare nothing: the tools are ready."""
    yield {"add": lambda: add.ainvoke(ARGUMENTS), "nap": lambda: nap.ainvoke(ARGUMENTS)}
