"""A server as a program: `served.py echo|memory|sqlite [FILE]`; prints its port and its keys once it serves."""

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send

from agenttool import Runtime, tool
from agenttool.cli.http_server import bind, run_server
from agenttool.ports.identity import AccessRole
from agenttool.server.app import serve_runtime
from agenttool.server.grants import GrantKind

READERS = 25
"""So many keys may read events."""


@tool(namespace="bench", read_only=True, concurrency_safe=True, open_world=False)
async def echo(text: str) -> str:
    """Return a text."""
    return text


@tool(namespace="bench")
async def send(text: str) -> str:
    """Send a text; no rule allows it, so the call waits for an approval."""
    return text


@tool(namespace="bench", read_only=True, concurrency_safe=True, open_world=False, max_inline_chars=1_000)
async def report(text: str) -> str:
    """Return a long text, which is stored as a payload."""
    return f"{text}\n" * 20_000


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
    kind, keys = sys.argv[1], [""] * (1 + READERS)
    file = None if kind == "memory" else Path(sys.argv[2] if sys.argv[2:] else "calls.db").absolute()

    @asynccontextmanager
    async def opened() -> AsyncGenerator[ASGIApp]:
        if kind == "echo":
            yield _echo
            return
        async with (
            Runtime.open(
                store="memory:" if file is None else f"sqlite:{file}", tools=[echo, send, report], approve="wait"
            ) as runtime,
            serve_runtime(runtime, file=file) as app,
        ):
            for number in range(len(keys)):
                roles = [AccessRole.AUDITOR if number else AccessRole.CALLER]
                subject = f"agent:bench-{number}"
                keys[number], _ = await app.grants.add(GrantKind.KEY, subject=subject, roles=roles, created_by="bench")
            yield app

    with bind("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]

        def announce() -> None:
            print(json.dumps({"port": port, "key": keys[0], "readers": keys[1:]}), flush=True)

        run_server(listening, opened(), announce)


if __name__ == "__main__":
    main()
