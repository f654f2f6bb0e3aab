"""The OpenAPI 3.1 document of the HTTP API, generated from the route table."""

import inspect
from collections.abc import Sequence
from functools import cache
from http import HTTPStatus
from typing import cast

import msgspec

from agenttool import __version__
from agenttool.records import Json, JsonObject
from agenttool.server.messages import raw
from agenttool.server.route import ApiRequest, EmptyBody, EmptyQuery, Reply, Route

_REF = "#/components/schemas/{name}"
_PROBLEM: JsonObject = {
    "type": "object",
    "description": "A problem document (RFC 9457).",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "pointer": {"type": "string", "description": "a JSON pointer into the body, ?NAME or header:NAME"},
        "reason": {"type": "string", "description": "a stable code"},
        "answered_by": {"type": "string"},
    },
}
_ALWAYS = (HTTPStatus.BAD_REQUEST, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.SERVICE_UNAVAILABLE)
_WITH_IDENTITY = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)
_WITH_BODY = (
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
)
_KEY_HEADER: JsonObject = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    "description": "A repeated request with the same key returns the first call.",
}


async def get_openapi(request: ApiRequest[EmptyQuery, EmptyBody]) -> Reply:
    """Return this document."""
    return Reply(value=raw(request.server.document), headers={"cache-control": "no-cache"})


@cache
def document_of(routes: Sequence[Route]) -> JsonObject:
    """Return the OpenAPI document of a route table."""
    types = [each for route in routes for each in _types(route)]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    found = dict(zip(map(id, types), cast("Sequence[JsonObject]", schemas), strict=True))
    paths: JsonObject = {}
    for route in routes:
        methods = cast("JsonObject", paths.setdefault(route.path, {}))
        methods[route.method.lower()] = _operation(route, found)
    return {
        "openapi": "3.1.0",
        "info": {"title": "agenttool", "version": __version__, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {
            "schemas": {**cast("JsonObject", components), "Problem": _PROBLEM},
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "an API key (atk_…) or a JWT"}
            },
        },
        "security": [{"key": []}, {}],
    }


def _types(route: Route) -> list[object]:
    found: list[object] = [] if route.reply is None else [route.reply]
    return [*found, route.body] if route.has_body else found


def _operation(route: Route, schemas: dict[int, JsonObject]) -> JsonObject:
    text = inspect.getdoc(route.handler) or ""
    summary, _, description = text.partition("\n\n")
    roles = "no identity" if route.roles is None else "one of the roles " + ", ".join(sorted(route.roles))
    operation: JsonObject = {
        "operationId": route.handler.__name__,
        "tags": [route.path.split("/")[2] if route.path.startswith("/v1/") else "server"],
        "summary": " ".join(summary.split()),
        "description": f"{description}\n\nRequires {roles}.".strip(),
        "parameters": [*_path_parameters(route), *_query_parameters(route)],
        "responses": _responses(route, schemas),
    }
    if route.roles is None:
        operation["security"] = []
    if route.has_body:
        content: JsonObject = {"application/json": {"schema": schemas[id(route.body)]}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _path_parameters(route: Route) -> list[Json]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in route.names
    ]


def _query_parameters(route: Route) -> list[Json]:
    schema = msgspec.json.schema(route.query)
    properties = cast("JsonObject", schema["$defs"][route.query.__name__].get("properties", {}))
    found: list[Json] = [
        {"name": name, "in": "query", "required": False, "schema": each} for name, each in properties.items()
    ]
    return [*found, _KEY_HEADER] if route.path == "/v1/calls" and route.method == "POST" else found


def _responses(route: Route, schemas: dict[int, JsonObject]) -> JsonObject:
    responses: JsonObject = {}
    for status in route.statuses:
        response: JsonObject = {"description": status.phrase}
        if route.reply is not None:
            response["content"] = {route.media: {"schema": schemas[id(route.reply)]}}
        responses[str(status.value)] = response
    problems = {*_ALWAYS, *route.problems}
    if route.roles is not None:
        problems |= {*_WITH_IDENTITY}
    if route.has_body:
        problems |= {*_WITH_BODY}
    for status in sorted(problems):
        is_text = route.media == "text/plain" and status is HTTPStatus.SERVICE_UNAVAILABLE
        media = "text/plain" if is_text else "application/problem+json"
        schema: JsonObject = {"type": "string"} if is_text else {"$ref": _REF.format(name="Problem")}
        responses[str(status.value)] = {"description": status.phrase, "content": {media: {"schema": schema}}}
    return responses
