"""Who may ask a served runtime what waits: programs here, and with a token only those that have it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from http import HTTPStatus

import httpcore
import pytest
from project_settings import write_settings
from starlette.testclient import TestClient

from agenttool import Runtime
from agenttool.adapters.rap.credentials import Bearer

WORD = "a-token-of-a-fair-length"
HERE = {"base_url": "http://127.0.0.1:8642", "client": ("127.0.0.1", 50_000)}


@pytest.fixture
def asking(make_app):
    """Ask a runtime that asks for a token."""
    with TestClient(make_app(Runtime.open, admits=Bearer(WORD)), **HERE) as client:
        yield client


@pytest.mark.parametrize(
    "name",
    [
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "X-Forwarded-Proto",
        "X-Forwarded-Port",
        "X-Forwarded-Server",
        "X-Real-IP",
        "Forwarded",
        "Via",
        "CF-Connecting-IP",
        "True-Client-IP",
        "X-Client-IP",
    ],
)
def test_what_says_of_itself_that_a_proxy_passed_it_on_is_not_from_here(make_app, name):
    with TestClient(make_app(Runtime.open), **HERE) as client:
        assert client.get("/v1/status").status_code == HTTPStatus.OK
        assert client.get("/v1/status", headers={name: "x"}).status_code == HTTPStatus.UNAUTHORIZED
        assert client.get("/healthz", headers={name: "x"}).status_code == HTTPStatus.OK


async def test_what_comes_as_nginx_passes_requests_on_by_itself_is_not_from_here(make_app, serve_app):
    """It names the server as its host, says nothing of the client, and speaks HTTP/1.0."""
    async with serve_app(make_app(Runtime.open)) as url:
        host, port = url.removeprefix("http://").split(":")

        async def asked(version):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(f"GET /v1/status HTTP/{version}\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
            line = await reader.readline()
            writer.close()
            return line.split()[1]

        assert await asked("1.0") == b"401"
        assert await asked("1.1") == b"200"


async def raw_get(url, path, *lines):
    """Send a request with exactly these header lines over a socket; give its status and its body."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = [f"GET {path} HTTP/1.1", f"Host: {host}:{port}", "Connection: close", *lines]
    writer.write("".join(f"{line}\r\n" for line in [*head, ""]).encode())
    answer = await reader.read()
    writer.close()
    return int(answer.split()[1]), answer.partition(b"\r\n\r\n")[2].decode()


BROWSERS = {
    "page elsewhere": ("Origin: https://elsewhere.example", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors"),
    "image elsewhere": ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"),
    "page at another port": ("Origin: http://localhost:3000", "Sec-Fetch-Site: same-site"),
    "address bar": ("Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"),
    "sandbox": ("Origin: null",),
    "older browser": ("Origin: http://127.0.0.1",),
}


@pytest.mark.parametrize("path", ["/v1/status", "/v1/surfaces/srf_1", "/mcp"])
@pytest.mark.parametrize(
    ("site", "passes"),
    [("cross-site", False), ("same-site", False), ("none", False), ("Cross-Site", False), ("same-origin", True)],
)
async def test_the_origin_of_this_server_passes_only_if_the_browser_agrees(make_app, serve_app, path, site, passes):
    async with serve_app(make_app(Runtime.open)) as url:
        _, body = await raw_get(url, path, f"Origin: {url}", f"Sec-Fetch-Site: {site}")
    assert ("a browser may not use this server" not in body) == passes


@pytest.mark.parametrize("path", ["/v1/status", "/healthz", "/rap/callbacks/x", "/v1/surfaces/srf_1", "/mcp"])
@pytest.mark.parametrize("sent", BROWSERS.values(), ids=BROWSERS)
async def test_no_browser_reaches_any_route(make_app, serve_app, path, sent):
    async with serve_app(make_app(Runtime.open)) as url:
        status, body = await raw_get(url, path, *sent)
    problem = json.loads(body)
    assert (status, problem["title"]) == (403, "Forbidden")
    assert "browser" in problem["detail"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8642", 200),
        ("localhost:8642", 200),
        ("[::1]:8642", 200),
        ("10.0.0.5:8642", 200),
        ("Agents.example:443", 200),
        ("agents.example", 200),
        ("localhost", 403),
        ("localhost:3000", 403),
        ("127.0.0.1:8643", 403),
        ("10.0.0.5", 403),
        ("agents.example:80", 403),
        ("evil.example", 403),
        ("agents.example.evil.example", 403),
        ("evil@127.0.0.1", 403),
        ("127.0.0.1/evil", 403),
        ("127.0.0.1#.evil", 403),
        ("", 403),
    ],
)
def test_health_is_reported_only_to_requests_for_this_server(make_app, host, status):
    with TestClient(make_app(Runtime.open, url="https://agents.example/tools"), **HERE) as client:
        assert client.get("/healthz", headers={"Host": host}).status_code == status
        assert client.get(f"/rap/callbacks/{'a' * 32}", headers={"Host": host}).status_code in (status, 404)
        assert client.post("/rap/callbacks/x", headers={"Host": host}).status_code == 404


@pytest.mark.parametrize("host", ["evil@127.0.0.1", "127.0.0.1/evil", "127.0.0.1#.evil", "10.0.0.5", "agents.example"])
def test_the_status_is_reported_only_to_requests_for_this_machine(make_app, host):
    with TestClient(make_app(Runtime.open, url="https://agents.example"), **HERE) as client:
        assert client.get("/v1/status", headers={"Host": host}).status_code in (401, 403)


