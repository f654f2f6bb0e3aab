"""The handlers of the HTTP API: callbacks, health, status, surfaces and tool search."""

import dataclasses
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import TypeVar, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from agenttool.adapters.rap.source import RapClient
from agenttool.codec import json_bytes, read_own, to_json
from agenttool.errors import RecordError, StoreError
from agenttool.pipeline.surface_options import SurfaceContext
from agenttool.ports.deferred import Thread
from agenttool.ports.surfacing import ModelCapabilities, Role
from agenttool.records import Json, JsonObject, SurfaceId, ToolSurface
from agenttool.runtime import Runtime
from agenttool.server.security import Problem, read_object

MAX_LISTED = 1000
"""The status page lists at most this many entries of each kind."""

_K = TypeVar("_K", Role, ModelCapabilities)

_SURFACE_MEMBERS = ("model", "only", "reason", "refs", "role", "scope", "tool_choice")
_SEARCH_MEMBERS = ("limit", "query", "surface_id")
_MAX_RESULTS = 100
# `/healthz` is open to every client, so its messages name no path of this machine.
_UNREADABLE, _UNUSABLE = (f"the store cannot be {done}; /status says why" for done in ("read", "used"))


class CallbackEndpoint:
    """Receive progress, questions and results of RAP tool servers.

    The token in the path is the credential: it belongs to one call. A runtime without RAP sources answers 404.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request to the runtime's own callback application."""
        rap = scope["app"].state.runtime.sources.find(RapClient)
        app = PlainTextResponse("not found", status_code=404) if rap is None else rap.app
        await app(scope, receive, send)


async def health(request: Request) -> Response:
    """Return `ok` as text, or 503 if the store cannot be read or written. Every client may ask."""
    runtime: Runtime = request.app.state.runtime
    try:
        await runtime.deferred.list(limit=1)
    except StoreError:
        return PlainTextResponse(_UNREADABLE, HTTPStatus.SERVICE_UNAVAILABLE)
    if runtime.store_fault is not None:
        return PlainTextResponse(_UNUSABLE, HTTPStatus.SERVICE_UNAVAILABLE)
    return PlainTextResponse("ok")


async def status(request: Request) -> Response:
    """Return what is waiting in the runtime, without arguments, texts and URLs.

    | Member | Meaning |
    | --- | --- |
    | `store_fault` | why the store cannot be used; null if it can |
    | `waiting` | the calls that wait for a deferred result |
    | `prompts` | the open prompts of these calls |
    | `approvals` | how many approvals are open |
    | `unsettled` | the calls that have a result, but whose tool no process has |
    | `sources` | `name`, `state`, `since_ns`, `last_error`, `tries`, `next_try_at_ns`, `withheld` of each server |
    | `subscriptions`, `views` | the open subscriptions and views of RAP tools |
    | `faults` | the latest faults of RAP servers |
    | `more` | the lists that are longer than 1,000 entries and were cut |
    """
    return JSONResponse(await status_of(request.app.state.runtime))


async def status_of(runtime: Runtime) -> JsonObject:
    """Return what is waiting in a runtime: calls, prompts, approvals, sources, subscriptions and views.

    The page contains no arguments, texts or URLs.
    """
    found, asked = await runtime.deferred.list(limit=MAX_LISTED + 1), await runtime.prompts.list(limit=MAX_LISTED + 1)
    approvals = await runtime.approvals.list(limit=MAX_LISTED + 1)
    listed = (("waiting", found), ("prompts", asked), ("approvals", approvals))
    page: JsonObject = {
        "store_fault": runtime.store_fault,
        "waiting": [
            _members(each, "invocation_id", "tool_id", "is_sent", "expires_at_ns", thread=each.thread)
            for each in found[:MAX_LISTED]
        ],
        "prompts": [_members(each, "prompt_id", "invocation_id", "kind") for each in asked[:MAX_LISTED]],
        "approvals": min(len(approvals), MAX_LISTED),
        "more": [name for name, entries in listed if len(entries) > MAX_LISTED],
        **{name: [] for name in ("unsettled", "sources", "subscriptions", "views", "faults")},
    }
    rap = runtime.sources.find(RapClient)
    withheld: Mapping[str, tuple[str, ...]] = {} if rap is None else rap.withheld
    page["sources"] = [
        {
            "name": each.source,
            **_members(each, "state", "since_ns", "tries", "next_try_at_ns"),
            "last_error": each.fault,
            "withheld": [*withheld.get(each.source, ())],
        }
        for each in await runtime.sources.status()
    ]
    if rap is None:
        return page
    page["unsettled"] = [
        {**_members(each, "invocation_id", "tool_id", thread=each.thread), "awaits": rap.awaits(each.tool_id)}
        for each in await runtime.deferred.unsettled(limit=MAX_LISTED)
    ]
    page["subscriptions"] = [
        _members(each, "tool_call_id", "source", "name", thread=each.thread)
        for each in await rap.subscriptions.of(limit=MAX_LISTED)
    ]
    page["views"] = [
        {"thread_id": thread_id, "view_type": view_type}
        for thread_id, view_type in await rap.views.names(limit=MAX_LISTED)
    ]
    page["faults"] = [*rap.faults]
    return page


