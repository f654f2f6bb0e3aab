"""One application for one runtime: all routes in one table."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from agenttool.adapters.rap.credentials import Bearer
from agenttool.assemble import Runtime
from agenttool.errors import StoreError
from agenttool.server.callbacks import CallbackDoor
from agenttool.server.door import for_programs_here
from agenttool.server.problems import Problem, problem_of
from agenttool.server.showing import ROUTES as SHOWING
from agenttool.server.status import status_of

# Anybody may ask, so that no path of this machine is named.
_UNREADABLE, _UNUSABLE = (f"the store cannot be {done}; /status says why" for done in ("read", "used"))


def make_app(open_runtime: Callable[[], Runtime], *, admits: Bearer | None = None) -> Starlette:
    """Make the application; the runtime is opened when serving begins, and closed when it ends.

    A runtime on a durable store leaves what waits to the next one. With tokens to admit by, all but callbacks and
    `/healthz` asks for one.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with open_runtime() as runtime:
            app.state.runtime, app.state.admits = runtime, admits
            yield

    return Starlette(routes=_ROUTES, exception_handlers=_HANDLERS, lifespan=lifespan)


def app_of(runtime: Runtime, *, admits: Bearer | None = None) -> Starlette:
    """Make the application for a runtime that is open already, for whoever opens and closes it."""
    app = Starlette(routes=_ROUTES, exception_handlers=_HANDLERS)
    app.state.runtime, app.state.admits = runtime, admits
    return app


async def health(request: Request) -> Response:
    """Say that the runtime is there, and whether its store can be read and written."""
    runtime: Runtime = request.app.state.runtime
    try:
        await runtime.waiting(limit=1)
    except StoreError:
        return PlainTextResponse(_UNREADABLE, HTTPStatus.SERVICE_UNAVAILABLE)
    if runtime.store_fault is not None:
        return PlainTextResponse(_UNUSABLE, HTTPStatus.SERVICE_UNAVAILABLE)
    return PlainTextResponse("ok")


async def status(request: Request) -> Response:
    """Tell what waits."""
    return JSONResponse(await status_of(request.app.state.runtime))


async def no_route(request: Request, error: Exception) -> Response:
    """Tell a path that is not there, or a method that it does not take, as a problem like any other."""
    headers = error.headers if isinstance(error, HTTPException) else None
    path, allowed = request.url.path, (headers or {}).get("Allow")
    if allowed is None:
        return problem_of(Problem(HTTPStatus.NOT_FOUND, f"nothing is served at {path!r}; correct the path"))
    told = f"{path!r} does not take {request.method}; use {allowed}"
    response = problem_of(Problem(HTTPStatus.METHOD_NOT_ALLOWED, told))
    response.headers["Allow"] = allowed
    return response


_HANDLERS = {HTTPStatus.NOT_FOUND.value: no_route, HTTPStatus.METHOD_NOT_ALLOWED.value: no_route}

_ROUTES = (
    Route("/rap/callbacks/{token}", CallbackDoor()),
    Route("/healthz", health),
    Route("/status", for_programs_here(status)),
    Route("/", for_programs_here(status)),
    *SHOWING,
)
