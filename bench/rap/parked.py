"""Calls that wait for days: what one costs to start and to keep, and what very many of them cost the next process.

They are started for real: through a runtime on a file, by a POST each to a server in another process. That runtime is
killed; the next one starts on its file, and answers come in over HTTP for some calls from among the many.
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
from bench.figure import Figure, below, limited, paired
from bench.rap.program import Program, program, resident
from bench.settings import Settings

FEW, MANY, MILLION = 2_000, 100_000, 1_000_000
WARM_UP = 3_000
POSTS = 5_000
ANSWERS = 5
MOST_BYTES = 100
"""So much memory a call may cost that waits: a row is on disk, so this is noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """What it cost to let calls wait: seconds, and bytes.

    Attributes:
        start_s: for each call.
        post_s: for each bare request to the same server.
        grown: for each call, in the process that started it.
        opened_s: until the next process was ready.
        opened_with: the memory of that process.
        answer_s: from posting the answer of a call until it is taken, which is when it is on disk.
        answer_read: what was read from the file for that.
        ended_s: from posting it until the call has ended and its result was read.
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
    """Let very many wait, and a few."""
    count = MILLION if settings.million else FEW * 5 if settings.quick else MANY
    few, many = _waited(FEW), _waited(count)
    beside, whole = f"{FEW:,} waiting", f"{count:,} waiting"
    memory = paired(
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
        below(memory, MOST_BYTES),
        paired(
            f"start a call that waits, {count:,}", [many.start_s], [many.post_s], peer_name="a bare POST", unit="µs"
        ),
        *(
            limited(paired(f"{what}, {whole}", [ours], [its], peer_name=beside, unit=unit), at_most=2)
            for what, (ours, its, unit) in of_both.items()
        ),
    ]


def _waited(count: int) -> Waited:
    Path("build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir="build") as folder, program("taking") as server:
        url, file = f"http://127.0.0.1:{server.ready}", f"{folder}/state.db"
        with program("holding", url, file) as holder:
            before = _told(holder, {"start": WARM_UP})["resident"]
            started = _told(holder, {"start": count})
            posted = _told(holder, {"post": POSTS})
        began = time.perf_counter()
        with program("holding", url, file) as heir:
            opened_s = time.perf_counter() - began
            _refuse_fewer(file, WARM_UP + count)
            with urlopen(f"{url}/calls") as reply:  # noqa: S310 -- our own server
                calls = cast("list[JsonObject]", json.load(reply))[: (WARM_UP + count) // 1000]
            chosen = calls[:: max(1, len(calls) // ANSWERS)]
            answers = [_told(heir, {"answer": call}) for call in chosen]
            return Waited(
                start_s=started["seconds"] / count,
                post_s=posted["seconds"] / POSTS,
                grown=max(started["resident"] - before, 0) / count,
                opened_s=opened_s,
                opened_with=cast("float", heir.ready),
                answer_s=statistics.median(each["seconds"] for each in answers),
                answer_read=statistics.median(each["read"] for each in answers),
                ended_s=statistics.median(each["ended"] for each in answers),
            )


def _told(holder: Program, order: JsonObject) -> dict[str, float]:
    return cast("dict[str, float]", holder.tell(order))


def _refuse_fewer(file: str, count: int) -> None:
    """Believe the file, not the program: so many calls must wait in it."""
    with closing(sqlite3.connect(file)) as connection:
        (found,) = connection.execute("SELECT count(*) FROM open_calls WHERE kind = 'away'").fetchone()
    if found != count:
        raise AssertionError(f"{count} calls should wait, and {found} do")


def _task() -> float:
    """Tell how many bytes a task takes that sleeps."""

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
