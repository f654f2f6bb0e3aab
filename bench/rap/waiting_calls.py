"""Calls that wait for a result: the cost of starting one, and the cost of many for the next process.

A runtime on a file starts them, each by a POST to a server in another process. That runtime is killed. The next one
starts on its file, and receives results over HTTP for some of the calls.
"""

import asyncio
import json
import sqlite3
import statistics
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from urllib.request import urlopen

from agenttool.records import JsonObject
from bench.figure import Figure, compare_rounds, with_max_ratio, with_max_value
from bench.harness import Settings
from bench.rap.child_process import ChildProcess, child_process, resident

FEW, MANY, MILLION = 2_000, 100_000, 1_000_000
WARM_UP = 3_000
POSTS = 5_000
ANSWERS = 5
MOST_BYTES = 100
"""Limit of memory per waiting call; its state is a row on disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """The cost of waiting calls in seconds and bytes.

    Attributes:
        start_s: for each call.
        post_s: for each bare request to the same server.
        grown: for each call, in the process that started it.
        opened_s: until the next process was ready.
        opened_with: the memory of that process.
        answer_s: from posting the result of a call until it is acknowledged, when it is on disk.
        answer_read: bytes read from the file for that.
        ended_s: from posting it until the result of the call was read.
    """

    start_s: float
    post_s: float
    grown: float
    opened_s: float
    opened_with: float
    answer_s: float
    answer_read: float
    ended_s: float


def measure(settings: Settings) -> list[Figure]:
    """Measure with many waiting calls and with few."""
    count = MILLION if settings.million else FEW * 5 if settings.quick else MANY
    few, many = _waited(FEW), _waited(count)
    beside, whole = f"{FEW:,} waiting", f"{count:,} waiting"
    memory = compare_rounds(
        f"memory of a call that waits, {count:,} of them",
        [many.grown],
        [_task()],
        peer_name="a sleeping task",
        unit="kB",
    )
    of_both = {
        "start a process": (many.opened_s, few.opened_s, "s"),
        "memory of that process": (many.opened_with, few.opened_with, "MB"),
        "take the answer of one call": (many.answer_s, few.answer_s, "ms"),
        "read from the file for that": (many.answer_read, few.answer_read, "kB"),
        "end that call and read its result": (many.ended_s, few.ended_s, "ms"),
    }
    return [
        with_max_value(memory, MOST_BYTES),
        compare_rounds(
            f"start a call that waits, {count:,}", [many.start_s], [many.post_s], peer_name="a bare POST", unit="µs"
        ),
        *(
            with_max_ratio(compare_rounds(f"{what}, {whole}", [ours], [its], peer_name=beside, unit=unit), at_most=2)
            for what, (ours, its, unit) in of_both.items()
        ),
    ]


def _waited(count: int) -> Waited:
    Path("build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir="build") as folder, child_process("ack_server") as server:
        url, file = f"http://127.0.0.1:{server.ready}", f"{folder}/state.db"
        with child_process("runtime_process", url, file) as holder:
            before = _request(holder, {"start": WARM_UP})["resident"]
            started = _request(holder, {"start": count})
            posted = _request(holder, {"post": POSTS})
        began = time.perf_counter()
        with child_process("runtime_process", url, file) as successor:
            opened_s = time.perf_counter() - began
            _check_count(file, WARM_UP + count)
            with urlopen(f"{url}/calls") as reply:  # noqa: S310 -- our own server
                calls = cast("list[JsonObject]", json.load(reply))[: (WARM_UP + count) // 1000]
            chosen = calls[:: max(1, len(calls) // ANSWERS)]
            answers = [_request(successor, {"answer": call}) for call in chosen]
            return Waited(
                start_s=started["seconds"] / count,
                post_s=posted["seconds"] / POSTS,
                grown=max(started["resident"] - before, 0) / count,
                opened_s=opened_s,
                opened_with=cast("float", successor.ready),
                answer_s=statistics.median(each["seconds"] for each in answers),
                answer_read=statistics.median(each["read"] for each in answers),
                ended_s=statistics.median(each["ended"] for each in answers),
            )


def _request(holder: ChildProcess, order: JsonObject) -> dict[str, float]:
    return cast("dict[str, float]", holder.request(order))


def _check_count(file: str, count: int) -> None:
    """Raise unless the file has this number of waiting calls."""
    with closing(sqlite3.connect(file)) as connection:
        (found,) = connection.execute("SELECT count(*) FROM open_calls WHERE kind = 'remote'").fetchone()
    if found != count:
        raise AssertionError(f"{count} waiting calls expected, {found} found")


def _task() -> float:
    """Return the memory of a sleeping task in bytes."""

    async def sleeping() -> float:
        count = 10_000
        before = resident()
        tasks = [asyncio.create_task(asyncio.sleep(3600)) for _ in range(count)]
        await asyncio.sleep(0)
        took = (resident() - before) / count
        for task in tasks:
            task.cancel()
        return took

    return asyncio.run(sleeping())
