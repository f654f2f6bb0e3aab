"""A look at a provider from outside finds what it promises and does not keep."""

import asyncio
import json
import socket

import pytest

from agenttool.errors import ConfigError
from agenttool.rap import Bearer, Signed, check
from agenttool.rap.check import open_check

WORD = "correct-horse-battery"
MANIFEST = {
    "name": "toy",
    "tools": [{"name": "ring", "description": "Ring.", "inputSchema": {"type": "object"}, "displayScript": "args.x"}],
}


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch):
    monkeypatch.setattr(check, "RESULT_TIMEOUT_S", 1.0)
    monkeypatch.setattr(check, "_REPEAT_DELAY_S", 0.1)


async def seen(url, credential=None):
    async with open_check(url, credential) as look:
        return {each.expectation: each.is_met for each in await look.findings()}


async def test_a_provider_of_ours_keeps_every_promise_and_runs_nothing(make, serve_app, monkeypatch):
    monkeypatch.setattr(check, "RESULT_TIMEOUT_S", 60.0)
    provider, ran = make(auth=Bearer(WORD)), []

    @provider.tool(display_script='"ring"')
    async def ring() -> None:
        """Ring."""
        ran.append(1)

    async with serve_app(provider) as url:
        found = await seen(url, Bearer(WORD))
    assert len(found) == 10
    assert [promise for promise, is_kept in found.items() if not is_kept] == []
    assert ran == []


class Toy:
    """A provider that breaks promises: one that a test chooses, or all of them."""

    def __init__(self, broken):
        self.broken = broken
        self.url = ""
        self.seen = set()

    async def __call__(self, scope, receive, send):
        body = (await receive()).get("body", b"")
        status, reply = 200, b""
        if scope["method"] == "GET":
            reply = json.dumps({**MANIFEST, "endpoint": f"{self.url}/run"}).encode()
            status = 404 if self.broken == "manifest" else 200
        elif scope["path"] == "/run":
            status = self.judge(dict(scope["headers"]), body)
        elif scope["path"] == f"/{self.broken}":
            status = 404
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": reply})
        if scope["path"] == "/run" and status == 200:
            await self.answer(json.loads(body))

    def judge(self, headers, body):
        if self.broken == "lax":
            return 200
        if headers[b"content-type"] != b"application/json":
            return 415
        message = json.loads(body)
        return 200 if isinstance(message, dict) and "callback_url" in message else 400

    async def answer(self, message):
        if not isinstance(message, dict) or "callback_url" not in message:
            return
        if self.broken == "silent" or (self.broken != "twice" and message["id"] in self.seen):
            return
        self.seen.add(message["id"])
        result = {
            "type": "tool_result",
            "text": "Error: no",
            **{n: message.get(n) for n in ("id", "group_id", "call_id")},
        }
        if self.broken == "forgetful":
            del result["call_id"]
        if self.broken == "rude":
            result["text"] = "no"
        url = message["callback_url"].removeprefix("http://")
        host, _, target = url.partition("/")
        reader, writer = await asyncio.open_connection(*host.split(":"))
        body = json.dumps(result).encode()
        head = f"POST /{target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await reader.read()
        writer.close()


@pytest.mark.parametrize(
    ("broken", "count", "named"),
    [
        ("", 0, ""),
        ("manifest", 1, "manifest"),
        ("silent", 2, "an error result"),
        ("forgetful", 2, "an error result"),
        ("rude", 2, "an error result"),
        ("twice", 1, "runs a repeated call once"),
        ("lax", 3, "rejects"),
        ("cancel_tool_call", 1, "/cancel_tool_call"),
        ("close_thread", 1, "/close_thread"),
    ],
)
async def test_what_is_broken_is_found(serve_app, broken, count, named):
    toy = Toy(broken)
    async with serve_app(toy, lifespan="off") as toy.url:
        found = await seen(toy.url)
    flawed = [promise for promise, is_kept in found.items() if is_kept is False]
    assert (len(flawed), [promise for promise in flawed if named not in promise]) == (count, [])
    if broken != "manifest":
        assert found["shows calls of 'ring' by a text"] is None


async def test_an_unreachable_server_yields_no_findings():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with open_check(f"http://127.0.0.1:{port}") as look:
        [found] = await look.findings()
    assert found.is_met is None
    assert "connection failed" in found.detail


@pytest.mark.parametrize(
    ("auth", "why"),
    [(Bearer(WORD), "it answered 401: not authorized"), (Signed(WORD), "the request is signed for http://localhost:")],
)
async def test_of_a_server_that_does_not_let_us_in_nothing_is_said_but_why(make, serve_app, auth, why):
    provider = make(auth=auth)

    @provider.tool
    async def ring() -> None:
        """Ring."""

    async with serve_app(provider) as url, open_check(url.replace("127.0.0.1", "localhost"), Signed(WORD)) as look:
        [found] = await look.findings()
    assert found.is_met is None
    assert why in found.detail


@pytest.mark.parametrize("url", ["gh.example", "ftp://gh.example", "http://", "http://[x"])
async def test_an_invalid_url_is_rejected(url):
    with pytest.raises(ConfigError, match="base URL"):
        async with open_check(url):
            pass
