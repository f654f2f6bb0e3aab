"""RAP servers as a program: `python -m bench.rap.servers KIND FOLDER` prints the port."""

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

from agenttool.http.client import HttpClient
from agenttool.http.ssrf import SsrfPolicy
from agenttool.rap import Limits, Provider, RateLimit
from bench.rap.child_process import reply

PLENTY = 10_000_000


def provider(folder: str) -> ASGIApp:
    """Return a provider with a tool that waits forever and one that returns at once."""
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
    """Return a handler that parses the request and does nothing else."""

    async def invoke(request: Request) -> Response:
        json.loads(await request.body())
        return Response()

    return Starlette(routes=[Route("/invoke", invoke, methods=["POST"])])


def answering(folder: str) -> ASGIApp:
    """Return bare handlers that acknowledge a call and post its result back at once."""
    courier, posting = HttpClient(SsrfPolicy.parse(["127.0.0.1"])), set[asyncio.Task[object]]()

    async def invoke(request: Request) -> Response:
        sent = await request.json()
        message = {"type": "tool_result", "group_id": sent["group_id"], "id": sent["id"], "text": "done"}
        task = asyncio.create_task(courier.post(sent["callback_url"], json.dumps(message).encode()))
        posting.add(task)
        task.add_done_callback(posting.discard)
        return Response()

    async def manifest(request: Request) -> Response:
        tools = [{"name": "work", "description": "Work.", "inputSchema": {"type": "object"}}]
        message = {"name": "far", "endpoint": f"{request.base_url}invoke", "tools": tools}
        return Response(json.dumps(message), media_type="application/json")

    return Starlette(routes=[Route("/invoke", invoke, methods=["POST"]), Route("/.well-known/rap-toolset", manifest)])


KINDS: dict[str, Callable[[str], ASGIApp]] = {"provider": provider, "bare": bare, "answering": answering}


async def main() -> None:
    """Print the port, and serve until killed."""
    app = KINDS[sys.argv[1]](sys.argv[2])
    config = uvicorn.Config(app, port=0, log_config=None, access_log=False)
    server = uvicorn.Server(config)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110 -- the library has nothing to wait for
            await asyncio.sleep(0.01)
        reply(server.servers[0].sockets[0].getsockname()[1])


if __name__ == "__main__":
    asyncio.run(main())
