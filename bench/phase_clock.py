"""A process that puts a clock around every phase of our pipeline and says, as JSON, how long each takes."""

import asyncio
import inspect
import json
import statistics
import time
from collections.abc import Awaitable, Callable

from agenttool.pipeline import phases, run
from agenttool.records import Phase
from bench.contestants.ours import opened
from bench.phases import WHOLE

CALLS = 2000
Samples = dict[str, list[int]]


def main() -> None:
    """Time the whole call without any clock inside, then each phase, less what the clock itself takes."""
    print(json.dumps(asyncio.run(_measure())))


async def _measure() -> dict[str, float]:
    whole: list[int] = []
    samples: Samples = {}
    async with opened() as calls:
        call = calls["add_bytes"]
        await _repeat(call)
        await _repeat(_clocked_async(whole, call))
        _put_clocks(samples)
        await _repeat(call)
    cost = _cost()
    # What a plain call passes over has no samples.
    spent = {name: _middle(each) - cost for name, each in samples.items() if each}
    return {WHOLE: _middle(whole), **spent}


async def _repeat(call: Callable[[], Awaitable[object]]) -> None:
    for _ in range(CALLS):
        await call()


def _put_clocks(samples: Samples) -> None:
    """Put a clock around everything that the pipeline takes from a phase, in the order of the phases."""
    order = [f"{phases.__name__}.{phase}" for phase in Phase]
    found = [each for each in vars(run).items() if inspect.isfunction(each[1]) and each[1].__module__ in order]
    for name, function in sorted(found, key=lambda each: order.index(each[1].__module__)):
        phase = function.__module__.rpartition(".")[2]
        kept = samples.setdefault(phase if phase == name else f"{phase}: {name}", [])
        is_async = inspect.iscoroutinefunction(function)
        setattr(run, name, _clocked_async(kept, function) if is_async else _clocked(kept, function))


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


def _middle(samples: list[int]) -> float:
    """Give the mean of the middle half, in seconds: finer than a median where the clock is coarse."""
    samples.sort()
    quarter = len(samples) // 4
    return statistics.fmean(samples[quarter : 3 * quarter]) / 1e9


if __name__ == "__main__":
    main()
