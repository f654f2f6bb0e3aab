"""What a model may be shown, over HTTP: surfaces, in the formats of its providers, and the search among what waits."""

import dataclasses
from collections.abc import Iterable
from http import HTTPStatus
from typing import TypeVar, cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agenttool.assemble import Runtime
from agenttool.codec import json_bytes, read_own, to_json
from agenttool.errors import RecordError
from agenttool.pipeline.asked_surface import SurfaceContext
from agenttool.ports.surfacing import ModelCapabilities, Role
from agenttool.records import JsonObject, SurfaceId, ToolSurface
from agenttool.server.door import body_of, for_programs_here
from agenttool.server.problems import Problem

_K = TypeVar("_K", Role, ModelCapabilities)

_SURFACE = ("model", "only", "reason", "refs", "role", "scope", "tool_choice")
_SEARCH = ("limit", "query", "surface_id")
_MOST_FOUND = 100


async def make_surface(request: Request) -> Response:
    """`POST /v1/surfaces`: make the surface of one context."""
    body = await body_of(request, _SURFACE)
    context = cast("SurfaceContext", {name: body[name] for name in ("tool_choice", "refs", "reason") if name in body})
    if body.get("role") is not None:
        context["role"] = _part(body, "role", Role)
    if body.get("model") is not None:
        context["model"] = _part(body, "model", ModelCapabilities)
    only = cast("Iterable[str] | None", body.get("only"))
    surface = await _runtime(request).surface(cast("str", body.get("scope", "session")), only=only, **context)
    where = {"location": f"/v1/surfaces/{surface.surface_id}"}
    return _json(to_json(surface), HTTPStatus.CREATED, where)


async def one_surface(request: Request) -> Response:
    """`GET /v1/surfaces/{id}`: tell a surface, or by `?format=` what to send to a model's provider.

    A surface never changes, so that it is told as it was made; a header leads to the one that took its place, if any.
    """
    runtime, surface = _runtime(request), _found(request, request.path_params["surface_id"])
    latest = (await runtime.current(surface)).surface_id
    newer = None if latest == surface.surface_id else {"link": f'</v1/surfaces/{latest}>; rel="latest-version"'}
    wanted = request.query_params.get("format")
    told = to_json(surface) if wanted is None else (await runtime.tools_for(wanted, surface=surface)).request()
    return _json(told, headers=newer)


async def search(request: Request) -> Response:
    """`POST /v1/search`: find tools by words, or exactly; on a surface, or on one with everything."""
    body = await body_of(request, _SEARCH)
    query, limit, surface_id = body.get("query"), body.get("limit", 10), body.get("surface_id")
    if not isinstance(query, str):
        raise Problem(
            HTTPStatus.BAD_REQUEST, f"query must be text, got {query!r}; say what to look for", pointer="/query"
        )
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= _MOST_FOUND:
        told = f"limit must be a whole number from 1 to {_MOST_FOUND}, got {limit!r}; leave it out for 10"
        raise Problem(HTTPStatus.BAD_REQUEST, told, pointer="/limit")
    runtime = _runtime(request)
    surface = await _everything(request) if surface_id is None else _found(request, surface_id, pointer="/surface_id")
    return _json(to_json(await runtime.search(query, surface=surface, limit=limit)))


ROUTES = (
    Route("/v1/surfaces", for_programs_here(make_surface), methods=["POST"]),
    Route("/v1/surfaces/{surface_id}", for_programs_here(one_surface), methods=["GET"]),
    Route("/v1/search", for_programs_here(search), methods=["POST"]),
)


def _runtime(request: Request) -> Runtime:
    return request.app.state.runtime


def _found(request: Request, surface_id: object, pointer: str | None = None) -> ToolSurface:
    surface = _runtime(request).surface_with(SurfaceId(surface_id)) if isinstance(surface_id, str) else None
    if surface is None:
        told = f"no surface is called {surface_id!r}; make one by POST /v1/surfaces"
        raise Problem(HTTPStatus.NOT_FOUND, told, pointer=pointer)
    return surface


async def _everything(request: Request) -> ToolSurface:
    """Give one surface for all who name none, as it is by now."""
    state, runtime = request.app.state, _runtime(request)
    kept: ToolSurface | None = getattr(state, "everything", None)
    known = None if kept is None else runtime.surface_with(kept.surface_id)
    state.everything = await runtime.surface("session") if known is None else await runtime.current(known)
    return state.everything


def _part(body: JsonObject, name: str, kind: type[_K]) -> _K:
    """Read a member that is an object of its own."""
    given, known = body[name], [each.name for each in dataclasses.fields(kind)]
    unknown = [each for each in given if each not in known] if isinstance(given, dict) else []
    pointer = f"/{name}/{unknown[0]}" if unknown else f"/{name}"
    try:
        if not unknown:
            return read_own(json_bytes(given), kind)
    except RecordError:
        pass
    told = f"{name} must be an object with the members {', '.join(known)}, got {given!r}; correct it"
    raise Problem(HTTPStatus.BAD_REQUEST, told, pointer=pointer)


def _json(told: JsonObject, status: HTTPStatus = HTTPStatus.OK, headers: dict[str, str] | None = None) -> Response:
    return Response(json_bytes(told), status.value, headers, "application/json")
