"""Child processes that print a line when they are ready, and then one line per request."""

import gc
import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO, cast

from bench.process import memory


class ChildProcess:
    """A process that runs a module of this folder."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        """Take a process that was just started, and read its first line."""
        self._requests, self._answers = cast("IO[str]", process.stdin), cast("IO[str]", process.stdout)
        self.ready = self._read()
        """Its first line, such as the port that it listens on."""

    def request(self, value: object) -> object:
        """Send a request and return the answer."""
        self._requests.write(json.dumps(value) + "\n")
        self._requests.flush()
        return self._read()

    def _read(self) -> object:
        line = self._answers.readline()
        if not line:
            raise RuntimeError("a child process ended without an answer; its error output is above")
        return json.loads(line)


@contextmanager
def child_process(module: str, *arguments: str) -> Generator[ChildProcess]:
    """Run a module of this folder in a process, and kill it at the end."""
    command = [sys.executable, "-m", f"bench.rap.{module}", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield ChildProcess(process)
        finally:
            process.kill()


def reply(answer: object) -> None:
    """Print one line of JSON for the parent process."""
    print(json.dumps(answer), flush=True)


def resident() -> int:
    """Return the memory of this process in bytes after a garbage collection."""
    gc.collect()
    return memory()
