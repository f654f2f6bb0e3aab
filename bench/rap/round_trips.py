"""Invocations that a RAP provider acknowledges, and round trips through the runtime, beside bare starlette handlers."""

import asyncio
import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from typing import cast

from bench.figure import Figure, compare_rounds
from bench.harness import Settings
from bench.rap.child_process import ChildProcess, child_process

CALLERS = 64
CALLS = 2_000
ROUNDS = 7
_PEER = "a bare starlette handler"

TRIPS = 64 * 8
TRIP_ROUNDS = 21
WARM_UP = 64 * 20
"""Enough for all connections to be open and for the interpreter to specialise its code."""

_OURS = {"memory": "round trip through a RAP server", "file": "round trip through a RAP server, stored on disk"}
_BARE = "bare"


def measure(settings: Settings) -> list[Figure]:
    """Measure acknowledgements alone, and with the execution and the delivery of the result."""
    rounds, calls = (3, 500) if settings.quick else (ROUNDS, CALLS)
    return [
        asyncio.run(_measure("RAP invocations acknowledged, 64 callers", "wait", rounds, calls)),
        asyncio.run(_measure("RAP invocations acknowledged, run and delivered, 64 callers", "ring", rounds, calls)),
        *_measure_trips(settings),
    ]


async def _measure(name: str, operation: str, rounds: int, calls: int) -> Figure:
    sink = _Sink()
    async with await asyncio.start_server(sink.serve, "127.0.0.1", 0) as listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/in"
        with (
            tempfile.TemporaryDirectory() as folder,
            child_process("servers", "provider", folder) as ours,
            child_process("servers", "bare", folder) as bare,
        ):
            numbers = count()
            mine: list[float] = []
            its: list[float] = []
            for round_ in range(rounds + 1):
                bodies = [_invocation(operation, next(numbers), url) for _ in range(calls)]
                sink.expected = calls if operation == "ring" else 0
                ports = cast("int", ours.ready), cast("int", bare.ready)
                took = await _timed(ports[0], bodies, sink), await _timed(ports[1], bodies, None)
                if round_:  # the first one warms up
                    mine.append(took[0] / calls)
                    its.append(took[1] / calls)
    return compare_rounds(name, mine, its, peer_name=_PEER, unit="µs")


def _invocation(operation: str, number: int, callback_url: str) -> bytes:
    call = {"operation": operation, "arguments": {"number": number}, "id": f"tc-{number}", "group_id": "plot-9"}
    return json.dumps({**call, "callback_url": callback_url, "user_id": "gardener-5"}).encode()


class _Sink:
    """Receives results, and sets an event when all expected ones have arrived."""

    def __init__(self) -> None:
        self.expected = 0
        self.complete = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(_length(head))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                self.expected -= 1
                if not self.expected:
                    self.complete.set()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()


async def _timed(port: int, bodies: list[bytes], sink: _Sink | None) -> float:
    loop = asyncio.get_running_loop()
    waits = sink is not None and sink.expected > 0
    if sink is not None:
        sink.complete.clear()
    waiting = iter(bodies)
    start = loop.time()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(CALLERS):
            tasks.create_task(_call(port, waiting))
    if sink is not None and waits:
        await sink.complete.wait()
    return loop.time() - start


async def _call(port: int, waiting: Iterator[bytes]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for body in waiting:
        head = (
            f"POST /invoke HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(_length(answer))
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(answer.decode())
    writer.close()


def _length(head: bytes) -> int:
    return int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])


def _measure_trips(settings: Settings) -> list[Figure]:
    """Alternate between all clients, which call the same server."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        server = stack.enter_context(child_process("servers", "answering", folder))
        url = f"http://127.0.0.1:{server.ready}"
        callers = {
            kind: stack.enter_context(child_process("round_trip_client", kind, url, folder)) for kind in (*_OURS, _BARE)
        }
        for caller in callers.values():
            _trips(caller, WARM_UP)
        times: dict[str, list[float]] = {kind: [] for kind in callers}
        for number in range(7 if settings.quick else TRIP_ROUNDS):
            for kind in callers if number % 2 else reversed(callers):
                times[kind].append(_trips(callers[kind], TRIPS))
    return [
        compare_rounds(name, times[kind], times[_BARE], peer_name="bare starlette handlers", unit="µs")
        for kind, name in _OURS.items()
    ]


def _trips(caller: ChildProcess, count: int) -> float:
    return cast("float", caller.request(count))
