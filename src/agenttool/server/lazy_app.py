"""Contexts and applications that open at their first use, because they are slow or often unused."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Generic, TypeVar

from starlette.types import ASGIApp, Receive, Scope, Send

T = TypeVar("T")


class LazyContext(Generic[T]):
    """Enters a context manager at its first use, in a task of its own, and leaves it when the server stops."""

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[T]], group: asyncio.TaskGroup) -> None:
        """Take a function that creates the context manager, and the group for the task that enters it."""
        self._make = make
        self._group = group
        self._task: asyncio.Task[None] | None = None
        self._entered: asyncio.Future[T] | None = None

    async def get(self) -> T:
        """Return what the context manager yields; after a failure, the next use enters it again."""
        if self._entered is None:
            self._entered = asyncio.get_running_loop().create_future()
            self._task = self._group.create_task(self._keep_entered(self._entered))
        return await asyncio.shield(self._entered)

    @property
    def entered(self) -> T | None:
        """What the context manager yielded; None if it was not used yet."""
        found = self._entered
        return found.result() if found is not None and found.done() and found.exception() is None else None

    def close(self) -> None:
        """Leave the context manager; the group waits for it."""
        if self._task is not None:
            self._task.cancel()

    async def _keep_entered(self, entered: "asyncio.Future[T]") -> None:
        try:
            async with self._make() as found:
                entered.set_result(found)
                await asyncio.get_running_loop().create_future()
        except Exception as error:
            if entered.done():
                raise
            self._entered = None
            entered.set_exception(error)
        finally:
            if not entered.done():
                entered.cancel()


@asynccontextmanager
async def lazy_app(make: Callable[[], AbstractAsyncContextManager[ASGIApp]]) -> AsyncGenerator[ASGIApp]:
    """Yield an application that opens another one for its first request, and passes all requests to it."""
    async with asyncio.TaskGroup() as group:
        context = LazyContext(make, group)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await (await context.get())(scope, receive, send)

        try:
            yield app
        finally:
            context.close()
