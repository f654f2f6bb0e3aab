"""One port that a command serves: bound with a clear word, announced, and stopped without losing an answer."""

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from ipaddress import ip_address
from queue import Empty, SimpleQueue
from types import FrameType
from urllib.parse import urlsplit

import uvicorn
from rich.console import Console

from agenttool.adapters.rap.listen import App
from agenttool.adapters.rap.patience import GRACE_S, Patient, let_go
from agenttool.errors import ConfigError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_AT_ONCE = 3
_LEFT = 1
_ASKED, _ENDED = "asked", "ended"

LEAVES_WITHIN_S = 25.0
"""So long after it was to stop a process is there at most; supervisors kill what takes longer than 30 seconds."""


class Stop:
    """What a person or a supervisor asks for by signals: a gentle stop, then a sooner one, then to leave at once.

    A signal often comes twice, to a group of processes and again from its head, so the second one still ends in order.
    What does not let itself be stopped holds nobody up for long: the process leaves then, and it with it.
    """

    def __init__(self) -> None:
        """Begin with nothing that could be stopped."""
        self._asked = 0
        self._signs: SimpleQueue[str] = SimpleQueue()
        # A thread, for what would not be stopped may be what the loop waits for, or stand in its way.
        self._patience = threading.Thread(target=self._wait, daemon=True)
        self.task: asyncio.Task[None] | None = None
        self.server: Serving | None = None

    def begin(self) -> None:
        """Be ready for signals."""
        self._patience.start()

    def hear(self, number: int, frame: FrameType | None) -> None:
        """Hear one signal, in the midst of whatever runs, so that nothing here may wait for anything."""
        self._asked += 1
        if self._asked >= _AT_ONCE:
            os._exit(_LEFT)
        self._signs.put(_ASKED)

    def ask(self) -> None:
        """Stop, once a signal has been heard and the loop is free."""
        if self.server is not None:
            self.server.stop(wait=self._asked <= 1)
        elif self.task is not None:
            self.task.cancel()

    def has_ended(self) -> None:
        """Hear that there is nothing left to wait for."""
        self._signs.put(_ENDED)

    def _wait(self) -> None:
        """Leave so long after the first signal, unless there is nothing left to wait for by then."""
        if self._signs.get() == _ASKED:
            ends_at = time.monotonic() + LEAVES_WITHIN_S
            try:
                while self._signs.get(timeout=max(0.0, ends_at - time.monotonic())) == _ASKED:
                    continue
            except Empty:
                _leave()


def _leave() -> None:
    """End the process as a crash would: whatever was answered for is on the disk."""
    warn(
        f"left {LEAVES_WITHIN_S:g} s after it was to stop: something that ran would not be stopped, and was ended with"
        " this process; what was accepted is kept, and goes on when it is started again"
    )
    os._exit(_LEFT)


def run_until_stopped(serve: Callable[[Stop], Coroutine[object, object, None]]) -> None:
    """Run what serves; once it is to stop, it has so long, and then the process is left with status 1."""
    stop = Stop()
    try:
        asyncio.run(serve(stop))
    finally:
        stop.has_ended()


@asynccontextmanager
async def stoppable(stop: Stop) -> AsyncGenerator[None]:
    """Hear signals from here to the end; to be stopped is no failure."""
    loop, stop.task = asyncio.get_running_loop(), asyncio.current_task()
    stop.begin()
    for each in _SIGNALS:
        loop.add_signal_handler(each, stop.ask)
        signal.signal(each, stop.hear)  # the loop learns of it all the same, when it is free; time runs from now on
    try:
        yield
    except asyncio.CancelledError:
        if stop.server is not None:
            raise
    finally:
        for each in _SIGNALS:
            loop.remove_signal_handler(each)


class Serving(uvicorn.Server):
    """Serves one application on one socket; says so once it does, and stops in bounded time."""

    def __init__(self, app: App, announce: Callable[[], None]) -> None:
        """Take what to serve, and what to do once it is served."""
        config = uvicorn.Config(
            app,
            http=Patient,
            ws="none",
            lifespan="off",  # whatever runs meanwhile is entered out there, where its errors can be told
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=round(2 * GRACE_S),
        )
        super().__init__(config)
        self._announce = announce

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to `Stop`: the library would raise them again, and a stop would look like a death."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        if self.started:
            self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no new connection, answer what has come in, and wait for the rest of a request only so long."""
        waited = asyncio.get_running_loop().call_later(GRACE_S, let_go, self.server_state.connections)
        try:
            await super().shutdown(sockets)
        finally:
            waited.cancel()

    def stop(self, *, wait: bool) -> None:
        """Stop; without waiting, whoever still sends a request has to come again."""
        self.should_exit = True
        if not wait:
            let_go(self.server_state.connections)


def bind(host: str, port: int) -> socket.socket:
    """Take the port.

    Raises:
        ConfigError: it cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        told = (error.strerror or str(error)).partition(" (while")[0]
        raise ConfigError(f"cannot listen on {host}:{port}: {told}; use another --port or --host") from error
    # An answer goes out in two pieces; without this the second would wait until the first is acknowledged, 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def address_of(listening: socket.socket) -> str:
    """Give the URL of a socket as programs on this machine reach it."""
    host, port = listening.getsockname()[:2]
    found = ip_address(host)
    if found.is_unspecified:
        host = "127.0.0.1" if found.version == 4 else "::1"  # noqa: PLR2004 -- as the protocols are called
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_beyond(listening: socket.socket) -> bool:
    """Tell whether others than programs on this machine reach a socket."""
    return not ip_address(listening.getsockname()[0]).is_loopback


def is_everywhere(listening: socket.socket) -> bool:
    """Tell whether a socket stands for all addresses of this machine, so that none can be told to others."""
    return ip_address(listening.getsockname()[0]).is_unspecified


def leads_past(url: str, listening: socket.socket) -> bool:
    """Tell whether a URL leads to another port of this machine than a socket's."""
    parts = urlsplit(url)
    is_here = parts.hostname in ("localhost", "127.0.0.1", "::1")
    return is_here and parts.scheme == "http" and (parts.port or 80) != listening.getsockname()[1]


def base_url(written: str | None) -> str | None:
    """Read under which URL others reach a server, without the slash at its end.

    Raises:
        ConfigError: nobody could call there.
    """
    if written is None:
        return None
    try:
        parts = urlsplit(written)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_usable = is_usable and not (parts.query or parts.fragment)
    except ValueError:
        is_usable = False
    if not is_usable:
        raise ConfigError(
            f"others reach a server by a URL such as 'https://agents.example', got {written!r}; correct it"
        )
    return written.rstrip("/")


def warn(message: str) -> None:
    """Say on the error output what may not be meant."""
    Console(stderr=True, highlight=False).print(f"warning: {message}", style="yellow", markup=False, soft_wrap=True)
