"""The files of the console: what is served, how it is stored by browsers, and what it may do."""

import hashlib
import re
import tomllib
from importlib.resources import files

import msgspec
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from agenttool.console.pages import PAGES, console_response, is_console_path
from agenttool.server.messages import CallListQuery

STATIC = files("agenttool.console") / "static"
SOURCES = sorted(path for path in STATIC.rglob("*.js") if path.parent.name != "vendor")


@pytest.fixture
def client():
    async def serve(scope, receive, send):
        path, known = scope["path"], Request(scope).headers.get("if-none-match", "")
        response = console_response(path, known) if is_console_path(path) else PlainTextResponse("no page", 404)
        await response(scope, receive, send)

    return TestClient(serve)


def test_every_address_of_the_console_serves_the_page_with_a_strict_policy(client):
    for path in (*PAGES, "approvals/apr_1", "calls/inv_1", "tools/files.read_file"):
        reply = client.get(f"/{path}")
        assert (reply.status_code, reply.headers["cache-control"]) == (200, "no-cache")
        policy = dict(part.partition(" ")[::2] for part in reply.headers["content-security-policy"].split("; "))
        assert policy == {
            "default-src": "'none'",
            "script-src": "'self'",
            "style-src": "'self'",
            "connect-src": "'self'",
            "img-src": "'self' blob:",
            "frame-ancestors": "'none'",
            "base-uri": "'none'",
            "form-action": "'none'",
            "require-trusted-types-for": "'script'",
            "trusted-types": "'none'",
        }


def test_the_page_names_its_files_by_a_digest_and_a_browser_may_store_them(client):
    page = client.get("/")
    for path in re.findall(r'(?:src|href)="([^"]+)"', page.text):
        reply = client.get(path)
        assert (reply.status_code, reply.headers["x-content-type-options"]) == (200, "nosniff"), path
        assert "immutable" in reply.headers["cache-control"]
        assert client.get(path, headers={"if-none-match": reply.headers["etag"]}).status_code == 304
    assert client.get("/", headers={"if-none-match": page.headers["etag"]}).status_code == 304


def test_paths_of_the_interfaces_are_no_pages():
    for path in ("/v1/calls", "/mcp", "/healthz", "/openapi.json", "/metrics", "/favicon.ico", "/sources/x", "/status"):
        assert not is_console_path(path)


def test_a_file_that_is_not_of_this_version_is_not_found(client):
    digest = re.search(r"/console/([0-9a-f]+)/", client.get("/").text)[1]
    for path in (
        "0000/app.js",
        f"{digest}/index.html",
        f"{digest}/../pages.py",
        f"{digest}/%2e%2e/pages.py",
        f"{digest}/",
    ):
        assert client.get(f"/console/{path}").status_code == 404


def test_every_module_imports_files_that_are_there(client):
    for path in [*SOURCES, *(STATIC / "vendor").glob("*.js")]:
        for name in re.findall(r'^(?:import|export)\b[^;]*?from\s*"([^"]+)"', path.read_text(), re.MULTILINE):
            assert name.startswith("."), f"{path.name} imports {name}"
            assert (path.parent / name).exists(), f"{path.name} imports {name}"


def test_the_libraries_are_those_whose_digests_and_licences_are_recorded():
    listed = tomllib.loads((STATIC / "vendor" / "vendored.toml").read_text())["files"]
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (STATIC / "vendor").glob("*.js")}
    assert {each["file"]: each["sha256"] for each in listed} == found
    for each in listed:
        licence = (STATIC / "vendor" / each["licence_file"]).read_text()
        assert {"MIT": "MIT License", "Apache-2.0": "Apache License"}[each["licence"]] in licence


def test_no_module_makes_markup_or_code_from_text_or_names_an_outside_address():
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|\beval\(|new Function|srcdoc"
    )
    for path in [*SOURCES, STATIC / "index.html", STATIC / "console.css"]:
        text = path.read_text()
        assert not re.search(forbidden, text), path.name
        assert not re.search(r"[\"'(]https?://|url\(", text.replace("http://www.w3.org/2000/svg", "")), path.name


def test_the_console_has_words_for_every_status_that_the_api_documents():
    listed = re.findall(r"^  (\w+): \{ tone", (STATIC / "statuses.js").read_text(), re.MULTILINE)
    query = msgspec.json.schema(CallListQuery)["$defs"]["CallListQuery"]["properties"]["status"]
    assert listed == next(each["enum"] for each in query["anyOf"] if "enum" in each)


def test_a_module_of_the_console_is_one_concept_and_says_which():
    for path in SOURCES:
        lines = path.read_text().splitlines()
        assert len(lines) <= 300, path.name
        assert lines[0].startswith("// "), path.name
