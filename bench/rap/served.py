"""A program that serves one of several RAP servers: `python -m bench.rap.served KIND FOLDER` tells its port."""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from agenttool.adapters.rap.courier import Courier
from agenttool.adapters.rap.forgery import Reach
from agenttool.rap import Limits, Provider, RateLimit
from bench.rap.program import say

PLENTY = 10_000_000


def provider(folder: str) -> ASGIApp:
    """Make a provider with a tool that waits for ever and one that answers at once."""
    limits = Limits(
        calls=RateLimit(per_second=PLENTY, burst=PLENTY),
        max_open=PLENTY,
        max_running=PLENTY,
        max_open_per_caller=PLENTY,
    )
    made = Provider("bench", store=Path(folder) / "bench.db", allow=["127.0.0.1"], limits=limits)

    @made.tool(read_only=True)
    async def wait(number: int) -> str:
        """Wait."""
        await asyncio.Event().wait()
        return str(number)

    @made.tool(read_only=True)
    async def ring(number: int) -> str:
        """Ring."""
        return str(number)

    _ = wait, ring
    return made


def bare(folder: str) -> ASGIApp:
    """Make a handler that reads the request as JSON, and does nothing with it."""

    async def invoke(request: Request) -> Response:
        json.loads(await request.body())
        return Response()

    return Starlette(routes=[Route("/invoke", invoke, methods=["POST"])])


def answering(folder: str) -> ASGIApp:
    """Make a RAP server of bare handlers that acknowledges a call and posts its result back at once."""
    courier, posting = Courier(Reach.of(["127.0.0.1"])), set[asyncio.Task[object]]()

    async def invoke(request: Request) -> Response:
        sent = await request.json()
        told = {"type": "tool_result", "group_id": sent["group_id"], "id": sent["id"], "text": "done"}
        task = asyncio.create_task(courier.post(sent["callback_url"], json.dumps(told).encode()))
        posting.add(task)
        task.add_done_callback(posting.discard)
        return Response()

    async def manifest(request: Request) -> Response:
        tools = [{"name": "work", "description": "Work.", "inputSchema": {"type": "object"}}]
        told = {"name": "far", "endpoint": f"{request.base_url}invoke", "tools": tools}
        return Response(json.dumps(told), media_type="application/json")

    return Starlette(routes=[Route("/invoke", invoke, methods=["POST"]), Route("/.well-known/rap-toolset", manifest)])


KINDS: dict[str, Callable[[str], ASGIApp]] = {"provider": provider, "bare": bare, "answering": answering}


async def main() -> None:
    """Serve until killed, and tell the port."""
    app = KINDS[sys.argv[1]](sys.argv[2])
    config = uvicorn.Config(app, port=0, log_config=None, access_log=False)
    server = uvicorn.Server(config)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110 -- the library has nothing to wait for
            await asyncio.sleep(0.01)
        say(server.servers[0].sockets[0].getsockname()[1])


if __name__ == "__main__":
    asyncio.run(main())
