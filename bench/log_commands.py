"""`agenttool log` on a journal of a million events: seconds and memory of filters, sizes and open calls.

The journal has forty tools. One of them, and all failures, are in its oldest hundredth, so that a filter for them
searches all of it. One call in five was written by a lone caller, with a commit and a row for each of its facts.
"""

import asyncio
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from pathlib import Path

from agenttool import Runtime, tool
from agenttool.journal.steps import STEPS
from agenttool.ports.facts import Fact
from agenttool.stores.fact_codec import encode_fact
from agenttool.stores.sqlite.store import SqliteStore
from bench.contestants.ours_durable import ALLOW, add
from bench.figure import SCALES, Figure
from bench.harness import Settings

EVENTS = 1_000_000
EVENTS_PER_CALL = 10
TOOLS = 40
TOGETHER = 256
LONE_EVERY = 5
COMMANDS = (
    ("--status", "failed", "--limit", "20"),
    ("--tool", "old.*", "--limit", "20"),
    ("--tool", "tool_7", "--limit", "20"),
    ("--containing", "no 1", "--limit", "20"),
    ("--by", "nobody"),
    ("--since", "10d", "--limit", "20"),
    ("--events", "--status", "failed", "--limit", "20"),
    ("--events", "--limit", "20"),
    ("--sizes",),
    ("--limit", "20"),
    ("--open",),
)
LIMIT_S, LIMIT_MB = 2.0, 120.0

_MEASURED = """
import resource, sys, time
from agenttool.cli.main import app
start = time.perf_counter()
app(sys.argv[1:], standalone_mode=False)
usage = resource.getrusage(resource.RUSAGE_SELF)
print(time.perf_counter() - start, usage.ru_maxrss / 1024, file=sys.stderr)
"""


def measure(settings: Settings) -> list[Figure]:
    """Write the journal, and run each command in a process of its own."""
    events = EVENTS // (20 if settings.quick else 1)
    Path("build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir="build") as folder:
        path = Path(folder) / "state.db"
        asyncio.run(fill(path, events))
        return [figure for command in COMMANDS for figure in _figures(path, command)]


def _figures(path: Path, command: Sequence[str]) -> Iterator[Figure]:
    words = [sys.executable, "-c", _MEASURED, "log", *command, "--store", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    taken_s, memory_mb = map(float, done.stderr.split()[-2:])
    name = " ".join(("log", *command))
    yield _within(name, taken_s, LIMIT_S, "s")
    yield _within(f"{name}, memory", memory_mb * 1e6, LIMIT_MB * 1e6, "MB")


def _within(name: str, ours: float, limit: float, unit: str) -> Figure:
    want = f"at most {limit * SCALES[unit]:g} {unit}"
    ratio = ours / limit
    return Figure(
        name=name, ours=ours, peer=limit, peer_name="limit", unit=unit, want=want, ratio=ratio, holds=ratio <= 1
    )


@tool(read_only=True)
async def fail(a: int) -> int:
    """Fail always."""
    raise ValueError(f"no {a}")


async def _samples() -> tuple[tuple[Fact, ...], tuple[Fact, ...]]:
    """Return the facts of a call that succeeded, and of one that failed."""
    with tempfile.TemporaryDirectory() as folder:
        async with Runtime.open(store=f"sqlite:{folder}/state.db", tools=[add, fail], rules=[ALLOW]) as runtime:
            surface = await runtime.surface()
            results = [
                await runtime.call("add", {"a": 1, "b": 2}, surface=surface),
                await runtime.call("fail", {"a": 1}, surface=surface),
            ]
            log = runtime._core.journal.log  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] -- nothing public gives facts
            good, bad = [tuple(log.facts_of(result.invocation_id)) for result in results]
            return good, bad


async def fill(path: Path, events: int) -> None:
    """Write a journal of about so many events."""
    good, bad = await _samples()
    store = SqliteStore.open(path, steps=STEPS)
    calls, first = events // EVENTS_PER_CALL, 0
    while first < calls:
        count = 1 if (first // TOGETHER) % LONE_EVERY == 0 else TOGETHER
        for step in range(max(len(good), len(bad))):
            for number in range(first, min(first + count, calls)):
                is_old = number < calls // 100
                facts = bad if is_old and number % 7 == 0 else good
                if step < len(facts):
                    store.log.group.batch.facts.append(_line(facts, step, number, is_old=is_old))
            await store.log.settle()
        first += count
    await store.close()


def _line(facts: Sequence[Fact], step: int, number: int, *, is_old: bool) -> tuple[str, bytes]:
    fact, call = facts[step], f"inv_{number:032x}"
    name = "old.rare" if is_old and number % 50 == 0 else f"work.tool_{number % TOOLS}"
    line = encode_fact(fact).replace(str(fact.invocation_id).encode(), call.encode())
    return call, line.replace(f'"{fact.tool_id}"'.encode(), f'"tool_{name}"'.encode(), 1)


def main() -> None:
    """Write a journal to keep, for measurements by hand."""
    parser = ArgumentParser(prog="python -m bench.log_commands", description=main.__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--events", type=int, default=EVENTS)
    given = parser.parse_args()
    asyncio.run(fill(given.file, given.events))


if __name__ == "__main__":
    main()
