"""An HTTP server for one socket. On a signal, it answers the received requests and stops in bounded time."""

import asyncio
import gc
import logging
import os
import resource
import signal
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from ipaddress import ip_address
from types import FrameType
from typing import TypeAlias
from urllib.parse import urlsplit

import uvicorn
from starlette.types import ASGIApp

from agenttool.adapters.rap.listener import GRACE_S, MAX_CONNECTIONS, TimedHttpProtocol, abort_incomplete_requests
from agenttool.cli.output import warn
from agenttool.errors import ConfigError

Application: TypeAlias = ASGIApp
"""An ASGI application; in this folder, only this module imports starlette."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_EXIT_AT_SIGNAL = 3
_EXIT_STATUS = 1

OTHER_FILES = 256
"""How many open files are reserved for the store, sources and pages, besides those of connections."""

GC_THRESHOLD = 10_000
"""How many new objects start a garbage collection. Requests make few reference cycles, so it can run rarely."""

STOP_TIMEOUT_S = 25.0
"""The process exits at most this long after the first signal; supervisors kill it after 30 seconds."""


class SignalStop:
    """Stops a server: gracefully at the first signal, sooner at the second, at once at the third.

    A signal often arrives twice, from the terminal and from a parent process, so the second one still stops in order.
    If something cannot be stopped, the process exits `STOP_TIMEOUT_S` after the first signal.
    """

    def __init__(self) -> None:
        self._signals = 0
        self.task: asyncio.Task[None] | None = None
        self.server: HttpServer | None = None
        self.drain: Callable[[], None] | None = None

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """Count a signal; this runs in the middle of other code, so it must not wait."""
        self._signals += 1
        if self._signals >= _EXIT_AT_SIGNAL:
            os._exit(_EXIT_STATUS)
        if self._signals == 1:
            # A timer of the system, because what cannot be stopped may block the event loop.
            signal.signal(signal.SIGALRM, _exit_now)
            signal.setitimer(signal.ITIMER_REAL, STOP_TIMEOUT_S)

    def stop(self) -> None:
        """Stop the server; the event loop calls this after a signal."""
        if self.drain is not None:
            self.drain()
        if self.server is not None:
            self.server.stop(wait=self._signals <= 1)
        elif self.task is not None:
            self.task.cancel()


def _exit_now(number: int, frame: FrameType | None) -> None:
    """Exit as after a crash: everything that was acknowledged is on disk."""
    warn(
        f"exited {STOP_TIMEOUT_S:g} s after the stop signal: something that ran could not be stopped, and ended with"
        " this process; accepted calls are stored, and continue at the next start"
    )
    os._exit(_EXIT_STATUS)


def run_server(
    listening: socket.socket,
    app: AbstractAsyncContextManager[Application],
    announce: Callable[[], None],
    max_connections: int = MAX_CONNECTIONS,
) -> None:
    """Serve an application on a socket until a signal stops it; call `announce` once it serves.

    Beyond `max_connections`, idle connections are closed.
    The process exits with status 1 if the server does not stop in time.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    stop, protocol = SignalStop(), TimedHttpProtocol.limited(fit_open_files(max_connections))

    async def serve() -> None:
        async with _handle_signals(stop), app as entered:
            stop.server = HttpServer(entered, announce, protocol)
            stop.drain = getattr(entered, "drain", None)
            gc.freeze()  # else each full collection stops all requests while it traverses every module and tool
            gc.set_threshold(GC_THRESHOLD)
            await stop.server.serve(sockets=[listening])

    try:
        asyncio.run(serve())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@asynccontextmanager
async def _handle_signals(stop: SignalStop) -> AsyncGenerator[None]:
    """Handle signals within this context; a stop is not an error."""
    loop, stop.task = asyncio.get_running_loop(), asyncio.current_task()
    for each in _SIGNALS:
        loop.add_signal_handler(each, stop.stop)
        signal.signal(each, stop.on_signal)  # the loop still runs its handler, when it is free; the timeout starts now
    try:
        yield
    except asyncio.CancelledError:
        if stop.server is not None:
            raise
    finally:
        for each in _SIGNALS:
            loop.remove_signal_handler(each)


class HttpServer(uvicorn.Server):
    """Serves one application on one socket, calls `announce` once it does, and stops in bounded time."""

    def __init__(self, app: ASGIApp, announce: Callable[[], None], protocol: type[TimedHttpProtocol]) -> None:
        config = uvicorn.Config(
            app,
            http=protocol,
            ws="none",
            lifespan="off",  # the caller enters its own contexts, so that it can report their errors
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=round(2 * GRACE_S),
        )
        super().__init__(config)
        self._announce = announce

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to `SignalStop`: uvicorn would raise them again after a stop."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and announce it."""
        await super().startup(sockets)
        if self.started:
            self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no connection, answer received requests, and wait `GRACE_S` for incomplete ones."""
        timer = asyncio.get_running_loop().call_later(GRACE_S, abort_incomplete_requests, self.server_state.connections)
        try:
            await super().shutdown(sockets)
        finally:
            timer.cancel()

    def stop(self, *, wait: bool) -> None:
        """Stop; without `wait`, drop connections whose request is incomplete."""
        self.should_exit = True
        if not wait:
            abort_incomplete_requests(self.server_state.connections)


def fit_open_files(max_connections: int) -> int:
    """Return how many connections the limit on open files permits, after raising that limit as far as allowed.

    Without a file for each connection, the store could not open its own files either.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max_connections + OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return max_connections
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    fitting = max(1, most - OTHER_FILES)
    if fitting < max_connections:
        warn(
            f"{max_connections} connections need {wanted} open files, and {most} are allowed: this serves {fitting};"
            " raise the limit (ulimit -n, or LimitNOFILE of systemd), or set max_connections of [server]"
        )
    return fitting


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Raises:
        ConfigError: the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while")[0]
        raise ConfigError(f"cannot listen on {host}:{port}: {reason}; use another --port or --host") from error
    # A response is sent in two pieces; with Nagle's algorithm the second would wait 40 ms for an acknowledgement.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def local_url(listening: socket.socket) -> str:
    """Return the URL of a socket for programs on this machine."""
    host, port = listening.getsockname()[:2]
    found = ip_address(host)
    if found.is_unspecified:
        host = "127.0.0.1" if found.version == 4 else "::1"  # noqa: PLR2004 -- IPv4
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_public(listening: socket.socket) -> bool:
    """Return whether other machines may reach a socket."""
    return not ip_address(listening.getsockname()[0]).is_loopback


def parse_base_url(text: str | None) -> str | None:
    """Return a base URL without the slash at its end.

    Raises:
        ConfigError: no client could call it.
    """
    if text is None:
        return None
    try:
        parts = urlsplit(text)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_usable = is_usable and not (parts.query or parts.fragment)
    except ValueError:
        is_usable = False
    if not is_usable:
        raise ConfigError(f"the URL of a server must be like 'https://agents.example', got {text!r}; correct it")
    return text.rstrip("/")
