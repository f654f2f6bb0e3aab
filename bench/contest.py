"""Contestants measured in turn: short rounds, one process working at a time, so that noise meets all alike."""

import json
import os
import select
import subprocess
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, NamedTuple, cast

from bench.environments import Missing, interpreter
from bench.settings import Settings

WARM_UP = 300
"""Calls before any is timed: caches fill, and the interpreter specialises its code."""

WARM_UP_S = 1.0
"""A slow call is warmed up for no longer."""

ROUND_S = 0.02
"""How long a round of one entry takes: short, so that the entries of a round meet the same conditions."""

PATIENCE_S = 120
"""How long a contestant may take for one answer before it counts as missing."""


class Entry(NamedTuple):
    """One way to call: whose, and by which of the names that the contestant gave."""

    contestant: str
    call: str = "add"


class Worker:
    """The process of one contestant."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        """Take a process that was just started, and where it writes its complaints."""
        self._process, self._log = process, log
        self._orders, self._answers = cast("IO[str]", process.stdin), cast("IO[str]", process.stdout)
        self._read()

    def measure(self, call: str, times: int, *, at_once: bool = False, callers: int = 1) -> dict[str, float]:
        """Have it call so many times; gives the `seconds` that took, and more if all were to run at once."""
        order = {"call": call, "times": times, "at_once": at_once, "callers": callers}
        self._orders.write(json.dumps(order) + "\n")
        self._orders.flush()
        return cast("dict[str, float]", self._read())

    def _read(self) -> object:
        if not select.select([self._answers], [], [], PATIENCE_S)[0]:
            raise Missing(f"it gave no answer within {PATIENCE_S} seconds")
        line = self._answers.readline()
        if not line:
            self._process.wait()
            raise Missing(self._log.read_text().strip().rpartition("\n")[2] or "it ended without a word")
        return json.loads(line)


@contextmanager
def worker(contestant: str, settings: Settings) -> Generator[Worker]:
    """Start a contestant.

    Raises:
        Missing: it cannot run here.
    """
    python = interpreter(contestant)
    # What is on this path comes before what is installed, so ours is whatever the settings say.
    environment = {**os.environ, "PYTHONPATH": str(settings.source.resolve() / "src")}
    with tempfile.NamedTemporaryFile(prefix="bench-") as log:
        process = subprocess.Popen(
            [str(python), "-m", "bench.worker", contestant],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
        )
        with process:
            try:
                yield Worker(process, Path(log.name))
            finally:
                process.kill()


class Times(NamedTuple):
    """The `seconds` and `processor` time per call and round of every entry that ran, and why a contestant did not."""

    of: Mapping[Entry, Sequence[Mapping[str, float]]]
    missing: Mapping[str, str]


def run(entries: Sequence[Entry], settings: Settings, *, rounds: int) -> Times:
    """Measure every entry once per round, in alternating order.

    Processor time leaves out the time in which other processes had the processor. A call that never waits takes the
    same by either clock on an idle machine.
    """
    with ExitStack() as stack:
        workers: dict[str, Worker] = {}
        missing: dict[str, str] = {}
        for name in dict.fromkeys(entry.contestant for entry in entries):
            try:
                workers[name] = stack.enter_context(worker(name, settings))
            except Missing as error:
                missing[name] = str(error)
        present = [entry for entry in entries if entry.contestant in workers]
        sizes = {entry: _size(workers[entry.contestant], entry.call) for entry in present}
        times: dict[Entry, list[Mapping[str, float]]] = {entry: [] for entry in present}
        for number in range(rounds):
            for entry in reversed(present) if number % 2 else present:
                size = sizes[entry]
                taken = workers[entry.contestant].measure(entry.call, size)
                times[entry].append({clock: taken[clock] / size for clock in ("seconds", "processor")})
    return Times(times, missing)


def _size(contestant: Worker, call: str) -> int:
    """Warm up, and return how many calls fill a round."""
    times, spent, took = WARM_UP // 6, 0.0, 0.0
    for _ in range(6):
        took = contestant.measure(call, times)["seconds"]
        spent += took
        if spent > WARM_UP_S:
            break
    return max(int(ROUND_S / (took / times)), 5)
