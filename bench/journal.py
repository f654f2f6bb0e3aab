"""The durable journal beside sqlite3 with a commit per event, and beside bare writes to the disk."""

import asyncio
import os
import sqlite3
import statistics
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from itertools import cycle, islice
from pathlib import Path

from agenttool import Runtime
from agenttool.codec import write
from agenttool.journal.projection import events_of
from agenttool.journal.steps import STEPS
from agenttool.ports.facts import Fact
from agenttool.ports.world import Moment
from agenttool.records import InvocationId
from agenttool.stores.fact_codec import encode_fact
from agenttool.stores.sqlite.store import SqliteStore
from bench.contestants.ours_durable import ALLOW, add
from bench.figure import Figure, compare_within, require_faster, seconds
from bench.harness import Settings

CALLERS = 256
CALLS = 4
ROUNDS = 9
LONE = 200
FOREVER = Moment(2**62)
"""End of the writing process's lease."""
PEER_EVENTS = 100
PEER_GROUPS = 20
WARM_UP = 500
"""Commits before the measurement, because growing the files costs more than writing to them."""


async def sample() -> tuple[Fact, ...]:
    """Run one call of a tool with effects and return its facts."""
    with tempfile.TemporaryDirectory() as folder:
        async with Runtime.open(store=f"sqlite:{folder}/state.db", tools=[add], rules=[ALLOW]) as runtime:
            surface = await runtime.surface()
            result = await runtime.call("add", {"a": 1, "b": 2}, surface=surface)
            return tuple(runtime._core.journal.log.facts_of(result.invocation_id))  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] -- nothing public gives facts


class _Callers:
    """Concurrent callers that write calls as the pipeline does: they commit before the tool runs and at the end."""

    def __init__(self, folder: str, sample: Sequence[Fact]) -> None:
        self.loop = asyncio.new_event_loop()
        self.store = SqliteStore.open(Path(folder) / "state.db", steps=STEPS)
        self._sample = sample
        self._number = 0
        self.loop.run_until_complete(self.store.open_calls.renew_lease(FOREVER))

    def run(self, callers: int, calls: int) -> None:
        self.loop.run_until_complete(self._run(callers, calls))

    def settle_one_by_one(self, count: int) -> None:
        self.loop.run_until_complete(self._settle_one_by_one(count))

    def close(self) -> None:
        self.loop.run_until_complete(self.store.close())
        self.loop.close()

    async def _run(self, callers: int, calls: int) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(callers):
                group.create_task(self._call(calls))

    async def _call(self, calls: int) -> None:
        log = self.store.log
        for _ in range(calls):
            *before, end = self._facts()
            for fact in before:
                log.append(fact)
            await log.settle()
            log.append(end)
            await log.settle()

    async def _settle_one_by_one(self, count: int) -> None:
        log = self.store.log
        for _ in range(count // len(self._sample)):
            for fact in self._facts():
                log.append(fact)
                await log.settle()

    def _facts(self) -> list[Fact]:
        self._number += 1
        call = InvocationId(f"inv_{self._number:032x}")
        return [Fact(each.step, each.at_ns, each.sequence, call, each.tool_id, each.data) for each in self._sample]


def _commit_each(connection: sqlite3.Connection, event: bytes) -> None:
    for _ in range(PEER_EVENTS):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO events (event) VALUES (?)", (event,))
        connection.execute("COMMIT")


def _sync_each(file: int, lines: Sequence[bytes]) -> None:
    for line in islice(cycle(lines), LONE):
        os.write(file, line)
        os.fdatasync(file)


def _sync_groups(file: int, group: bytes) -> None:
    for _ in range(PEER_GROUPS):
        os.write(file, group)
        os.fdatasync(file)


def _alternate(*works: Callable[[], object]) -> list[float]:
    """Alternate between all and return the median of each."""
    rounds = [[seconds(work) for work in works] for _ in range(ROUNDS)]
    return [statistics.median(times) for times in zip(*rounds, strict=True)]


def measure(settings: Settings) -> list[Figure]:
    """Write facts of real calls with many callers and with one, beside bare SQLite and bare file writes."""
    facts = asyncio.run(sample())
    events = [event for fact in facts for event in events_of(fact, position=1)]
    Path("build").mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir="build") as folder,
        closing(sqlite3.connect(f"{folder}/peer.db", isolation_level=None)) as peer,
        closing(_Callers(folder, facts)) as callers,
        Path(folder, "raw").open("wb", buffering=0) as raw,
    ):
        peer.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE events (event BLOB)")
        callers.settle_one_by_one(WARM_UP)
        ours, each, grouped = _alternate(
            partial(callers.run, CALLERS, CALLS),
            partial(_commit_each, peer, write(events[0])),
            partial(_sync_groups, raw.fileno(), b"".join(islice(cycle(map(write, events)), CALLERS))),
        )
        lone, one_sync = _alternate(
            partial(callers.settle_one_by_one, LONE),
            partial(_sync_each, raw.fileno(), [encode_fact(fact) for fact in facts]),
        )
    count = CALLERS * CALLS * len(events)
    name, group = f"a durable event, {CALLERS} callers", f"raw write, fdatasync per {CALLERS} events"
    return [
        require_faster(
            name, (ours / count, each / PEER_EVENTS), peer_name="sqlite3, a commit each", unit="µs", at_least=10
        ),
        compare_within(
            name, (ours / count, grouped / (PEER_GROUPS * CALLERS)), peer_name=group, unit="µs", at_most=4.3
        ),
        compare_within(
            "a lone durable fact", (lone, one_sync), per=LONE, peer_name="write + fdatasync", unit="µs", at_most=1.5
        ),
    ]
