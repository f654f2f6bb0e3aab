"""The OpenAPI 3.1 document of the HTTP API, generated from the route table."""

import inspect
from collections.abc import Sequence
from functools import cache
from http import HTTPStatus
from typing import cast

import msgspec

from agenttool import __version__
from agenttool.codec import object_of
from agenttool.records import Json, JsonObject
from agenttool.schema.record_schemas import definitions_of
from agenttool.schema.traverse import DEFINITION
from agenttool.server.messages import RECORDS, SCHEMA_REF, AnyObject, raw
from agenttool.server.route import PlainRequest, Reply, Route

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
_DIGEST = f"sha256:{'0' * 64}"
_EXAMPLES: dict[str, JsonObject] = {
    "CallBody": {"tool": "files.read_file", "arguments": {"name": "welcome.txt"}},
    "BatchBody": {
        "calls": [
            {"tool": "math.add", "arguments": {"a": 1, "b": 2}},
            {"tool": "files.read_file", "arguments": {"name": "welcome.txt"}, "depends_on": [0]},
        ]
    },
    "AnswerBody": {"answer": "allow", "shown_digest": _DIGEST},
    "InputBody": {"input": {"to": "ada", "amount": 90}},
    "SearchBody": {"query": "read a file", "limit": 5},
    "SurfaceBody": {"only": ["files.*"]},
    "TryBody": {"tool": "bank.pay", "arguments": {"to": "ada", "amount": 90}},
    "MatchBody": {"rule": {"behavior": "allow", "tool": "bank.pay"}},
    "KeyBody": {"subject": "agent:shop", "roles": ["caller"], "expires_in_s": 86400},
    "LoginBody": {"key": "atk_…"},
}
_ALWAYS = (HTTPStatus.BAD_REQUEST, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.SERVICE_UNAVAILABLE)
_WITH_IDENTITY = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS}
_WITH_BODY = {
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
}
_KEY_HEADER: JsonObject = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    "description": "A repeated request with the same key returns the first call.",
}


async def get_openapi(request: PlainRequest) -> Reply[AnyObject]:
    """Return this document."""
    return Reply(raw(request.server.document), {"cache-control": "no-cache"})


@cache
def document_of(routes: Sequence[Route]) -> JsonObject:
    """Return the OpenAPI document of a route table."""
    bodies = ((route.reply, route.body if route.has_body else None) for route in routes)
    types = [each for both in bodies for each in both if each is not None]
    schemas, messages = msgspec.json.schema_components(types, ref_template=SCHEMA_REF + "{name}")
    components = {**definitions_of(RECORDS), **messages}
    found = dict(zip(map(id, types), cast("Sequence[JsonObject]", schemas), strict=True))
    paths: JsonObject = {}
    for route in routes:
        object_of(paths.setdefault(route.path, {}))[route.method.lower()] = _operation(route, found)
    return {
        "openapi": "3.1.0",
        "info": {"title": "agenttool", "version": __version__, "license": {"name": "Apache-2.0"}},
        "tags": [{"name": name} for name in dict.fromkeys(map(_tag, routes))],
        "paths": paths,
        "components": {
            "schemas": {**object_of(_for_generators(cast("Json", components))), "Problem": _PROBLEM},
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "an API key (atk_…) or a JWT"}
            },
        },
        "security": [{"key": []}, {}],
    }


def _for_generators(schema: Json) -> Json:
    """Return schemas as generators of clients read them, with references into this document.

    Generators treat a member with a default as required, and an object whose schema names no members as empty.
    """
    if isinstance(schema, list):
        return [_for_generators(each) for each in schema]
    if not isinstance(schema, dict):
        return schema.replace(DEFINITION, SCHEMA_REF) if isinstance(schema, str) else schema
    found = {
        name: _for_generators(each) for name, each in schema.items() if name != "default" or isinstance(each, dict)
    }
    is_bare = found.get("type") == "object" and not {"properties", "additionalProperties"} & found.keys()
    return {**found, "additionalProperties": True} if is_bare else found


def _operation(route: Route, schemas: dict[int, JsonObject]) -> JsonObject:
    text = inspect.getdoc(route.handler) or ""
    summary, _, description = text.partition("\n\n")
    roles = "no identity" if route.roles is None else "one of the roles " + ", ".join(sorted(route.roles))
    operation: JsonObject = {
        "operationId": route.handler.__name__,
        "tags": [_tag(route)],
        "summary": " ".join(summary.split()),
        "description": f"{description}\n\nRequires {roles}.".strip(),
        "parameters": [*_path_parameters(route), *_query_parameters(route)],
        "responses": _responses(route, schemas),
    }
    if route.roles is None:
        operation["security"] = []
    if route.has_body:
        content: JsonObject = {"schema": schemas[id(route.body)]}
        example = _EXAMPLES.get(route.body.__name__)
        content |= {} if example is None else {"example": example}
        operation["requestBody"] = {"required": True, "content": {"application/json": content}}
    return operation


def _tag(route: Route) -> str:
    return route.path.split("/")[2] if route.path.startswith("/v1/") else "server"


def _path_parameters(route: Route) -> list[Json]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in route.names
    ]


def _query_parameters(route: Route) -> list[Json]:
    schema = msgspec.json.schema(route.query)
    properties = object_of(schema["$defs"][route.query.__name__].get("properties"))
    found: list[Json] = [
        {"name": name, "in": "query", "required": False, "schema": each} for name, each in properties.items()
    ]
    return [*found, _KEY_HEADER] if route.path == "/v1/calls" and route.method == "POST" else found


def _responses(route: Route, schemas: dict[int, JsonObject]) -> JsonObject:
    responses: JsonObject = {}
    for status in route.successes:
        response: JsonObject = {"description": status.phrase}
        if route.reply is not None:
            response["content"] = {route.media: {"schema": schemas[id(route.reply)]}}
        responses[str(status.value)] = response
    problems = {*_ALWAYS, *route.failures}
    problems |= set() if route.roles is None else _WITH_IDENTITY
    problems |= _WITH_BODY if route.has_body else set()
    for status in sorted(problems):
        is_text = route.media == "text/plain" and status is HTTPStatus.SERVICE_UNAVAILABLE
        media = "text/plain" if is_text else "application/problem+json"
        schema: JsonObject = {"type": "string"} if is_text else {"$ref": SCHEMA_REF + "Problem"}
        responses[str(status.value)] = {"description": status.phrase, "content": {media: {"schema": schema}}}
    return responses
