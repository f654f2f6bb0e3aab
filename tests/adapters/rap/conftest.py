"""A tool server that does as a test says, over real connections, and a runtime that uses it."""

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from starting import begin

from agenttool import Runtime
from agenttool.adapters.rap import execute
from agenttool.adapters.rap.settings import RapServer
from agenttool.http.client import HttpClient
from agenttool.http.ssrf import SsrfPolicy
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource

HERE = ("127.0.0.0/8",)
ALL = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]
BED = {
    "type": "object",
    "properties": {"bed": {"type": "integer", "minimum": 1}},
    "required": ["bed"],
    "additionalProperties": False,
}


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch):
    monkeypatch.setattr(execute, "FIRST_DELAY_S", 0.01)


class ToolServer:
    """Keeps every request, and answers by a script: statuses for invocations, 200 for everything else."""

    def __init__(self, name="greenhouse", tools=("read_probe",), **manifest):
        self.name = name
        self.manifest = {
            "name": name,
            "tools": [
                tool if isinstance(tool, dict) else {"name": tool, "description": f"{tool}.", "inputSchema": BED}
                for tool in tools
            ],
            **manifest,
        }
        self.requests, self.invocations, self.headers = [], [], []
        self.statuses = {}
        self.reply_headers = ()
        self.on_invoke = None
        self.acknowledgement = {}
        self.url = ""
        self.arrived = asyncio.Event()
        self.http_client = HttpClient(SsrfPolicy.parse(HERE))

    async def __call__(self, scope, receive, send):
        body = b""
        while True:
            event = await receive()
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
        path = scope["path"]
        self.requests.append((scope["method"], path, body))
        self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        script = self.statuses.get(path)
        status, reply = (script.pop(0) if script else 200), b"ignored"
        if path.endswith("/.well-known/rap-toolset"):
            reply = json.dumps({"endpoint": f"{self.url}/invoke", **self.manifest}).encode()
        elif path == "/invoke" and status == 200:
            self.invocations.append(json.loads(body))
            if self.acknowledgement:
                reply = json.dumps({**self.invocations[-1], **self.acknowledgement}).encode()
            self.arrived.set()
            if self.on_invoke is not None:
                await self.on_invoke(self.invocations[-1])
        self.arrived.set()
        headers = [(b"content-type", b"application/json"), *self.reply_headers]
        if status in (301, 307):
            headers.append((b"location", f"{self.url}/elsewhere".encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": reply})

    def posts(self, path):
        """Give the bodies that were posted to a path."""
        return [json.loads(body) for method, at, body in self.requests if (method, at) == ("POST", path)]

    async def until(self, found):
        """Wait until something is so, looking again at each request."""
        async with asyncio.timeout(60):
            while not found():
                self.arrived.clear()
                if not found():
                    await self.arrived.wait()
        return found()

    async def invoked(self, count=1):
        """Wait for so many invocations; give the last of them."""
        await self.until(lambda: len(self.invocations) >= count)
        return self.invocations[-1]

    async def post(self, invocation, kind, *, url=None, headers=None, **members):
        """Post a callback; give the status."""
        about = {"id": invocation["id"]} if kind in ("tool_result", "oauth", "user_choice") else {}
        if kind == "subscription_event":
            about = {"tool_call_id": invocation["id"]}
        message = {"type": kind, "group_id": invocation["group_id"], **about, **members}
        body = json.dumps({name: value for name, value in message.items() if value is not ...}).encode()
        return await self.post_bytes(url or invocation["callback_url"], body, headers)

    async def post_bytes(self, url, body, headers=None):
        reply = await self.http_client.post(url, body, headers)
        return reply.status

    async def hang_up(self):
        await self.http_client.close()

    async def settle(self, invocation, text="done", **members):
        """Post the result of a call."""
        return await self.post(invocation, "tool_result", text=text, **members)


@pytest.fixture
def tool_server():
    """Make the class of servers known to tests."""
    return ToolServer


@pytest.fixture
def running(serve_app):
    """Serve tool servers and open a runtime on them: `async with running(server) as rt`."""

    @asynccontextmanager
    async def running(*servers, options=None, **settings):
        async with AsyncExitStack() as stack:
            for server in servers:
                stack.push_async_callback(server.hang_up)
                server.url = await stack.enter_async_context(serve_app(server, lifespan="off"))
            sources = [
                RapServer(name=f"s{number}", url=server.url, allow=HERE, **settings)
                for number, server in enumerate(servers)
            ]
            given = {"rules": ALL, "approve": "wait", **(options or {})}
            yield await stack.enter_async_context(Runtime.open(sources=sources, **given))

    return running


@pytest.fixture
def started():
    """Start a call of `read_probe`; give it and the invocation that its server got."""

    async def started(rt, server, name="read_probe", **arguments):
        before = len(server.invocations)
        call = await begin(rt, name, arguments or {"bed": 3}, surface=await rt.surface())
        return call, await server.invoked(before + 1)

    return started


@pytest.fixture
def away(running, tool_server):
    """Give a runtime, a server that fails on so many questions, and what may be there besides."""

    @asynccontextmanager
    async def away(*others, times=3, status=503, options=None):
        server = tool_server()
        server.statuses["/.well-known/rap-toolset"] = [status] * times
        async with running(server, *others, options=options) as rt:
            yield rt, server

    return away
