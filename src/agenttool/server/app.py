"""The ASGI application of a runtime, with the table of all routes."""

from collections.abc import Collection
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from agenttool.adapters.rap.callback_urls import PATH
from agenttool.adapters.rap.credentials import Bearer
from agenttool.adapters.rap.request_guard import RequestGuard
from agenttool.runtime import Runtime
from agenttool.server.handlers import CallbackEndpoint, create_surface, get_surface, health, search, status
from agenttool.server.security import LocalOnlyApp, Problem, local_only, problem_response


def app_of(
    runtime: Runtime,
    *,
    admits: Bearer | None = None,
    origins: Collection[str] = (),
    url: str | None = None,
    mcp: ASGIApp | None = None,
) -> Starlette:
    """Return an application for a runtime that the caller has opened and will close.

    With `admits`, every route except callbacks and `/healthz` requires one of its tokens. Browsers are refused on every
    route, except for pages of one of the `origins`. Requests must be for an address, for `localhost`, or for the host
    of `url`, under which other machines reach the runtime. `mcp` serves `/mcp` and `/mcp/NAME`.
    """
    guard = Middleware(RequestGuard, origins=origins, url=url, sealed=f"{PATH}/")
    served = LocalOnlyApp(mcp or _no_mcp)
    routes = (*ROUTES, Route("/mcp", served), Route("/mcp/{profile}", served))
    app = Starlette(routes=routes, exception_handlers=_HANDLERS, middleware=[guard])
    app.state.runtime, app.state.admits = runtime, admits
    return app


async def _no_mcp(scope: Scope, receive: Receive, send: Send) -> None:
    await problem_response(Problem(HTTPStatus.NOT_FOUND, _NO_MCP))(scope, receive, send)


_NO_MCP = "this server has no MCP endpoint, because the package mcp is missing; run: pip install 'agenttool[mcp]'"


async def no_route(request: Request, error: Exception) -> Response:
    """Report an unknown path, or a method that a path does not accept, as a problem document."""
    headers = error.headers if isinstance(error, HTTPException) else None
    path, allowed = request.url.path, (headers or {}).get("Allow")
    if allowed is None:
        return problem_response(Problem(HTTPStatus.NOT_FOUND, f"no route for the path {path!r}; correct the path"))
    detail = f"{path!r} does not accept {request.method}; use {allowed}"
    response = problem_response(Problem(HTTPStatus.METHOD_NOT_ALLOWED, detail))
    response.headers["Allow"] = allowed
    return response


_HANDLERS = {HTTPStatus.NOT_FOUND.value: no_route, HTTPStatus.METHOD_NOT_ALLOWED.value: no_route}

ROUTES = (
    Route(f"{PATH}/{{token}}", CallbackEndpoint()),
    Route("/healthz", health),
    Route("/status", local_only(status)),
    Route("/", local_only(status)),
    Route("/v1/surfaces", local_only(create_surface), methods=["POST"]),
    Route("/v1/surfaces/{surface_id}", local_only(get_surface), methods=["GET"]),
    Route("/v1/search", local_only(search), methods=["POST"]),
)
"""Every route; the reference of the HTTP API is made from it and the docstrings of the handlers."""
