"""A program that serves the provider, or a bare handler that reads the same request, for `bench.rap_provider`."""

import asyncio
import json
import sys
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from agenttool.rap import Limits, Provider, RateLimit

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


async def main() -> None:
    """Serve until killed, and tell the port."""
    app = {"provider": provider, "bare": bare}[sys.argv[1]](sys.argv[2])
    config = uvicorn.Config(app, port=0, log_config=None, access_log=False)
    server = uvicorn.Server(config)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110 -- the library has nothing to wait for
            await asyncio.sleep(0.01)
        print(server.servers[0].sockets[0].getsockname()[1], flush=True)


if __name__ == "__main__":
    asyncio.run(main())
