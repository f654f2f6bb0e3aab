"""Who may ask a served runtime what waits: programs here, and with a token only those that have it."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from http import HTTPStatus

import httpcore
import pytest
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
@pytest.mark.parametrize("path", ["/status", "/"])
def test_what_says_of_itself_that_a_proxy_passed_it_on_is_not_from_here(make_app, name, path):
    with TestClient(make_app(Runtime.open), **HERE) as client:
        assert client.get(path).status_code == HTTPStatus.OK
        assert client.get(path, headers={name: "x"}).status_code == HTTPStatus.FORBIDDEN
        assert client.get("/healthz", headers={name: "x"}).status_code == HTTPStatus.OK


async def test_what_comes_as_nginx_passes_requests_on_by_itself_is_not_from_here(make_app, serve_app):
    """It names the server as its host, says nothing of the client, and speaks HTTP/1.0."""
    async with serve_app(make_app(Runtime.open)) as url:
        host, port = url.removeprefix("http://").split(":")

        async def asked(version):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(f"GET /status HTTP/{version}\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
            line = await reader.readline()
            writer.close()
            return line.split()[1]

        assert await asked("1.0") == b"403"
        assert await asked("1.1") == b"200"


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/status"), ("GET", "/"), ("POST", "/v1/search"), ("POST", "/v1/surfaces")]
)
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


def test_a_token_opens_nothing_to_others_than_programs_here(asking):
    shown = {"Authorization": f"Bearer {WORD}", "X-Forwarded-For": "203.0.113.9"}
    assert asking.get("/status", headers=shown).status_code == HTTPStatus.FORBIDDEN


def test_callbacks_and_health_ask_for_no_token(asking):
    assert asking.get("/healthz").status_code == HTTPStatus.OK
    assert asking.post("/rap/callbacks/x", json={}).status_code == HTTPStatus.NOT_FOUND


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "told"), [(WORD, None), (None, "names 'STATUS_WORD', which is not set"), ("short", "16 plain characters")]
)
def test_the_settings_name_the_variable_with_the_token(tmp_path, value, told):
    (tmp_path / "agenttool.toml").write_text('[server]\ntoken_env = "STATUS_WORD"\n')
    program = [sys.executable, "-m", "agenttool", "serve", "--port", str(free_port())]
    given = {key: each for key, each in os.environ.items() if key != "STATUS_WORD"}
    variables = given if value is None else {**given, "STATUS_WORD": value}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    if told is not None:
        refused = subprocess.run(
            program, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=90, check=False
        )
        assert refused.returncode == 2
        assert told in " ".join(refused.stderr.split())
        return
    with subprocess.Popen([*program, "--json"], cwd=tmp_path, env=variables, **pipes) as child:
        url = json.loads(child.stdout.readline())["url"]
        assert httpcore.request("GET", url + "/status").status == HTTPStatus.UNAUTHORIZED
        shown = {"Authorization": f"Bearer {WORD}"}
        assert httpcore.request("GET", url + "/status", headers=shown).status == HTTPStatus.OK
        assert httpcore.request("GET", url + "/healthz").status == HTTPStatus.OK
        child.send_signal(signal.SIGTERM)
        _, said = child.communicate(timeout=90)
    assert child.returncode == 0
    assert WORD not in said
