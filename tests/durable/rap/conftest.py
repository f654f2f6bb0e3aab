"""What tests of two processes that die share: programs in many lives, and lines that harm messages."""

import asyncio
import contextlib
import os
import signal
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

HERE = Path(__file__).parent


class Lives:
    """A program's process, again and again."""

    def __init__(self, parent):
        self.parent = parent
        self.child = 0
        self.reported = []
        self._words = set()
        self._born = asyncio.Event()
        self._hearing = asyncio.ensure_future(self._receive())

    async def begin(self, *words):
        """Start a process."""
        self._born.clear()
        self._words.clear()
        self.parent.stdin.write(" ".join(map(str, words)).encode() + b"\n")
        async with asyncio.timeout(60):
            await self._born.wait()

    async def end(self):
        """Kill it, with no time to say anything."""
        os.kill(self.child, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            while True:
                os.kill(self.child, 0)
                await asyncio.sleep(0.001)

    async def until(self, word, within_s=None):
        """Wait until the process prints it; return whether it did in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while word not in self._words:
                    await asyncio.sleep(0.01)
                    os.kill(self.child, 0)  # it must live
                return True
        return False

    async def _receive(self):
        while line := (await self.parent.stdout.readline()).decode():
            match line.split():
                case ["life", number]:
                    self.child = int(number)
                    self._born.set()
                case words:
                    self.reported += words
                    self._words |= {*words}

    async def close(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.child, signal.SIGKILL)
        self.parent.kill()
        await self.parent.wait()
        await self._hearing


@pytest.fixture(scope="session")
def lives_of():
    """Run a program in lives: `async with lives_of("crashing.py", …) as lives`."""

    @contextlib.asynccontextmanager
    async def lives_of(program, *words):
        command = (sys.executable, HERE / "lives.py", HERE / program, *map(str, words))
        pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
        lives = Lives(await asyncio.create_subprocess_exec(*command, **pipes))
        try:
            yield lives
        finally:
            await lives.close()

    return lives_of


@pytest.fixture(scope="session")
def module():
    """Load a program beside the tests as a module."""

    def module(name):
        spec = spec_from_file_location(name, HERE / f"{name}.py")
        found = module_from_spec(spec)
        spec.loader.exec_module(found)
        return found

    return module
