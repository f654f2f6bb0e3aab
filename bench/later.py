"""Calls whose answers come later: what each of them costs while it waits, and how fast they come and go over HTTP."""

import asyncio
import gc
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import httpcore
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from agenttool import RapSource, Runtime
from agenttool.policy.rules import Rule
from agenttool.ports.executor import Job
from agenttool.ports.later import LATER, Prompt, Thread, Told
from agenttool.records import Behavior, InvocationId, RuleSource
from agenttool.testing.fakes import scripted_tool
from bench.figure import Absent, Figure, paired
from bench.settings import Settings

ALL = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]
PARKED = 100_000
MANY = 1_000_000
"""`AGENTTOOL_PARKED=1000000 python -m bench later` parks so many; it takes its time."""

AT_ONCE = 64


def measure(settings: Settings) -> list[Figure | Absent]:
    """Park, and make round trips."""
    parked = int(os.environ.get("AGENTTOOL_PARKED", "10000" if settings.quick else str(PARKED)))
    took = asyncio.run(_parked(parked))
    name = f"memory of a call that waits, {parked:,} of them"
    per_call = paired(name, [took], [_bytes_of_a_task()], peer_name="a task that sleeps", unit="kB")
    trips = 300 if settings.quick else 2000
    rounds = 1 if settings.quick else 3
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(rounds):
        ours.append(asyncio.run(_round_trips(trips)))
        bare.append(asyncio.run(_bare(trips)))
    return [per_call, paired("round trip through a RAP server", ours, bare, peer_name="a bare handler", unit="ms")]


class _Mute:
    """A tool whose answers never come."""

    within_s: float | None = None

    def read(self, body: bytes) -> object:
        return body

    def withdraw(self, invocation_id: InvocationId, thread: Thread) -> None:
        return None

    async def reply(self, prompt: Prompt, selected: int) -> Told:
        return Told.REFUSED


async def _take_on(job: Job) -> object:
    return LATER


async def _parked(count: int) -> float:
    """Park so many calls on a file; give the bytes that each of them costs this process."""
    tool = scripted_tool("wait", _take_on, is_concurrency_safe=True)
    tool = replace(tool, executor=_Quiet(), later=_Mute())
    with tempfile.TemporaryDirectory() as folder:
        async with Runtime.open(store=f"sqlite:{folder}/state.db", tools=[tool], rules=ALL) as rt:
            surface = await rt.surface()

            async def some(number: int) -> None:
                for _ in range(number):
                    await rt.start("wait", {}, surface=surface)

            await asyncio.gather(*(some(50) for _ in range(AT_ONCE)))
            before = _resident()
            await asyncio.gather(*(some(count // AT_ONCE) for _ in range(AT_ONCE)))
            return max(_resident() - before, 0) / count


class _Quiet:
    """Remembers nothing."""

    def start(self, job: Job) -> Awaitable[object]:
        return _take_on(job)


def _resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _bytes_of_a_task() -> float:
    async def sleeping() -> float:
        count = 10_000
        before = _resident()
        tasks = [asyncio.create_task(asyncio.sleep(3600)) for _ in range(count)]
        await asyncio.sleep(0)
        took = (_resident() - before) / count
        for task in tasks:
            task.cancel()
        return took

    return asyncio.run(sleeping())


async def _round_trips(count: int) -> float:
    """Call a tool of a RAP server in this process so often; give the seconds for each."""
    pool = httpcore.AsyncConnectionPool()
    posting: set[asyncio.Task[object]] = set()

    async def invoke(request: Request) -> Response:
        sent = await request.json()
        told = {"type": "tool_result", "group_id": sent["group_id"], "id": sent["id"], "text": "done"}
        headers = [(b"Content-Type", b"application/json")]
        work = pool.request("POST", sent["callback_url"], headers=headers, content=json.dumps(told).encode())
        task = asyncio.create_task(work)
        posting.add(task)
        task.add_done_callback(posting.discard)
        return PlainTextResponse("")

    async def manifest(request: Request) -> Response:
        tools = [{"name": "work", "description": "Work.", "inputSchema": {"type": "object"}}]
        told = {"name": "far", "endpoint": f"{request.base_url}invoke", "tools": tools}
        return Response(json.dumps(told), media_type="application/json")

    routes = [Route("/invoke", invoke, methods=["POST"]), Route("/.well-known/rap-toolset", manifest)]

    async def trips(url: str) -> float:
        source = RapSource(name="far", url=url, allow=("127.0.0.0/8",))
        async with Runtime.open(sources=[source], rules=ALL) as rt:
            surface = await rt.surface()
            return await _timed(count, lambda: rt.call("work", {}, surface=surface))

    return await _served(Starlette(routes=routes), trips)


async def _bare(count: int) -> float:
    """Post to a handler that posts back to another, and wait for that: the same two requests and nothing else."""
    pool, waiting = httpcore.AsyncConnectionPool(), dict[str, asyncio.Future[None]]()
    posting: set[asyncio.Task[object]] = set()

    async def invoke(request: Request) -> Response:
        sent = await request.json()
        task = asyncio.create_task(pool.request("POST", sent["callback_url"], content=json.dumps(sent).encode()))
        posting.add(task)
        task.add_done_callback(posting.discard)
        return PlainTextResponse("")

    async def back(request: Request) -> Response:
        waiting.pop((await request.json())["id"]).set_result(None)
        return PlainTextResponse("")

    routes = [Route("/invoke", invoke, methods=["POST"]), Route("/back", back, methods=["POST"])]
    numbers = iter(range(sys.maxsize))

    async def trips(url: str) -> float:
        async def trip() -> None:
            name = str(next(numbers))
            waiting[name] = done = asyncio.get_running_loop().create_future()
            body = json.dumps({"id": name, "callback_url": f"{url}/back", "arguments": {}}).encode()
            await pool.request("POST", f"{url}/invoke", content=body)
            await done

        return await _timed(count, trip)

    return await _served(Starlette(routes=routes), trips)


async def _timed(count: int, trip: Callable[[], Awaitable[object]]) -> float:
    async def some(number: int) -> None:
        for _ in range(number):
            await trip()

    await some(10)
    began = time.perf_counter()
    await asyncio.gather(*(some(count // AT_ONCE + 1) for _ in range(AT_ONCE)))
    return (time.perf_counter() - began) / ((count // AT_ONCE + 1) * AT_ONCE)


async def _served(app: Starlette, work: Callable[[str], Awaitable[float]]) -> float:
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    while not server.started:  # noqa: ASYNC110 -- the library has no event for it
        await asyncio.sleep(0.01)
    try:
        return await work(f"http://127.0.0.1:{listening.getsockname()[1]}")
    finally:
        server.should_exit = True
        await serving
