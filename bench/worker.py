"""One contestant in a process of its own: takes orders as lines of JSON, answers each with a line of JSON.

Runs in the peers' environments, too, so it stands on nothing but the standard library.
"""

import asyncio
import gc
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import TextIO

from bench.contestants.arguments import show_sum

Call = Callable[[], Awaitable[object]]
_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")


def main() -> None:
    """Serve one contestant until nobody asks any more."""
    # Whatever a library prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    asyncio.run(_serve(sys.argv[1], answers))


async def _serve(contestant: str, answers: TextIO) -> None:
    async with import_module(f"bench.contestants.{contestant}").opened() as calls:
        for name, call in calls.items():
            result = await call()
            if not show_sum(result):
                sys.exit(f"{contestant} gave no sum for {name}, but {result!r}")
        gc.collect()
        gc.freeze()  # what was imported is not looked at again before every measurement
        _answer(answers, {"calls": list(calls)})
        for line in sys.stdin:
            order = json.loads(line)
            work = _at_once if order["at_once"] else _in_turn
            call, times, callers = calls[order["call"]], order["times"], order["callers"]
            _answer(answers, await (_by_many(call, times, callers) if callers > 1 else work(call, times)))


def _answer(answers: TextIO, answer: object) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


async def _in_turn(call: Call, times: int) -> dict[str, float]:
    """Call again and again, each time waiting for the result, from a clean heap."""
    gc.collect()
    start, worked = time.perf_counter(), time.process_time()
    for _ in range(times):
        await call()
    return {"seconds": time.perf_counter() - start, "processor": time.process_time() - worked}


async def _by_many(call: Call, times: int, callers: int) -> dict[str, float]:
    """Let many callers call so many times between them, each waiting for its result before it calls again."""

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
    """Begin all calls, then wait for all of them; tell also the processor's time and how memory grew at its peak."""
    gc.collect()
    _forget_peak()
    before = _memory("VmRSS")
    start, worked = time.perf_counter(), time.process_time()
    await asyncio.gather(*[call() for _ in range(times)])
    seconds, worked = time.perf_counter() - start, time.process_time() - worked
    return {"seconds": seconds, "processor": worked, "bytes": _memory("VmHWM") - before}


def _forget_peak() -> None:
    """Have the peak of memory count from now on, so that it is that of the calls and not of some import before."""
    _CLEAR_REFS.write_text("5")


def _memory(field: str) -> int:
    """Give a figure of this process's memory in bytes; `VmHWM` is its peak so far."""
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main()
