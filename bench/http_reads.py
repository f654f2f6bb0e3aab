"""A gateway with a journal of a million events: calls beside clients that search it, and the cost of statistics.

The journal is written once and stored in `build`; each run uses a copy.
"""

import asyncio
import http.client
import json
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.figure import Figure, compare, with_max_ratio, with_max_value
from bench.harness import Settings
from bench.http_calls.rates import Server, open_server
from bench.http_load import call_times
from bench.log_commands import EVENTS, fill
from bench.process import processor_time

CLIENTS = 7
SEARCH = "/v1/calls?containing=no+such+text"
STATISTICS = "/v1/stats?window_s=31536000&buckets=60"
"""The window covers the whole journal, whenever that was written."""

HOME = (STATISTICS, "/v1/approvals?limit=5", "/v1/calls?open=true&limit=8")
"""What the first page of the console requests, and requests again after calls."""

CALLS, ROUNDS, REQUESTS = 40, 7, 20
MAX_RATIO, MAX_S = 3, 0.020
TIMEOUT_S = 600.0


def measure(settings: Settings) -> list[Figure]:
    """Time calls with and without searching clients in alternating order; then read the cost of statistics."""
    rounds = 3 if settings.quick else ROUNDS
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="build")))
        file = Path(shutil.copy(_journal(EVENTS // (20 if settings.quick else 1)), folder / "calls.db"))
        server = open_server("sqlite", settings, stack, str(file.absolute()))
        tools = {"small call": "bench.echo", "call with a payload": "bench.report"}
        for each in tools.values():
            call_times(server, each, CALLS, status=200)
        first_s, beside_first = _first_statistics(server)
        idle: dict[str, list[float]] = {name: [] for name in tools}
        beside: dict[str, list[float]] = {name: [] for name in tools}
        for _ in range(rounds):
            for name, each in tools.items():
                idle[name] += call_times(server, each, CALLS, status=200)
            with _searching(server):
                for name, each in tools.items():
                    beside[name] += call_times(server, each, CALLS, status=200)
        cost = {name: _cost(server, paths) for name, paths in (("/v1/stats", [STATISTICS]), ("home page", HOME))}
    small = statistics.median(idle["small call"])
    figures = [
        with_max_ratio(
            compare(
                f"{name} beside {CLIENTS} clients that search, {label}",
                (_share(beside[name], share), _share(idle[name], share)),
                peer_name="without them",
                unit="ms",
            ),
            at_most=MAX_RATIO,
        )
        for name in tools
        for label, share in (("median", 0.5), ("95 of 100", 0.95))
    ]
    figures.append(
        with_max_ratio(
            compare(
                f"small call beside the first statistics, which take {first_s:.1f} s",
                (statistics.median(beside_first), small),
                peer_name="without them",
                unit="ms",
            ),
            at_most=MAX_RATIO,
        )
    )
    figures += [
        with_max_value(
            compare(f"{name} after a call, processor time", (spent, small), peer_name="a small call", unit="ms"), MAX_S
        )
        for name, spent in cost.items()
    ]
    return figures


def _journal(events: int) -> Path:
    """Return a journal of so many events; it is written if `build` does not have it."""
    path = Path("build") / f"journal-of-{events}-events" / "calls.db"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir="build") as folder:
            asyncio.run(fill(Path(folder) / "calls.db", events))
            (Path(folder) / "calls.db").rename(path)
    return path


def _share(times: Sequence[float], share: float) -> float:
    return sorted(times)[int(len(times) * share)]


def _get(server: Server, reader: int, path: str) -> None:
    """Send a request with the key of a reader.

    Raises:
        RuntimeError: it was refused.
    """
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT_S)
    connection.request("GET", path, headers={"Authorization": f"Bearer {server.readers[reader]}"})
    reply = connection.getresponse()
    found = reply.read()
    connection.close()
    if reply.status != http.HTTPStatus.OK:
        raise RuntimeError(f"the server answered with {reply.status}: {json.loads(found)}")


@contextmanager
def _running(work: Sequence[Callable[[], None]]) -> Generator[Sequence[threading.Thread]]:
    threads = [threading.Thread(target=each) for each in work]
    for each in threads:
        each.start()
    try:
        yield threads
    finally:
        for each in threads:
            each.join()


@contextmanager
def _searching(server: Server) -> Generator[None]:
    """Search in some threads, each with a key of its own."""
    is_over = threading.Event()

    def search(reader: int) -> Callable[[], None]:
        def repeat() -> None:
            while not is_over.is_set():
                _get(server, reader, SEARCH)

        return repeat

    with _running([search(reader) for reader in range(CLIENTS)]):
        try:
            yield
        finally:
            is_over.set()


def _first_statistics(server: Server) -> tuple[float, list[float]]:
    """Return how long the first statistics of all calls take, and how long small calls take meanwhile."""
    start, times = time.perf_counter(), list[float]()
    with _running([lambda: _get(server, 0, STATISTICS)]) as (reading,):
        while not times or reading.is_alive():
            times += call_times(server, "bench.echo", 5, status=200)
    return time.perf_counter() - start, times


def _cost(server: Server, paths: Sequence[str]) -> float:
    """Return the processor seconds of requests after a call has ended."""
    spent: list[float] = []
    for _ in range(REQUESTS):
        call_times(server, "bench.echo", 1, status=200)
        before = processor_time(server.pid)
        for each in paths:
            _get(server, 0, each)
        spent.append(processor_time(server.pid) - before)
    return statistics.median(spent)
