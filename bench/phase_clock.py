"""A process that puts a clock around every part of our pipeline and says, as JSON, how long each takes in a call."""

import asyncio
import inspect
import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable

from agenttool.pipeline import run
from bench.contestants.ours import opened
from bench.phases import WHOLE

CALLS = 2000
Samples = defaultdict[str, list[int]]
"""The times of each part, in nanoseconds, in the order in which the parts are first passed."""


def main() -> None:
    """Time the call that is named without any clock inside, then its parts, less what the clock itself takes."""
    print(json.dumps(asyncio.run(_measure(sys.argv[1]))))


async def _measure(name: str) -> dict[str, float]:
    samples = Samples(list)
    async with opened() as calls:
        call = calls[name]
        await _repeat(call)
        await _repeat(_clocked_async(samples, WHOLE, call))
        _put_clocks(samples)
        await _repeat(call)
    whole = _middle(samples.pop(WHOLE))
    cost = _cost()
    # Some parts are passed several times in a call.
    spent = {part: (_middle(each) - cost) * len(each) / CALLS for part, each in samples.items()}
    return {WHOLE: whole, **spent}


async def _repeat(call: Callable[[], Awaitable[object]]) -> None:
    for _ in range(CALLS):
        await call()


def _put_clocks(samples: Samples) -> None:
    """Put a clock around everything that `run` takes from the rest of the pipeline."""
    for name, part in tuple(vars(run).items()):
        if inspect.isfunction(part) and part.__module__ != run.__name__:
            clocked = _clocked_async if inspect.iscoroutinefunction(part) else _clocked
            setattr(run, name, clocked(samples, name, part))


def _clocked(samples: Samples, name: str, part: Callable[..., object]) -> Callable[..., object]:
    def clocked(*given: object) -> object:
        start = time.perf_counter_ns()
        result = part(*given)
        samples[name].append(time.perf_counter_ns() - start)
        return result

    return clocked


def _clocked_async(
    samples: Samples, name: str, part: Callable[..., Awaitable[object]]
) -> Callable[..., Awaitable[object]]:
    async def clocked(*given: object) -> object:
        start = time.perf_counter_ns()
        result = await part(*given)
        samples[name].append(time.perf_counter_ns() - start)
        return result

    return clocked


def _cost() -> float:
    """Give the time that a clock shows around nothing."""
    samples = Samples(list)
    nothing = _clocked(samples, "nothing", lambda *_: None)
    for _ in range(CALLS):
        nothing(1, 2)
    return _middle(samples["nothing"])


def _middle(samples: list[int]) -> float:
    """Give the mean of the middle half, in seconds: finer than a median where the clock is coarse."""
    samples.sort()
    quarter = len(samples) // 4
    return statistics.fmean(samples[quarter : 3 * quarter]) / 1e9


if __name__ == "__main__":
    main()
