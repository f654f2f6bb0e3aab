"""A program of its own process: it says that it is ready, and then answers each line that it is told."""

import gc
import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast


class Program:
    """A process that runs a module of this folder."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        """Take a process that was just started, and hear what it says first."""
        self._orders, self._answers = cast("IO[str]", process.stdin), cast("IO[str]", process.stdout)
        self.ready = self._hear()
        """What it said when it was ready, such as the port that it listens on."""

    def tell(self, order: object) -> object:
        """Give it an order, and wait for the answer."""
        self._orders.write(json.dumps(order) + "\n")
        self._orders.flush()
        return self._hear()

    def _hear(self) -> object:
        line = self._answers.readline()
        if not line:
            raise RuntimeError("a program of the measurement ended without a word; look above for why")
        return json.loads(line)


@contextmanager
def program(module: str, *arguments: str) -> Generator[Program]:
    """Run a module of this folder in a process of its own; it is killed in the end, as processes are."""
    command = [sys.executable, "-m", f"bench.rap.{module}", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Program(process)
        finally:
            process.kill()


def say(answer: object) -> None:
    """Say something to whoever runs this program."""
    print(json.dumps(answer), flush=True)


def resident() -> int:
    """Tell how much memory this process has, in bytes."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
