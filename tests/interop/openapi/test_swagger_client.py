"""Requests beside those of swagger-client; where the two differ, the specification's style table decides."""

import email
import itertools
import json
import subprocess
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from npm_packages import node_22

from agenttool import OpenApiService
from agenttool.adapters.openapi.importer import import_document
from agenttool.adapters.openapi.requests import build_request
from agenttool.adapters.openapi.security import RequestCredentials

pytestmark = pytest.mark.soak

FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
LIST = {"type": "array", "items": {"type": "string"}}
VALUES = {
    "string": ("a b", {"type": "string"}),
    "array": (["blue", "black", "x y"], LIST),
    "object": ({"R": 100, "G": "g h"}, {"type": "object"}),
    "integer": (5, {"type": "integer"}),
    "boolean": (True, {"type": "boolean"}),
}
STYLES = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
SCHEMES = {
    "key": ({"type": "apiKey", "in": "header", "name": "X-Key"}, "secret", "secret"),
    "query": ({"type": "apiKey", "in": "query", "name": "k"}, "a b", "a b"),
    "cookie": ({"type": "apiKey", "in": "cookie", "name": "c"}, "secret", "secret"),
    "basic": ({"type": "http", "scheme": "basic"}, {"username": "u", "password": "p w"}, "u:p w"),
    "bearer": ({"type": "http", "scheme": "bearer"}, "token", "token"),
    "oauth": (
        {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "https://t.example", "scopes": {}}}},
        {"token": {"access_token": "token", "token_type": "Bearer"}},
        "token",
    ),
}

DISPUTED = {
    # The table of 3.0.4 and 3.1.1 follows RFC 6570: without explode, commas follow the first dot.
    *(f"path label {explode} {kind}" for explode in (None, False) for kind in ("array", "object")),
    # The table has delimiters for objects, too, and percent-encodes the pipe.
    *(f"query spaceDelimited {explode} object" for explode in (None, False)),
    *(f"query pipeDelimited {explode} {kind}" for explode in (None, False) for kind in ("array", "object")),
    # A cookie of the style form is written as in a query; the client encodes the separators, too.
    *(f"cookie form {explode} {kind}" for explode in (None, False, True) for kind in ("array", "object")),
    # A list in a form is repeated, because form explodes by default.
    f"body {FORM}",
    f"body {MULTIPART}",
}


def document(path, method, operation, **members):
    return {
        "openapi": "3.0.3",
        "info": {"title": "t", "version": "1"},
        "servers": [{"url": "https://x.example/v1"}],
        "paths": {path: {method: {"operationId": "op", "responses": {"200": {"description": "ok"}}, **operation}}},
        **members,
    }


def with_body(content_type, schema, **media):
    content = {content_type: {"schema": schema, **media}}
    return document("/c", "post", {"requestBody": {"required": True, "content": content}})


def cases():
    for where, styles in STYLES.items():
        for style, explode, kind in itertools.product(styles, (None, False, True), VALUES):
            is_delimited = style in ("spaceDelimited", "pipeDelimited")
            if (is_delimited and (kind not in ("array", "object") or explode)) or (
                style == "deepObject" and kind != "object"
            ):
                continue
            value, schema = VALUES[kind]
            parameter = {"name": "color", "in": where, "required": True, "style": style, "schema": schema}
            parameter |= {} if explode is None else {"explode": explode}
            path = "/c/{color}" if where == "path" else "/c"
            spec = document(path, "get", {"parameters": [parameter]})
            yield f"{where} {style} {explode} {kind}", {"spec": spec, "parameters": {"color": value}}
    reserved = {"name": "q", "in": "query", "allowReserved": True, "schema": {"type": "string"}}
    yield "reserved", {"spec": document("/c", "get", {"parameters": [reserved]}), "parameters": {"q": "a/b?c:d"}}
    content = {"name": "q", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}}
    yield "content", {"spec": document("/c", "get", {"parameters": [content]}), "parameters": {"q": {"a": [1]}}}
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "l": LIST, "o": {"type": "object"}}}
    for kind in ("application/json", FORM, MULTIPART):
        body = {"a": "x &y", "l": ["1", "2"], "o": {"k": 1}}
        yield f"body {kind}", {"spec": with_body(kind, schema), "requestBody": body, "requestContentType": kind}
    for style, explode in (("form", True), ("form", False), ("spaceDelimited", False), ("pipeDelimited", False)):
        schema = {"type": "object", "properties": {"l": LIST}}
        spec = with_body(FORM, schema, encoding={"l": {"style": style, "explode": explode}})
        body = {"l": ["a b", "c"]}
        yield f"form {style} {explode}", {"spec": spec, "requestBody": body, "requestContentType": FORM}
    schema = {"type": "object", "properties": {"o": {"type": "object"}}}
    spec = with_body(FORM, schema, encoding={"o": {"style": "deepObject", "explode": True}})
    yield "form deepObject", {"spec": spec, "requestBody": {"o": {"k": "v w"}}, "requestContentType": FORM}
    xml = with_body("application/xml", {"type": "string"})
    yield "xml", {"spec": xml, "requestBody": "<a/>", "requestContentType": "application/xml"}
    for name, (scheme, value, _) in SCHEMES.items():
        spec = document("/c", "get", {"security": [{name: []}]}, components={"securitySchemes": {name: scheme}})
        yield f"security {name}", {"spec": spec, "securities": {"authorized": {name: value}}}


def built(case):
    """Return our request of a case."""
    names = case.get("securities", {}).get("authorized", {})
    service = OpenApiService("probe", document="x", security={name: SCHEMES[name][2] for name in names})
    [tool] = import_document(service, json.dumps(case["spec"]).encode(), "x").tools
    arguments = dict(case.get("parameters", {}))
    if "requestBody" in case:
        arguments |= case["requestBody"] if tool.input.members is not None else {"body": case["requestBody"]}
    carried = RequestCredentials()
    for use in tool.uses:
        carried.add(use, use.value)
    request = build_request(service, tool, arguments, carried, {})
    return compared(request.method, request.url, request.headers, request.body)


def compared(method, url, headers, body):
    """Return what matters of a request, with its body parsed."""
    shown = {name.lower(): value for name, value in headers.items() if value and name.lower() != "accept"}
    kind = shown.get("content-type", "")
    if kind.startswith(MULTIPART):
        shown["content-type"] = MULTIPART
        if isinstance(body, bytes):
            message = email.message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + body)
            body = [
                [each.get_param("name", header="Content-Disposition"), each.get_payload(decode=True).decode()]
                for each in message.get_payload()
            ]
        return method, url, shown, body
    body = body.decode() if isinstance(body, bytes) else body
    if kind == FORM:
        body = parse_qsl(body)
    elif kind == "application/json":
        body = json.loads(body) if isinstance(body, str) else body
    return method, url, shown, body


def test_requests_are_those_of_swagger_client_unless_the_specification_says_otherwise(installed):
    found = dict(cases())
    script = Path(__file__).with_name("build_requests.mjs")
    done = subprocess.run(
        [node_22(), script, installed],
        input=json.dumps([*found.values()]),
        capture_output=True,
        text=True,
        check=True,
    )
    theirs = [
        compared(each["method"], each["url"], each["headers"], each.get("body")) for each in json.loads(done.stdout)
    ]
    differing = {name for (name, case), other in zip(found.items(), theirs, strict=True) if built(case) != other}
    assert differing == DISPUTED
