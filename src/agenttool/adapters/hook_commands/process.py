"""Run one program once, with bounded output, and kill its whole process group afterwards."""

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

MAX_BYTES = 1 << 20
"""How much a program may write to each of its two outputs."""

GRACE_S = 0.25
"""The grace period between SIGTERM and SIGKILL."""

_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A command, its working folder, and its whole environment."""

    argv: tuple[str, ...]
    folder: str
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessResult:
    """How a program ended, and what it wrote; a code below zero is the signal that killed it."""

    code: int
    out: bytes
    err: bytes


async def run_program(program: Program, given: bytes) -> ProcessResult:
    """Run a program to its end, in a process group of its own.

    Processes that the program leaves running are killed when it ends. If the run is canceled, the group gets SIGTERM,
    and SIGKILL after the grace period.

    Raises:
        OSError: it could not be started.
        ChildProcessError: it wrote too much, or its exit status is unknown.
    """
    running = _Running(_start(program, given))
    try:
        await running.over.wait()
    except asyncio.CancelledError:
        running.terminate()
        await running.over.wait()
        raise
    finally:
        # This must not wait: an abandoned run is closed and gets no time to wait.
        running.close()
    return running.ended()


def _start(program: Program, given: bytes) -> "subprocess.Popen[bytes]":
    """Start it with its input in an in-memory file, so that writing never blocks if it does not read."""
    with os.fdopen(os.memfd_create("agenttool-stdin"), "w+b") as stdin:
        stdin.write(given)
        stdin.seek(0)
        return subprocess.Popen(  # noqa: S603 -- the program that the settings name, and no shell
            program.argv,
            cwd=program.folder,
            env=program.environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )


class _Running:
    """A program that runs: its two pipes and its end, watched by the event loop."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.over = asyncio.Event()
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._pipes = {pipe: bytearray() for pipe in (process.stdout, process.stderr) if pipe is not None}
        self._timer: asyncio.TimerHandle | None = None
        self._end = -1
        self._is_known = False
        try:
            self._end = os.pidfd_open(process.pid)
            self._loop.add_reader(self._end, self._finish)
            for pipe in self._pipes:
                os.set_blocking(pipe.fileno(), False)
                self._loop.add_reader(pipe, self._take, pipe)
        except BaseException:
            self.close()
            raise

    def ended(self) -> ProcessResult:
        """Return the exit code and the output."""
        for name, written in zip(("stdout", "stderr"), self._pipes.values(), strict=True):
            if len(written) > MAX_BYTES:
                raise ChildProcessError(f"it wrote more than {MAX_BYTES} bytes to {name}; let it write less")
        if not self._is_known:
            raise ChildProcessError("its exit status is unknown; do not ignore SIGCHLD in this process")
        out, err = self._pipes.values()
        return ProcessResult(code=self._process.returncode, out=bytes(out), err=bytes(err))

    def terminate(self) -> None:
        """Send SIGTERM to the group, and SIGKILL after the grace period."""
        self._signal(signal.SIGTERM)
        self._timer = self._loop.call_later(GRACE_S, self._signal, signal.SIGKILL)

    def close(self) -> None:
        """Kill what still runs, and close all file descriptors."""
        if self._timer is not None:
            self._timer.cancel()
        for pipe in self._pipes:
            self._loop.remove_reader(pipe)
            pipe.close()
        if self._end >= 0:
            self._loop.remove_reader(self._end)
            os.close(self._end)
        self._signal(signal.SIGKILL)
        if self._process.poll() is None:
            # Reap it on a thread, because the time until it is dead is unknown.
            threading.Thread(target=self._process.wait, daemon=True).start()

    def _take(self, pipe: IO[bytes]) -> bool:
        """Read what is available; return whether there may be more."""
        written = self._pipes[pipe]
        try:
            chunk = os.read(pipe.fileno(), _CHUNK)
        except BlockingIOError:
            return False
        written += chunk
        if not chunk:
            self._loop.remove_reader(pipe)
        elif len(written) > MAX_BYTES:
            self.over.set()
        return bool(chunk) and len(written) <= MAX_BYTES

    def _finish(self) -> None:
        """Read the remaining output of a program that has ended.

        Everything that it wrote is in the pipes. Their end of file is not awaited, because processes that inherited
        them may keep them open.
        """
        self._loop.remove_reader(self._end)
        self._signal(signal.SIGKILL)
        with suppress(ChildProcessError):  # if this process ignores SIGCHLD, the kernel stores no exit status
            self._is_known = os.waitid(os.P_PIDFD, self._end, os.WEXITED | os.WNOWAIT) is not None
        self._process.wait()
        for pipe in self._pipes:
            while self._take(pipe):
                pass
        self.over.set()

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal to the group; not once the program is reaped, because its number may then be another's."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
