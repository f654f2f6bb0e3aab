"""Callbacks over HTTP: an application that any server can carry, and a small server for a runtime without one."""

import asyncio
import json
import logging
import re
import socket
from collections.abc import Awaitable, Callable, Generator, Iterable, MutableMapping
from contextlib import contextmanager, suppress
from typing import TypeAlias, cast

import uvicorn

from agenttool.adapters.rap.addresses import PATH, Addresses
from agenttool.adapters.rap.callbacks import BUSY, Callbacks, Outcome
from agenttool.adapters.rap.claims import is_served
from agenttool.adapters.rap.patience import GRACE_S, Patient, let_go
from agenttool.ports.stores import DocumentStore
from agenttool.records import JsonObject

MAX_BODY = 20_000_000
SLOWEST_S = 30.0
"""Within this time a message must have come in whole."""

log = logging.getLogger("agenttool.rap")

_WORD = re.compile(r"[0-9a-f]{32}")
_ASKED_S = 2.0
TAKES_OVER_S = 0.5
"""How soon a process that stands by notices that nobody listens for its store any more."""
_SHELF, _HERE = "rap_listener", "127.0.0.1"
_ALLOWED, _TOO_LARGE, _TOO_SLOW = 405, 413, 408
_CUT_OFF = Outcome(400, "there is no message, or its sender went away before its end")

Scope: TypeAlias = MutableMapping[str, object]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, object]]]
Send: TypeAlias = Callable[[MutableMapping[str, object]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class CallbackApp:
    """An ASGI application: the last part of the path is the token of the callback URL."""

    def __init__(self, callbacks: Callbacks, *, max_body: int = MAX_BODY, place: Addresses | None = None) -> None:
        """Take who deals with the messages, how large one may be, and where this is, if not where all is said to be."""
        self._callbacks = callbacks
        self._max_body = max_body
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http":
            token = str(scope["path"]).rpartition("/")[2]
            if scope["method"] == "GET" and _WORD.fullmatch(token):
                await _reply(send, 200, {"proof": (self._place or self._callbacks.addresses).proof(token)})
                return
            outcome = await self._answer(scope, receive, token)
            await _reply(send, outcome.status, {"error": outcome.message} if outcome.message else {"ok": True})

    async def _answer(self, scope: Scope, receive: Receive, token: str) -> Outcome:
        if scope["method"] != "POST":
            return Outcome(_ALLOWED, "callbacks are posted")
        call = self._callbacks.call_of(token)
        if isinstance(call, Outcome):
            return call  # a stranger's message is not even read
        with self._callbacks.bodies.hold() as has_room:
            body = await self._body(receive, has_room)
            if isinstance(body, Outcome):
                return body
            kind, key = _header(scope, b"content-type"), _header(scope, b"idempotency-key")
            return await self._callbacks.receive(token, kind, body, key)

    async def _body(self, receive: Receive, has_room: Callable[[int], bool]) -> bytes | Outcome:
        """Read a message, or say why it is not read."""
        try:
            async with asyncio.timeout(SLOWEST_S):
                body = await body_of(receive, self._max_body, has_room)
        except TimeoutError:
            return Outcome(_TOO_SLOW, "the message took too long")
        except BlockingIOError:
            return Outcome(BUSY, "too many long messages come in at once; come again")
        if body is None:
            return Outcome(_TOO_LARGE, f"a message has at most {self._max_body} bytes")
        return body or _CUT_OFF


async def body_of(receive: Receive, most: int, has_room: Callable[[int], bool] = lambda _: True) -> bytes | None:
    """Read the body of a request; none if it is longer than that.

    Raises:
        BlockingIOError: there is no room for the rest of it now.
    """
    read = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b""
        piece = message.get("body", b"")
        read += piece if isinstance(piece, bytes) else b""
        if len(read) > most:
            return None
        if not has_room(len(read)):
            raise BlockingIOError
        if not message.get("more_body"):
            return bytes(read)


def _header(scope: Scope, name: bytes) -> str | None:
    headers = cast("Iterable[tuple[bytes, bytes]]", scope["headers"])
    return next((value.decode("latin-1") for key, value in headers if key.lower() == name), None)


async def _reply(send: Send, status: int, told: JsonObject) -> None:
    body = json.dumps(told).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _Quiet(uvicorn.Server):
    """A server that leaves signals to the program it is part of."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none."""
        yield


class Listener:
    """Serves callbacks on this machine, for a runtime that is not part of a server."""

    def __init__(self, app: App, place: tuple[str, int]) -> None:
        """Take the application, and the address to bind; port 0 is any that is free."""
        config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", ws="none", http=Patient)
        self._server = _Quiet(config)
        self._socket = socket.create_server(place, backlog=2048)
        # An answer goes out in two pieces; without this the second would wait until the first is acknowledged, 40 ms.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._task: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._socket.getsockname()[1])

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{self._socket.getsockname()[0]}:{self.port}"

    def start(self) -> None:
        """Begin to serve, in a task of its own."""
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]))  # noqa: TID251 -- `stop` waits

    async def stop(self) -> None:
        """Serve what is under way, and no more."""
        self._server.should_exit = True
        asyncio.get_running_loop().call_later(GRACE_S, let_go, self._server.server_state.connections)
        if self._task is not None:
            with suppress(asyncio.CancelledError):
                await self._task
        self._socket.close()


