"""Server processes: started in a group of their own, stopped as a group, and ended when this process dies."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, cast

from agenttool.adapters.mcp import watchdog
from agenttool.errors import ConfigError

STOP_S = 2.0
"""How long a server has to end by itself after its input is closed, and then after SIGTERM."""

MAX_LOG_LINES, MAX_LOG_LINE_CHARS = 200, 2000
"""How much of the latest output of a server is stored."""

_POLL_S = 0.01
_READ_BYTES = 65_536


class ServerLog:
    """The latest lines that a server wrote to its standard error, or to a place where no text belongs."""

    def __init__(self) -> None:
        """Start empty."""
        self._lines: deque[str] = deque(maxlen=MAX_LOG_LINES)

    def add(self, line: str) -> None:
        """Add a line; a long one is cut."""
        text = line.rstrip()
        if text:
            self._lines.append(text[:MAX_LOG_LINE_CHARS])

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines, the latest last."""
        return tuple(self._lines)


class Watchdog:
    """The program that ends our servers when this process dies; it runs while there are servers."""

    def __init__(self) -> None:
        """Start nothing."""
        self._lock = threading.Lock()
        self._pids: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None

    def watch(self, pid: int) -> None:
        """Have a process ended when this one dies."""
        with self._lock:
            self._pids.add(pid)
            if self._process is None or self._process.poll() is not None:
                self._start()
            else:
                self._send(f"+{pid}")

    def forget(self, pid: int) -> None:
        """Stop watching a process that has ended; without any, the program ends."""
        with self._lock:
            self._pids.discard(pid)
            self._send(f"-{pid}")
            if not self._pids and self._process is not None:
                process, self._process = self._process, None
                with suppress(OSError):
                    cast("IO[bytes]", process.stdin).close()
                process.wait()

    def _start(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 -- our own file
            [sys.executable, "-I", "-S", watchdog.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for pid in self._pids:
            self._send(f"+{pid}")

    def _send(self, command: str) -> None:
        if self._process is not None:
            with suppress(OSError):
                os.write(cast("IO[bytes]", self._process.stdin).fileno(), f"{command}\n".encode())


_WATCHDOG = Watchdog()


class ServerProcess:
    """One running server process."""

    def __init__(self, process: asyncio.subprocess.Process, log: ServerLog) -> None:
        """Take a process that was started; `start` does so."""
        self._process = process
        self._log = log
        _WATCHDOG.watch(process.pid)

    @classmethod
    async def start(
        cls, command: Sequence[str], *, env: Mapping[str, str], cwd: str | None, log: ServerLog
    ) -> "ServerProcess":
        """Start a program with these variables and no others.

        Raises:
            ConfigError: it cannot be started.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
                limit=_READ_BYTES,
            )
        except FileNotFoundError as error:
            if error.filename == cwd:
                raise ConfigError(f"the folder {cwd!r} does not exist; create it, or correct cwd") from error
            raise ConfigError(
                f"the command {command[0]!r} was not found; install it, or write its full path"
            ) from error
        except (OSError, ValueError) as error:
            raise ConfigError(f"the command {command[0]!r} cannot be started: {error}; correct it") from error
        return cls(process, log)

    @property
    def pid(self) -> int:
        """Its number, which is also that of its group."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.returncode

    @property
    def output(self) -> asyncio.StreamReader:
        """Its standard output."""
        return cast("asyncio.StreamReader", self._process.stdout)

    @property
    def input(self) -> asyncio.StreamWriter:
        """Its standard input."""
        return cast("asyncio.StreamWriter", self._process.stdin)

    async def copy_errors(self) -> None:
        """Copy its standard error to the log until it is closed."""
        stream, rest = cast("asyncio.StreamReader", self._process.stderr), b""
        while data := await stream.read(_READ_BYTES):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines[-MAX_LOG_LINES:]:
                self._log.add(line.decode("utf-8", "replace"))
            rest = rest[-4 * MAX_LOG_LINE_CHARS :]
        self._log.add(rest.decode("utf-8", "replace"))

    async def stop(self) -> None:
        """Close its input; if it does not end by itself, end it and all processes that it started."""
        with suppress(OSError, RuntimeError):
            self.input.close()
        children: list[int] = []
        try:
            if not await self._ends_within(STOP_S):
                children = watchdog.descendants(self.pid)[1:]
                watchdog.signal_all((self.pid, *children), signal.SIGTERM)
                await self._ends_within(STOP_S)
        finally:  # also if the caller is canceled
            watchdog.signal_all(children, signal.SIGKILL)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            try:
                await self._ends_within(STOP_S)
            finally:
                transport = cast("asyncio.SubprocessTransport", self._process._transport)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue, reportUnknownMemberType] -- `wait` would wait for pipes that another process may hold
                transport.close()
                _WATCHDOG.forget(self.pid)

    async def _ends_within(self, seconds: float) -> bool:
        deadline = asyncio.get_running_loop().time() + seconds
        while self.exit_code is None:
            if asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(_POLL_S)
        return True