async def test_a_program_with_the_fetch_of_node_is_no_browser(make_app, serve_app):
    async with serve_app(make_app(Runtime.open)) as url:
        assert (await raw_get(url, "/healthz", "Sec-Fetch-Mode: cors", "User-Agent: node")) == (200, "ok")


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:3000", 200),
        ("http://localhost:8080", 403),
        ("http://localhost", 403),
        ("https://localhost:3000", 403),
        ("http://LOCALHOST:3000.evil.example", 403),
        ("http://127.0.0.1:3000", 403),
    ],
)
async def test_a_page_of_an_origin_in_the_settings_passes_and_no_other(make_app, serve_app, origin, status):
    async with serve_app(make_app(Runtime.open, origins=["http://localhost:3000"])) as url:
        sent = (f"Origin: {origin}", "Sec-Fetch-Site: same-site", "Sec-Fetch-Dest: empty")
        assert (await raw_get(url, "/v1/status", *sent))[0] == status


@pytest.mark.parametrize(
    "twice",
    [
        ("Origin: http://localhost:3000", "Origin: https://elsewhere.example"),
        ("Host: 127.0.0.1",),
        ("Content-Length: 0", "Content-Length: 0"),
        ("Authorization: Bearer a", "Authorization: Bearer b"),
        ("Content-Type: application/json", "content-type: text/plain"),
        ("Sec-Fetch-Site: none", "Sec-Fetch-Site: cross-site"),
    ],
    ids=lambda lines: lines[0].partition(":")[0],
)
async def test_a_header_that_may_be_sent_once_is_refused_twice(make_app, serve_app, twice):
    async with serve_app(make_app(Runtime.open, origins=["http://localhost:3000"])) as url:
        status, _ = await raw_get(url, "/v1/status", *twice)
    assert status == 400


@pytest.mark.parametrize(
    "origin", ["*", "null", "localhost:3000", "http://localhost:3000/", "http://Localhost", "http://a:80"]
)
def test_an_origin_in_the_settings_that_no_browser_sends_is_reported(tmp_path, origin):
    write_settings(tmp_path / "agenttool.toml", f'[server]\norigins = ["{origin}"]\n')
    program = [sys.executable, "-m", "agenttool", "serve", "--port", "0"]
    refused = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False)
    assert refused.returncode == 2
    assert f"got {origin!r}" in " ".join(refused.stderr.split())


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/status"), ("POST", "/v1/search"), ("POST", "/v1/surfaces")])
@pytest.mark.parametrize("shown", [None, "Bearer wrong-token-of-a-length", f"Basic {WORD}", WORD])
def test_a_token_is_required_if_configured(asking, method, path, shown):
    headers = {} if shown is None else {"Authorization": shown}
    refused = asking.request(method, path, headers=headers, json={})
    assert refused.status_code == HTTPStatus.UNAUTHORIZED
    assert refused.headers["www-authenticate"] == "Bearer"
    assert "Authorization: Bearer" in refused.json()["detail"]
    assert WORD not in refused.text
    admitted = asking.request(method, path, headers={"Authorization": f"Bearer {WORD}"}, json={"query": "x"})
    assert admitted.status_code not in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


def test_the_token_is_that_of_a_caller(asking):
    shown = {"Authorization": f"Bearer {WORD}"}
    assert asking.get("/v1/me", headers=shown).json()["roles"] == ["caller"]
    assert asking.get("/v1/approvals", headers=shown).status_code == HTTPStatus.FORBIDDEN


def test_the_token_also_admits_programs_on_other_machines(make_app):
    there = {"base_url": "http://10.0.0.5:8642", "client": ("10.0.0.9", 50_000)}
    with TestClient(make_app(Runtime.open, admits=Bearer(WORD)), **there) as client:
        assert client.get("/v1/me", headers={"Authorization": f"Bearer {WORD}"}).json()["roles"] == ["caller"]
        assert client.get("/v1/me").status_code == HTTPStatus.UNAUTHORIZED


def test_callbacks_and_health_ask_for_no_token(asking):
    assert asking.get("/healthz").status_code == HTTPStatus.OK
    assert asking.post("/rap/callbacks/x", json={}).status_code == HTTPStatus.NOT_FOUND


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "message"),
    [(WORD, None), (None, "names 'STATUS_WORD', which is not set"), ("short", "16 plain characters")],
)
def test_the_settings_name_the_variable_with_the_token(tmp_path, value, message):
    write_settings(tmp_path / "agenttool.toml", '[server]\ntoken_env = "STATUS_WORD"\n')
    program = [sys.executable, "-m", "agenttool", "serve", "--port", "0"]
    given = {key: each for key, each in os.environ.items() if key != "STATUS_WORD"}
    variables = given if value is None else {**given, "STATUS_WORD": value}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    if message is not None:
        refused = subprocess.run(
            program, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=90, check=False
        )
        assert refused.returncode == 2
        assert message in " ".join(refused.stderr.split())
        return
    with subprocess.Popen([*program, "--json"], cwd=tmp_path, env=variables, **pipes) as child:
        url = json.loads(child.stdout.readline())["url"]
        assert httpcore.request("GET", url + "/v1/status").status == HTTPStatus.UNAUTHORIZED
        shown = {"Authorization": f"Bearer {WORD}"}
        assert httpcore.request("GET", url + "/v1/status", headers=shown).status == HTTPStatus.OK
        assert httpcore.request("GET", url + "/healthz").status == HTTPStatus.OK
        child.send_signal(signal.SIGTERM)
        _, said = child.communicate(timeout=90)
    assert child.returncode == 0
    assert WORD not in said
