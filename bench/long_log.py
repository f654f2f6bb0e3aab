"""A log of ten million events beside one of a hundred thousand: open, tail and look up one call."""

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from agenttool.journal.steps import STEPS
from agenttool.ports.facts import Fact
from agenttool.records import InvocationId
from agenttool.stores.fact_codec import encode_fact
from agenttool.stores.sqlite.store import SqliteStore
from bench.figure import Figure, compare, side_by_side
from bench.harness import Settings
from bench.journal import sample

CALLS = {"ten million events": 1_000_000, "a hundred thousand": 10_000}
"""Each call has ten events."""

TOGETHER = 256
TAIL = 100


def measure(settings: Settings) -> list[Figure]:
    """Write both logs, then alternate the same queries."""
    facts = asyncio.run(sample())
    calls = {name: count // (20 if settings.quick else 1) for name, count in CALLS.items()}
    Path("build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir="build") as folder:
        paths = [Path(folder) / f"{count}.db" for count in calls.values()]
        for path, count in zip(paths, calls.values(), strict=True):
            asyncio.run(_fill(path, facts, count))
        figures: list[Figure] = []
        for what, work in (("open", _open), ("tail", _tail), ("look one call up in", _look_up)):
            (long, short), (many, few) = paths, calls.values()
            times = side_by_side(partial(work, long, many), partial(work, short, few))
            figures.append(
                compare(f"{what} a log of {next(iter(calls))}", times, peer_name="one of 100,000", unit="ms")
            )
    return figures


async def _fill(path: Path, facts: Sequence[Fact], count: int) -> None:
    store = SqliteStore.open(path, steps=STEPS)
    was = str(facts[0].invocation_id).encode()
    lines = [encode_fact(fact) for fact in facts]
    for first in range(0, count, TOGETHER):
        calls = [_call(number) for number in range(first, min(first + TOGETHER, count))]
        for line in lines:
            store.log.group.batch.facts += [(call, line.replace(was, call.encode())) for call in calls]
            await store.log.settle()
    await store.close()


def _call(number: int) -> InvocationId:
    return InvocationId(f"inv_{number:032x}")


def _open(path: Path, count: int) -> None:
    asyncio.run(_use(path, lambda store: store.log.head()))


def _tail(path: Path, count: int) -> None:
    asyncio.run(_use(path, lambda store: store.log.read(store.log.last - TAIL, TAIL)))


def _look_up(path: Path, count: int) -> None:
    asyncio.run(_use(path, lambda store: store.log.facts_of(_call(count // 2))))


async def _use(path: Path, ask: Callable[[SqliteStore], object]) -> None:
    store = SqliteStore.open(path, steps=STEPS)
    if not ask(store):
        raise AssertionError("the query found nothing")
    await store.close()
