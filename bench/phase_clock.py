"""A process that puts a clock around every phase of our pipeline and says, as JSON, how long each takes."""

import asyncio
import inspect
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import cast

from agenttool.pipeline import run
from agenttool.records import Phase
from bench.contestants.ours import opened
from bench.phases import WHOLE

CALLS = 2000
Samples = dict[str, list[int]]
_Phase = Callable[..., Awaitable[object]]


def main() -> None:
    """Time the whole call without any clock inside, then each phase, less what the clock itself takes."""
    print(json.dumps(asyncio.run(_measure())))


async def _measure() -> dict[str, float]:
    samples: Samples = {WHOLE: []}
    async with opened() as calls:
        call = calls["add_bytes"]
        await _repeat(call)
        await _repeat(_clocked_async(samples[WHOLE], call))
        _put_clocks(samples)
        await _repeat(call)
    costs = {True: await _cost_async(), False: _cost()}
    return {
        name: _middle(each) - (0 if name == WHOLE else costs[inspect.iscoroutinefunction(getattr(run, name))])
        for name, each in samples.items()
    }


async def _repeat(call: Callable[[], Awaitable[object]]) -> None:
    for _ in range(CALLS):
        await call()


def _put_clocks(samples: Samples) -> None:
    """Replace each phase in the pipeline by itself with a clock around it; `release` belongs to the seventh."""
    for name in (*Phase, "release"):
        phase: object = getattr(run, name)
        clocked = _clocked_async if inspect.iscoroutinefunction(phase) else _clocked
        setattr(run, name, clocked(samples.setdefault(name, []), cast("_Phase", phase)))


def _clocked(samples: list[int], work: Callable[..., object]) -> Callable[..., object]:
    def clocked(*given: object) -> object:
        start = time.perf_counter_ns()
        result = work(*given)
        samples.append(time.perf_counter_ns() - start)
        return result

    return clocked


def _clocked_async(samples: list[int], work: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
    async def clocked(*given: object) -> object:
        start = time.perf_counter_ns()
        result = await work(*given)
        samples.append(time.perf_counter_ns() - start)
        return result

    return clocked


def _cost() -> float:
    """Give the time that a clock shows around nothing."""
    samples: list[int] = []
    nothing = _clocked(samples, lambda *_: None)
    for _ in range(CALLS):
        nothing(1, 2)
    return _middle(samples)


async def _cost_async() -> float:
    samples: list[int] = []

    async def nothing(*_: object) -> None:
        pass

    await _repeat(partial(_clocked_async(samples, nothing), 1, 2))
    return _middle(samples)


def _middle(samples: list[int]) -> float:
    """Give the mean of the middle half, in seconds: finer than a median where the clock is coarse."""
    samples.sort()
    quarter = len(samples) // 4
    return statistics.fmean(samples[quarter : 3 * quarter]) / 1e9


if __name__ == "__main__":
    main()
