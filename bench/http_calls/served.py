"""A server as a program: `served.py echo|memory|sqlite`; prints its port and a key once it serves."""

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.types import ASGIApp, Receive, Scope, Send

from agenttool import Runtime, tool
from agenttool.cli.http_server import bind, run_server
from agenttool.ports.identity import AccessRole
from agenttool.server.app import serve_runtime
from agenttool.server.grants import GrantKind

_STORES = {"memory": "memory:", "sqlite": "sqlite:calls.db"}


@tool(namespace="bench", read_only=True, concurrency_safe=True, open_world=False)
async def echo(text: str) -> str:
    """Return a text."""
    return text


async def _echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Return the body of a request: the least that any application does."""
    body, is_more = b"", True
    while is_more:
        message = await receive()
        body, is_more = body + message.get("body", b""), message.get("more_body", False)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def main() -> None:
    """Serve until this process is killed."""
    kind, keys = sys.argv[1], [""]

    @asynccontextmanager
    async def opened() -> AsyncGenerator[ASGIApp]:
        if kind == "echo":
            yield _echo
            return
        async with (
            Runtime.open(store=_STORES[kind], tools=[echo], approve="wait") as runtime,
            serve_runtime(runtime) as app,
        ):
            roles = [AccessRole.CALLER]
            keys[0], _ = await app.grants.add(GrantKind.KEY, subject="agent:bench", roles=roles, created_by="bench")
            yield app

    with bind("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        run_server(listening, opened(), lambda: print(json.dumps({"port": port, "key": keys[0]}), flush=True))


if __name__ == "__main__":
    main()
