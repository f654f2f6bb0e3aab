"""Start contestants in their environments and measure them in interleaved rounds.

The peers need versions that exclude one another, so each has an environment of its own.
"""

import hashlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple, cast


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Options of a run.

    Attributes:
        quick: run fewer rounds.
        million: measure a million waiting calls.
        source: the checkout whose `src` is measured as ours.
    """

    quick: bool = False
    million: bool = False
    source: Path = Path()


ENVIRONMENTS = Path(".venv-bench")
CONSTRAINTS = Path(__file__).with_name("constraints.txt")
REQUIREMENTS = {
    "bm25": "bm25s PyStemmer",
    "open_fastmcp": "fastmcp",
    "import_fastmcp": "fastmcp",
    "fastmcp_client": "fastmcp",
    "fastmcp_search": "fastmcp",
    "langchain_tool": "langchain-core",
    "mcp_session": "mcp",
    "openai_agents": "openai-agents",
    "pydantic_ai_manager": "pydantic-ai-slim",
}
"""What to install for a contestant; the others run in the current environment."""

SHARED = {"open_fastmcp": "fastmcp_client", "import_fastmcp": "fastmcp_client", "fastmcp_search": "fastmcp_client"}
"""Contestants that share the environment of another."""


class Missing(Exception):
    """A contestant cannot run here."""


def interpreter(contestant: str) -> Path:
    """Return the Python interpreter for a contestant; create its environment on first use.

    Raises:
        Missing: what it needs cannot be installed here.
    """
    requirement = REQUIREMENTS.get(contestant)
    if requirement is None:
        return Path(sys.executable)
    environment = ENVIRONMENTS / SHARED.get(contestant, contestant)
    python, stamp = environment / "bin" / "python", environment / "installed"
    wanted = hashlib.sha256(CONSTRAINTS.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(environment, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(environment)])
        install = ["-m", "pip", "--disable-pip-version-check", "--quiet", "install", "-c", str(CONSTRAINTS)]
        _run([str(python), *install, *requirement.split()])
        stamp.write_text(wanted)
    return python


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(done.stderr.strip().rpartition("\n")[2])


WARM_UP = 300
"""Calls before any is timed: caches fill, and the interpreter specialises its code."""

WARM_UP_S = 1.0
"""The longest warm-up of a slow call."""

ROUND_S = 0.02
"""Duration of one entry in a round; short, so that all entries of a round run under the same conditions."""

ANSWER_TIMEOUT_S = 120
"""How long a contestant may take for one answer."""


class Entry(NamedTuple):
    """One measured call: the contestant and the name of the call."""

    contestant: str
    call: str = "add"


class Worker:
    """The process of one contestant."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        """Take a process that was just started, and the file of its error output."""
        self._process, self._log = process, log
        self._requests, self._answers = cast("IO[str]", process.stdin), cast("IO[str]", process.stdout)
        self._read()

    def measure(self, call: str, times: int, *, at_once: bool = False, callers: int = 1) -> dict[str, float]:
        """Run a call a number of times; return `seconds`, `processor` time, and `bytes` of memory if `at_once`."""
        request = {"call": call, "times": times, "at_once": at_once, "callers": callers}
        self._requests.write(json.dumps(request) + "\n")
        self._requests.flush()
        return cast("dict[str, float]", self._read())

    def _read(self) -> object:
        if not select.select([self._answers], [], [], ANSWER_TIMEOUT_S)[0]:
            raise Missing(f"no answer within {ANSWER_TIMEOUT_S} seconds")
        line = self._answers.readline()
        if not line:
            self._process.wait()
            raise Missing(self._log.read_text().strip().rpartition("\n")[2] or "it ended without output")
        return json.loads(line)


@contextmanager
def worker(contestant: str, settings: Settings) -> Generator[Worker]:
    """Start a contestant.

    Raises:
        Missing: it cannot run here.
    """
    python = interpreter(contestant)
    # This path takes precedence over what is installed, so that the settings decide what is measured.
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
