"""Where the time of one call goes: each part beside the whole call. Runs only if named on the command line."""

import asyncio
import inspect
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import cast

from agenttool.call import run
from bench.contestants.ours import opened
from bench.figure import Absent, Figure, compare
from bench.harness import Settings

WHOLE = "whole"
_WAYS = {"add": "a call without a check", "add_checked": "a call with a check"}


def measure(settings: Settings) -> list[Figure | Absent]:
    """Time every part in fresh processes, and return the median of each."""
    return [figure for call in _WAYS for figure in _measure(call, settings)]


def _measure(call: str, settings: Settings) -> list[Figure]:
    rounds = [_round(call, settings) for _ in range(3 if settings.quick else 7)]
    spent = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
    whole = spent.pop(WHOLE)
    spent["elsewhere"] = whole - sum(spent.values())
    return [compare(name, (seconds, whole), peer_name=_WAYS[call], unit="µs") for name, seconds in spent.items()]


def _round(call: str, settings: Settings) -> dict[str, float]:
    environment = {**os.environ, "PYTHONPATH": str(settings.source.resolve() / "src")}
    command = [sys.executable, "-m", "bench.phases", call]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    return cast("dict[str, float]", json.loads(done.stdout))


CALLS = 2000
Samples = defaultdict[str, list[int]]
"""The times of each part in nanoseconds, in order of first execution."""


def main() -> None:
    """Time one call as a whole, then its parts minus the cost of timing, and print them as JSON."""
    print(json.dumps(asyncio.run(_time_parts(sys.argv[1]))))


async def _time_parts(name: str) -> dict[str, float]:
    samples = Samples(list)
    async with opened() as calls:
        call = calls[name]
        await _repeat(call)
        await _repeat(_timed_async(samples, WHOLE, call))
        _instrument(samples)
        await _repeat(call)
    whole = _middle(samples.pop(WHOLE))
    cost = _cost()
    # Some parts run several times in a call.
    spent = {part: (_middle(each) - cost) * len(each) / CALLS for part, each in samples.items()}
    return {WHOLE: whole, **spent}


async def _repeat(call: Callable[[], Awaitable[object]]) -> None:
    for _ in range(CALLS):
        await call()


def _instrument(samples: Samples) -> None:
    """Wrap every function that `run` imports from the rest of the pipeline."""
    for name, part in tuple(vars(run).items()):
        if inspect.isfunction(part) and part.__module__ != run.__name__:
            timed = _timed_async if inspect.iscoroutinefunction(part) else _timed
            setattr(run, name, timed(samples, name, part))


def _timed(samples: Samples, name: str, part: Callable[..., object]) -> Callable[..., object]:
    def timed(*given: object) -> object:
        start = time.perf_counter_ns()
        result = part(*given)
        samples[name].append(time.perf_counter_ns() - start)
        return result

    return timed


def _timed_async(
    samples: Samples, name: str, part: Callable[..., Awaitable[object]]
) -> Callable[..., Awaitable[object]]:
    async def timed(*given: object) -> object:
        start = time.perf_counter_ns()
        result = await part(*given)
        samples[name].append(time.perf_counter_ns() - start)
        return result

    return timed


def _cost() -> float:
    """Return the time that the wrapper itself takes."""
    samples = Samples(list)
    nothing = _timed(samples, "nothing", lambda *_: None)
    for _ in range(CALLS):
        nothing(1, 2)
    return _middle(samples["nothing"])


def _middle(samples: list[int]) -> float:
    """Return the mean of the middle half in seconds; it is finer than a median of a coarse clock."""
    samples.sort()
    quarter = len(samples) // 4
    return statistics.fmean(samples[quarter : 3 * quarter]) / 1e9


if __name__ == "__main__":
    main()
