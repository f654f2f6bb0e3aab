"""A runtime as a provider meets it: real connections, an inbox that answers as the test sets it, and a bound on every wait."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from agenttool.http.client import HttpClient
from agenttool.http.ssrf import SsrfPolicy
from agenttool.rap import Provider, outbox


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch):
    monkeypatch.setattr(outbox, "FIRST_DELAY_S", 0.01)
    monkeypatch.setattr(outbox, "MAX_DELAY_S", 0.05)


class Inbox:
    """Takes callbacks, keeps all of them, and answers each with the next status of its script, and then with 200."""

    def __init__(self):
        self.taken = []
        self.headers = []
        self.targets = []
        self.statuses = []
        self.reply_headers = []
        self.arrived = asyncio.Event()
        self.url = ""

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            while True:
                kind = (await receive())["type"]
                await send({"type": f"{kind}.complete"})
                if kind.endswith("shutdown"):
                    return
        body = b""
        while True:
            event = await receive()
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
        status = self.statuses.pop(0) if self.statuses else 200
        self.targets.append(scope["raw_path"].decode() + "?" + scope["query_string"].decode())
        self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        self.taken.append((status, json.loads(body or b"null")))
        self.arrived.set()
        await send({"type": "http.response.start", "status": status, "headers": self.reply_headers})
        await send({"type": "http.response.body", "body": b"ignored"})

    @property
    def messages(self):
        """Give what was taken in."""
        return [message for status, message in self.taken if status == 200]

    async def wait(self, count, kind=None):
        """Wait for so many messages, of one kind or of any, and give them."""
        while True:
            found = [each for each in self.messages if kind in (None, each["type"])]
            if len(found) >= count:
                return found
            self.arrived.clear()
            await self.arrived.wait()


class Client:
    """A runtime's side of the wire: posts what the test passes, and knows the addresses."""

    def __init__(self, base, inbox):
        self.base = base
        self.inbox = inbox
        self.headers = {}
        self.http_client = HttpClient(SsrfPolicy.parse(["127.0.0.0/8"]))

    def invocation(self, operation, arguments=None, **members):
        """Spell an invocation."""
        plain = {"operation": operation, "arguments": arguments or {}, "id": "tc-1", "group_id": "thread-1"}
        return {**plain, "callback_url": f"{self.inbox.url}/in/9d3e?k=w8", **members}

    async def invoke(self, operation, arguments=None, **members):
        """Post an invocation, and give the status."""
        return await self.post("/invoke", self.invocation(operation, arguments, **members))

    async def post(self, path, message, **headers):
        """Post anything, and give the status."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        url = path if path.startswith("http") else self.base + path
        return (await self.http_client.post(url, body, {**self.headers, **headers})).status

    async def get(self, path):
        """Get a document, and give the reply."""
        return await self.http_client.get(path if path.startswith("http") else self.base + path, self.headers)

    async def result(self, count=1):
        """Wait for results, and give the last of so many."""
        return (await self.inbox.wait(count, "tool_result"))[count - 1]


@pytest.fixture
def inbox(free_port):
    """Give an inbox whose address is known before it listens."""
    known = Inbox()
    known.url = f"http://127.0.0.1:{free_port()}"
    return known


@pytest.fixture
def serving(serve_app):
    """Serve a provider beside an inbox; gives the runtime's side of the wire."""

    @asynccontextmanager
    async def serving(provider, inbox=None):
        inbox = inbox or Inbox()
        port = int(inbox.url.rpartition(":")[2] or 0)  # a runtime that comes back is where it was
        async with serve_app(inbox, port) as inbox.url, serve_app(provider) as base:
            client = Client(base, inbox)
            try:
                yield client
            finally:
                await client.http_client.close()

    return serving


@pytest.fixture
def make(tmp_path):
    """Make a provider that keeps its calls in this test's folder and may call back to this machine."""
    return lambda name="greenhouse", **options: Provider(
        name, store=tmp_path / "calls.db", **{"allow": ["127.0.0.0/8"], **options}
    )
