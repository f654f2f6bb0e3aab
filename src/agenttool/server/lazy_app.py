"""An ASGI application that starts with its first request, because it takes seconds to import."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from starlette.types import ASGIApp, Receive, Scope, Send


class LazyApp:
    """Opens another application for the first request, and passes all requests on to it."""

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[ASGIApp]], group: asyncio.TaskGroup) -> None:
        """Take what opens the application, and the group of the task that keeps it open."""
        self._make = make
        self._group = group
        self._task: asyncio.Task[None] | None = None
        self._app: asyncio.Future[ASGIApp] = asyncio.get_running_loop().create_future()

    @classmethod
    @asynccontextmanager
    async def open(cls, make: Callable[[], AbstractAsyncContextManager[ASGIApp]]) -> AsyncGenerator["LazyApp"]:
        """Yield the application; leaving it closes what the first request has opened."""
        async with asyncio.TaskGroup() as group:
            app = cls(make, group)
            try:
                yield app
            finally:
                if app._task is not None:
                    app._task.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if self._task is None:
            self._task = self._group.create_task(self._keep_open())
        app = await asyncio.shield(self._app)
        await app(scope, receive, send)

    async def _keep_open(self) -> None:
        async with self._make() as app:
            self._app.set_result(app)
            await asyncio.get_running_loop().create_future()
