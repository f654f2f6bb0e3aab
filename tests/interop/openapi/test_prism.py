"""Calls to a server that prism makes of a document: it checks each request, and answers as the document says."""

import json
import subprocess
from contextlib import contextmanager

import pytest
from free_ports import find_free_port
from npm_packages import node_22

from agenttool import OpenApiService, Runtime

pytestmark = pytest.mark.soak

TEXT, LIST = {"type": "string"}, {"type": "array", "items": {"type": "integer"}}
PET = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "id": {"type": "integer", "readOnly": True},
        "name": TEXT,
        "tag": {"type": "string", "nullable": True},
    },
}
FORM = {"type": "object", "required": ["name", "sizes"], "properties": {"name": TEXT, "sizes": LIST}}
FORM_MEDIA = {"schema": FORM, "encoding": {"sizes": {"style": "form", "explode": True}}}  # prism has no default
FILE = {"type": "object", "required": ["picture"], "properties": {"picture": {"type": "string", "format": "binary"}}}
ANSWER = {"id": 7, "name": "Rex", "tag": None}
KEY, BEARER = {"type": "apiKey", "in": "header", "name": "X-Key"}, {"type": "http", "scheme": "bearer"}


def operation(name, *parameters, content=None, status="200", answer=ANSWER, **members):
    media = {"application/json": {"schema": PET, "example": answer}} if status != "204" else {}
    found = {"operationId": name, "responses": {status: {"description": "ok", "content": media}}, **members}
    if parameters:
        found["parameters"] = [{"required": True, **each} for each in parameters]
    if content is not None:
        found["requestBody"] = {"required": True, "content": content}
    return found


def query(name, schema, **members):
    return {"name": name, "in": "query", "schema": schema, **members}


DOCUMENT = {
    "openapi": "3.0.3",
    "info": {"title": "Pets", "version": "1"},
    "paths": {
        "/pets": {
            "get": operation(
                "find",
                query("ids", LIST),
                query("tags", {"type": "array", "items": TEXT}, explode=False),
                query("where", {"type": "object", "properties": {"age": {"type": "integer"}}}, style="deepObject"),
                {"name": "X-Trace", "in": "header", "schema": {"type": "integer"}},
            ),
            "post": operation("create", content={"application/json": {"schema": PET}}, status="201"),
        },
        "/pets/{id}": {  # prism ends when it reads a list in a path
            "get": operation("get", {"name": "id", "in": "path", "schema": TEXT}),
            "delete": operation("delete", {"name": "id", "in": "path", "schema": TEXT}, status="204"),
        },
        "/form": {"post": operation("form", content={"application/x-www-form-urlencoded": FORM_MEDIA})},
        "/file": {"post": operation("file", content={"multipart/form-data": {"schema": FILE}})},
        "/key": {"get": operation("key", security=[{"key": []}])},
        "/bearer": {"get": operation("bearer", security=[{"bearer": []}])},
        "/wrong": {"get": operation("wrong", query("q", {"type": "integer"}))},
    },
    "components": {"securitySchemes": {"key": KEY, "bearer": BEARER}},
}
CALLS = {
    "find": {"ids": [1, 2], "tags": ["a b", "c"], "where": {"age": 3}, "X-Trace": 5},
    "create": {"name": "Rex", "tag": None},
    "get": {"id": "a/b c"},
    "delete": {"id": "1"},
    "form": {"name": "a &b", "sizes": [1, 2]},
    "file": {"picture": "hello"},
    "key": {},
    "bearer": {},
}


@contextmanager
def mock_of(document, installed):
    """Run prism for a document; yield its URL."""
    port = find_free_port()
    program = [node_22(), installed / "@stoplight/prism-cli/dist/index.js"]
    command = [*program, "mock", "--errors", "-p", str(port), document]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            shown = []
            for line in process.stdout:
                shown.append(line)
                if "Prism is listening" in line:
                    break
            else:
                pytest.fail("".join(shown))
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


async def test_a_server_that_checks_requests_accepts_ours_and_its_answers_are_results(installed, tmp_path):
    place = tmp_path / "pets.json"
    place.write_text(json.dumps(DOCUMENT))
    # The server checks what the tools of this document, which has another schema, do not.
    loose = json.loads(json.dumps(DOCUMENT))
    loose["paths"]["/wrong"]["get"]["parameters"][0]["schema"] = TEXT
    ours = tmp_path / "ours.json"
    ours.write_text(json.dumps(loose))
    with mock_of(place, installed) as url:
        security = {"key": "${credentials.one}", "bearer": "${credentials.one}"}
        service = OpenApiService("pets", document=str(ours), server=url, security=security)
        credentials = {"one": "secret-one-1"}
        async with Runtime.open(
            sources=[service], store="memory:", approve=lambda _: True, credentials=credentials
        ) as rt:
            results = {name: await rt.call(f"pets.{name}", arguments) for name, arguments in CALLS.items()}
            wrong = await rt.call("pets.wrong", {"q": "no number"})
    assert {name: each.text for name, each in results.items() if not each.ok} == {}
    assert {name for name, each in results.items() if each.value != ANSWER} == {"delete"}
    assert not wrong.ok
    assert "422" in wrong.error.message
