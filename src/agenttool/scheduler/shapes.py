"""Tools of another shape made into a coroutine that can be driven: those that yield, and those on a thread."""

from asyncio import CancelledError, Future, shield
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeVar

T = TypeVar("T")


async def drain(items: AsyncGenerator[T, None], each: Callable[[T], Awaitable[None] | None]) -> None:
    """Run a tool that yields along the way, handing on each item; drive it like any other coroutine."""
    async with aclosing(items):
        async for item in items:
            handing_on = each(item)
            if handing_on is not None:
                await handing_on


async def outlast(work: "Future[T]", hear: Callable[[], None]) -> T:
    """Wait for work that cannot be interrupted, such as a thread's, until it has really ended.

    To return when canceled would be to say that it stopped while it goes on writing. So a cancellation is only passed
    on, to `hear`, by which the work may learn of it; if it takes no notice, `Drive` runs out of patience.
    """
    while not work.done():
        try:
            await shield(work)
        except CancelledError:
            hear()
    return work.result()
