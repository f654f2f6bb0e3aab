"""A program that makes round trips to a RAP server: `python -m bench.rap.round_trip_client KIND URL FOLDER`.

Each line of input is a number of round trips; the answer is the seconds per trip. A trip is two requests, one to the
server and one back. The bare kind does nothing else.
"""

import asyncio
import json
import socket
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agenttool import RapServer, Runtime
from agenttool.http.client import HttpClient
from agenttool.http.ssrf import SsrfPolicy
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource
from bench.rap.child_process import reply

ALL = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]
CALLERS = 64

Trips = Callable[[int], Awaitable[object]]
"""Makes a round trip for one of the callers."""


@asynccontextmanager
async def governed(url: str, store: str) -> AsyncGenerator[Trips]:
    """Call through a runtime, each caller in a conversation of its own."""
    source = RapServer(name="far", url=url, allow=("127.0.0.0/8",))
    async with Runtime.open(store=store, sources=[source], rules=ALL) as rt:
        surface = await rt.surface()
        conversations = [rt.in_thread(f"thread-{number}") for number in range(CALLERS)]

        async def trip(caller: int) -> None:
            result = await conversations[caller].call("work", {}, surface=surface)
            if result.error is not None:
                raise RuntimeError(result.error.message)

        yield trip


@asynccontextmanager
async def bare(url: str) -> AsyncGenerator[Trips]:
    """Post, and wait for the request to a bare handler."""
    courier = HttpClient(SsrfPolicy.parse(["127.0.0.1"]))
    waiting: dict[str, asyncio.Future[None]] = {}

    async def back(request: Request) -> Response:
        waiting.pop((await request.json())["id"]).set_result(None)
        return Response()

    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    app = Starlette(routes=[Route("/back", back, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    here = f"http://127.0.0.1:{listening.getsockname()[1]}/back"
    made = 0

    async def trip(caller: int) -> None:
        nonlocal made
        name = str(made := made + 1)
        waiting[name] = done = asyncio.get_running_loop().create_future()
        call = {"operation": "work", "arguments": "{}", "id": name, "group_id": str(caller), "callback_url": here}
        await courier.post(f"{url}/invoke", json.dumps(call).encode())
        await done

    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(server.serve(sockets=[listening]))
        yield trip
        server.should_exit = True
        await serving


def _kinds(url: str, folder: str) -> dict[str, Callable[[], AbstractAsyncContextManager[Trips]]]:
    return {
        "memory": lambda: governed(url, "memory:"),
        "file": lambda: governed(url, f"sqlite:{folder}/state.db"),
        "bare": lambda: bare(url),
    }


async def _timed(trip: Trips, count: int) -> float:
    async def some(caller: int) -> None:
        for _ in range(count // CALLERS):
            await trip(caller)

    began = time.perf_counter()
    await asyncio.gather(*(some(caller) for caller in range(CALLERS)))
    return (time.perf_counter() - began) / (count // CALLERS * CALLERS)


async def main() -> None:
    """Run the requested round trips until the input ends."""
    kind, url, folder = sys.argv[1:]
    async with _kinds(url, folder)[kind]() as trip:
        reply("ready")
        while line := await asyncio.to_thread(sys.stdin.readline):
            reply(await _timed(trip, int(line)))


if __name__ == "__main__":
    asyncio.run(main())
