"""One application for one runtime: all routes in one table."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from agenttool.assemble import Runtime
from agenttool.server.callbacks import CallbackDoor
from agenttool.server.door import for_programs_here
from agenttool.server.showing import ROUTES as SHOWING
from agenttool.server.status import status_of


def make_app(open_runtime: Callable[[], Runtime]) -> Starlette:
    """Make the application; the runtime is opened when serving begins, and closed when it ends.

    A runtime on a durable store leaves what waits to the next one.
    """
    callbacks = CallbackDoor()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with open_runtime() as runtime:
            app.state.runtime = runtime
            callbacks.rap = runtime.rap
            yield

    routes = [
        Route("/rap/callbacks/{token}", callbacks),
        Route("/healthz", health),
        Route("/status", for_programs_here(status)),
        Route("/", for_programs_here(status)),
        *SHOWING,
    ]
    return Starlette(routes=routes, lifespan=lifespan)


async def health(request: Request) -> Response:
    """Say that the runtime is there, and its store can be read."""
    runtime: Runtime = request.app.state.runtime
    await runtime.waiting(limit=1)
    return PlainTextResponse("ok")


async def status(request: Request) -> Response:
    """Tell what waits."""
    return JSONResponse(await status_of(request.app.state.runtime))