class Heir:
    """Stands by while another process of the store listens at a port, and listens there once that one is gone."""

    def __init__(self, app: App, port: int) -> None:
        """Take the application, and the port."""
        self.port = port
        self.url = f"http://{_HERE}:{port}"
        self._app = app
        self._listener: Listener | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look, in a task of its own."""
        self._task = asyncio.create_task(self._look())  # noqa: TID251 -- `stop` waits

    async def stop(self) -> None:
        """Look no more, and listen no more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        if self._listener is not None:
            await self._listener.stop()

    async def _look(self) -> None:
        while self._listener is None:
            await asyncio.sleep(TAKES_OVER_S)
            with suppress(OSError):  # the other one is still there, or another heir was first
                self._listener = Listener(self._app, (_HERE, self.port))
                self._listener.start()


async def listener_of(app: CallbackApp, shelf: DocumentStore, secret: bytes) -> tuple[Listener | Heir, str | None]:
    """Listen on this machine where callbacks of the same store were received before, or wherever there is room.

    A tool that works for days posts to the address that it was given when it began (RAP-025), and a call that is sent
    again after a crash must be the same, word for word. So a store has one address: should another process of it listen
    there, that one takes what comes for all until this one takes its place. Should a stranger, what is given besides
    says what that means for calls that were sent before.
    """
    kept = await shelf.get(_SHELF, "port")
    if kept is None:
        listener = Listener(app, (_HERE, 0))
        kept = str(listener.port).encode()
        if await shelf.swap(_SHELF, "port", before=None, after=kept):
            return listener, None
        await listener.stop()
        kept = await shelf.get(_SHELF, "port") or kept
    port = int(kept)
    with suppress(OSError):
        return Listener(app, (_HERE, port)), None
    if await is_served(Addresses(f"http://{_HERE}:{port}{PATH}", secret), _ASKED_S):
        return Heir(app, port), None
    fault = _HELD.format(port=port)
    log.error(fault)
    return Listener(app, (_HERE, 0)), fault


async def earlier_listener(callbacks: Callbacks, shelf: DocumentStore, secret: bytes) -> Listener | None:
    """Listen also where callbacks of the same store were received before it had an address, if nobody does."""
    kept = await shelf.get(_SHELF, "port")
    if kept is None:
        return None
    place = Addresses(f"http://{_HERE}:{int(kept)}{PATH}", secret)
    try:
        listener = Listener(CallbackApp(callbacks, place=place), (_HERE, int(kept)))
    except OSError:
        return None
    listener.start()
    return listener


_HELD = (
    "port {port} is held by another program, and calls of this store that were sent before have their results posted"
    " there: they do not come in here, and that program can read them and answer in their place; stop it and start"
    " again, or cancel those calls"
)