def _members(record: object, *names: str, thread: Thread | None = None) -> JsonObject:
    """Return some attributes of a record, and the id of its thread."""
    found = {name: cast("Json", getattr(record, name)) for name in names}
    return found if thread is None else {**found, "thread_id": thread.thread_id}


async def create_surface(request: Request) -> Response:
    """Create the surface of one context; return it with the status 201 and its `Location`.

    | Member of the body | Meaning |
    | --- | --- |
    | `scope` | such as `turn` or `session`, the default |
    | `only` | the names of the only tools that it may show |
    | `role` | an object with the members of `Role` |
    | `model` | an object with the members of `ModelCapabilities` |
    | `tool_choice` | `auto`, `none`, `required`, or the name of a tool |
    | `refs` | the names of the session, task or sandbox |
    | `reason` | why it is created |
    """
    body = await read_object(request, _SURFACE_MEMBERS)
    context = cast("SurfaceContext", {name: body[name] for name in ("tool_choice", "refs", "reason") if name in body})
    if body.get("role") is not None:
        context["role"] = _part(body, "role", Role)
    if body.get("model") is not None:
        context["model"] = _part(body, "model", ModelCapabilities)
    only = cast("Iterable[str] | None", body.get("only"))
    surface = await _runtime(request).surface(cast("str", body.get("scope", "session")), only=only, **context)
    location = {"location": f"/v1/surfaces/{surface.surface_id}"}
    return _json(to_json(surface), HTTPStatus.CREATED, location)


async def get_surface(request: Request) -> Response:
    """Return a surface; with `?format=`, the tools of a request in the format of a model's provider.

    The formats are `openai`, `openai_responses`, `anthropic` and `gemini`. A surface never changes.
    If a newer one replaced it, the `Link` header names that one.
    """
    runtime, surface = _runtime(request), _find_surface(request, request.path_params["surface_id"])
    latest = runtime.current(surface).surface_id
    newer = None if latest == surface.surface_id else {"link": f'</v1/surfaces/{latest}>; rel="latest-version"'}
    provider = request.query_params.get("format")
    if provider is None:
        return _json(to_json(surface), headers=newer)
    return _json((await runtime.tools_for(provider, surface=surface)).request(), headers=newer)


async def search(request: Request) -> Response:
    """Find tools by words, by exact name (`select:NAME`) or by a pattern (`regex:PATTERN`).

    | Member of the body | Meaning |
    | --- | --- |
    | `query` | what to search for; required |
    | `limit` | how many tools are returned at most, from 1 to 100. Default: 10 |
    | `surface_id` | the surface to search in. Default: all tools |
    """
    body = await read_object(request, _SEARCH_MEMBERS)
    query, limit, surface_id = body.get("query"), body.get("limit", 10), body.get("surface_id")
    if not isinstance(query, str):
        detail = f"query must be text, got {query!r}; send the words to search for"
        raise Problem(HTTPStatus.BAD_REQUEST, detail, pointer="/query")
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= _MAX_RESULTS:
        detail = f"limit must be a whole number from 1 to {_MAX_RESULTS}, got {limit!r}; leave it out for 10"
        raise Problem(HTTPStatus.BAD_REQUEST, detail, pointer="/limit")
    if surface_id is None:
        surface = await _default_surface(request)
    else:
        surface = _find_surface(request, surface_id, pointer="/surface_id")
    return _json(to_json(await _runtime(request).search(query, surface=surface, limit=limit)))


def _runtime(request: Request) -> Runtime:
    return request.app.state.runtime


def _find_surface(request: Request, surface_id: object, pointer: str | None = None) -> ToolSurface:
    surface = _runtime(request).find_surface(SurfaceId(surface_id)) if isinstance(surface_id, str) else None
    if surface is None:
        detail = f"unknown surface {surface_id!r}; create one with POST /v1/surfaces"
        raise Problem(HTTPStatus.NOT_FOUND, detail, pointer=pointer)
    return surface


async def _default_surface(request: Request) -> ToolSurface:
    """Return the current version of the one surface that serves all searches without a surface id."""
    state, runtime = request.app.state, _runtime(request)
    previous: ToolSurface | None = getattr(state, "default_surface", None)
    known = None if previous is None else runtime.find_surface(previous.surface_id)
    state.default_surface = await runtime.surface("session") if known is None else runtime.current(known)
    return state.default_surface


def _part(body: JsonObject, name: str, kind: type[_K]) -> _K:
    """Read a member of the body as a dataclass."""
    given, known = body[name], [each.name for each in dataclasses.fields(kind)]
    unknown = [each for each in given if each not in known] if isinstance(given, dict) else []
    pointer = f"/{name}/{unknown[0]}" if unknown else f"/{name}"
    try:
        if not unknown:
            return read_own(json_bytes(given), kind)
    except RecordError:
        pass
    detail = f"{name} must be an object with the members {', '.join(known)}, got {given!r}; correct it"
    raise Problem(HTTPStatus.BAD_REQUEST, detail, pointer=pointer)


def _json(body: JsonObject, status: HTTPStatus = HTTPStatus.OK, headers: dict[str, str] | None = None) -> Response:
    return Response(json_bytes(body), status.value, headers, "application/json")
