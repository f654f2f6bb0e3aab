"""No library: the function is awaited. This is the lower bound."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from bench.contestants.shapes import ARGUMENTS, NAP_S


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def nap(a: int, b: int) -> int:
    """Add two numbers after a short sleep."""
    await asyncio.sleep(NAP_S)
    return a + b


@asynccontextmanager
async def opened() -> AsyncGenerator[Mapping[str, Callable[[], Awaitable[object]]]]:
    """Prepare nothing."""
    yield {"add": lambda: add(**ARGUMENTS), "nap": lambda: nap(**ARGUMENTS)}
