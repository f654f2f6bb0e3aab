"""A gateway with thousands of waiting calls and hundreds of event streams, beside an idle one."""

import contextlib
import http.client
import json
import selectors
import socket
import statistics
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.figure import Figure, compare, with_max_ratio, with_max_value
from bench.harness import Settings
from bench.http_calls.rates import Server, open_server
from bench.mcp_endpoints.raw_client import START_S

WAITING, STREAMS, STREAMS_OF_A_KEY = 5_000, 200, 8
UNREAD = 20
"""So many of the streams are never read."""

CALLS, ROUNDS = 200, 9
MAX_BYTES = 10_000
"""Limit of the memory of a waiting call."""

MAX_GROWTH = 10_000_000
"""Limit of the memory that calls add which have ended."""


def measure(settings: Settings) -> list[Figure]:
    """Time a fast call on both servers in alternating order, and read the memory of the loaded one."""
    waiting, rounds = (500, 3) if settings.quick else (WAITING, ROUNDS)
    with ExitStack() as stack:
        idle, loaded = (open_server("sqlite", settings, stack) for _ in range(2))
        for each in idle, loaded:
            _call_times(each, CALLS)
        stack.enter_context(_streams(loaded))
        before = _memory(loaded)
        _start_waiting(loaded, waiting)
        with_waiting = _memory(loaded)
        times: dict[str, list[Sequence[float]]] = {"idle": [], "loaded": []}
        for _ in range(rounds):
            times["idle"].append(_call_times(idle, CALLS))
            times["loaded"].append(_call_times(loaded, CALLS))
        after = _memory(loaded)
    name = f"fast call beside {waiting:,} waiting calls and {STREAMS} streams"
    return [
        *(
            with_max_ratio(
                compare(
                    f"{name}, {label}",
                    (_percentile(times["loaded"], share), _percentile(times["idle"], share)),
                    peer_name="an idle server",
                    unit="ms",
                ),
                at_most=limit,
            )
            for label, share, limit in (("median", 0.5, 1.5), ("99 of 100", 0.99, 2))
        ),
        with_max_value(
            compare(
                f"memory that {waiting:,} waiting calls add",
                (with_waiting - before, before),
                peer_name="the server before them",
                unit="MB",
            ),
            MAX_BYTES * waiting,
        ),
        with_max_value(
            compare(
                f"memory that {rounds * CALLS:,} more calls add",
                (max(after - with_waiting, 0), with_waiting),
                peer_name="the server before them",
                unit="MB",
            ),
            MAX_GROWTH,
        ),
    ]


def _percentile(rounds: Sequence[Sequence[float]], share: float) -> float:
    return statistics.median(sorted(each)[int(len(each) * share)] for each in rounds)


def _memory(server: Server) -> int:
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    return int(next(each.split()[1] for each in lines if each.startswith("VmRSS"))) * 1024


def _call_times(server: Server, count: int) -> list[float]:
    return call_times(server, "bench.echo", count, status=200)


def _start_waiting(server: Server, count: int) -> None:
    call_times(server, "bench.send", count, status=202)


def call_times(server: Server, tool: str, count: int, *, status: int) -> list[float]:
    """Return the seconds of calls on one connection.

    Raises:
        RuntimeError: a call was answered with another status.
    """
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=START_S)
    headers = {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"}
    times: list[float] = []
    for number in range(count):
        body = json.dumps({"tool": tool, "arguments": {"text": f"hello {number}"}})
        start = time.perf_counter()
        connection.request("POST", "/v1/calls", body, headers)
        reply = connection.getresponse()
        found = reply.read()
        times.append(time.perf_counter() - start)
        if reply.status != status:
            raise RuntimeError(f"the server answered with {reply.status}: {found[:300]!r}")
    connection.close()
    return times


@contextmanager
def _streams(server: Server) -> Generator[None]:
    """Open event streams; a thread reads all of them but a few."""
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for number in range(STREAMS):
            opened = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=START_S))
            key = server.readers[number // STREAMS_OF_A_KEY]
            lines = f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {key}\r\n\r\n"
            opened.sendall(lines.encode())
            if not opened.recv(4096).startswith(b"HTTP/1.1 200"):
                raise RuntimeError("the server refused a stream")
            if number >= UNREAD:
                selector.register(opened, selectors.EVENT_READ)
        is_over = threading.Event()
        thread = threading.Thread(target=_read_all, args=(selector, is_over))
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()


def _read_all(selector: selectors.BaseSelector, is_over: threading.Event) -> None:
    while not is_over.is_set():
        for key, _ in selector.select(0.1):
            with contextlib.suppress(OSError):
                if isinstance(key.fileobj, socket.socket):
                    key.fileobj.recv(65536)
