"""One contestant in a process of its own: reads requests as lines of JSON, answers each with a line of JSON.

Runs in the peers' environments, so it uses only the standard library.
"""

import asyncio
import gc
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TextIO

from bench.contestants.shapes import contains_sum
from bench.process import memory, reset_peak_memory

Call = Callable[[], Awaitable[object]]


def main() -> None:
    """Serve one contestant until the input ends."""
    # Output of libraries must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    asyncio.run(_serve(sys.argv[1], answers))


async def _serve(contestant: str, answers: TextIO) -> None:
    async with import_module(f"bench.contestants.{contestant}").opened() as calls:
        for name, call in calls.items():
            result = await call()
            if not contains_sum(result):
                sys.exit(f"{contestant} returned no sum for {name}, but {result!r}")
        gc.collect()
        gc.freeze()  # what was imported is not looked at again before every measurement
        _answer(answers, {"calls": list(calls)})
        for line in sys.stdin:
            request = json.loads(line)
            work = _at_once if request["at_once"] else _in_turn
            call, times, callers = calls[request["call"]], request["times"], request["callers"]
            _answer(answers, await (_by_many(call, times, callers) if callers > 1 else work(call, times)))


def _answer(answers: TextIO, answer: object) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


async def _in_turn(call: Call, times: int) -> dict[str, float]:
    """Run a call repeatedly, one at a time, after a garbage collection."""
    gc.collect()
    start, worked = time.perf_counter(), time.process_time()
    for _ in range(times):
        await call()
    return {"seconds": time.perf_counter() - start, "processor": time.process_time() - worked}


async def _by_many(call: Call, times: int, callers: int) -> dict[str, float]:
    """Run a call repeatedly from concurrent callers, each one at a time."""

    async def caller() -> None:
        for _ in range(times // callers):
            await call()

    gc.collect()
    start, worked = time.perf_counter(), time.process_time()
    async with asyncio.TaskGroup() as group:
        for _ in range(callers):
            group.create_task(caller())
    return {"seconds": time.perf_counter() - start, "processor": time.process_time() - worked}


async def _at_once(call: Call, times: int) -> dict[str, float]:
    """Run all calls concurrently; return also the growth of peak memory in `bytes`."""
    gc.collect()
    reset_peak_memory()
    before = memory()
    start, worked = time.perf_counter(), time.process_time()
    await asyncio.gather(*[call() for _ in range(times)])
    seconds, worked = time.perf_counter() - start, time.process_time() - worked
    return {"seconds": seconds, "processor": worked, "bytes": memory("VmHWM") - before}


if __name__ == "__main__":
    main()
