"""Receiving callbacks over HTTP: an ASGI application, and a small server for a runtime that has none."""

import asyncio
import logging
import re
import socket
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from http import HTTPStatus
from math import inf

import uvicorn
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from agenttool.adapters.rap.callback_urls import PATH, CallbackUrls, is_served
from agenttool.adapters.rap.callbacks import CallbackHandler
from agenttool.http.request_body import read_body
from agenttool.http.request_guard import RequestGuard, parse_host, problem_document
from agenttool.ports.stores import DocumentStore

MAX_BODY_BYTES = 20_000_000
BODY_TIMEOUT_S = 30.0
"""Within this time the whole body of a callback must arrive."""

HEAD_TIMEOUT_S = 10.0
REQUEST_TIMEOUT_S = 40.0
"""Within these times the head of a request, and the whole request, must arrive."""

GRACE_S = 5.0
"""How long a server that stops waits for the rest of a request."""

MAX_HEAD_BYTES = 32_768
"""The bytes that the first line and the headers of a request may have."""

MAX_OVERHEAD_BYTES = 65_536
"""The bytes that a request may have besides its body: its head, the framing of its chunks, and its trailers."""

MAX_DISCARDED_BYTES = MAX_BODY_BYTES
"""How many bytes of a body are read after its request was refused.

So the client can read the response, and its connection serves the next request.
"""

MAX_CONNECTIONS = 500
"""Beyond this number a connection with an incomplete request is closed, or else an idle one. A gateway sets its own."""

TAKEOVER_POLL_S = 0.5
"""How often a listener that takes over tries to bind its port."""

log = logging.getLogger("agenttool.rap")

_CHALLENGE = re.compile(r"[0-9a-f]{32}")
_PROBE_TIMEOUT_S = 2.0
_PORT_KIND, _LOOPBACK = "rap_listener", "127.0.0.1"
_HTTP_1_1 = "1.1"
_MALFORMED = "the request is not valid HTTP, or names no host or several; correct its first line and headers"
_LARGE_HEAD = f"the URL and the headers are longer than {MAX_HEAD_BYTES} bytes; send fewer"


class CallbackApp:
    """The ASGI application for callbacks; the last segment of the path is the token of the callback URL."""

    def __init__(self, callbacks: CallbackHandler, *, urls: CallbackUrls | None = None) -> None:
        """Take the handler, and the callback URLs of this address if the handler's are others."""
        self._callbacks = callbacks
        self._urls = urls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request: a callback, or the challenge of another process of the store."""
        if scope["type"] == "http":
            response = await self._respond(Request(scope, receive))
            await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        token = str(request.scope["path"]).rpartition("/")[2]
        if request.method == "GET" and _CHALLENGE.fullmatch(token):
            return JSONResponse({"proof": (self._urls or self._callbacks.urls).proof(token)})
        try:
            await self._receive(request, token)
        except HTTPException as error:
            return JSONResponse({"error": error.detail}, error.status_code)
        return JSONResponse({"ok": True})

    async def _receive(self, request: Request, token: str) -> None:
        if request.method != "POST":
            raise HTTPException(405, "callbacks are posted")
        self._callbacks.verify_token(token)  # the body of an unverified sender is not read
        with self._callbacks.bodies.reserve() as has_room:
            body = await read_body(
                request.headers, request.receive, MAX_BODY_BYTES, timeout_s=BODY_TIMEOUT_S, has_room=has_room
            )
            if not body:  # also if the client has disconnected
                raise HTTPException(400, "the message is empty or incomplete")
            kind, key = request.headers.get("content-type"), request.headers.get("idempotency-key")
            await self._callbacks.receive(token, kind, body, key)


class TimedHttpProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with limits on the time, the overhead and the number of incomplete requests.

    Attributes:
        max_connections: how many connections the server has at most.
        is_request_pending: whether a request, or the rest of one, is awaited.
    """

    max_connections = MAX_CONNECTIONS

    _previous_cycle: RequestResponseCycle | None = None
    _timer: asyncio.TimerHandle | None = None
    is_request_pending = True
    _overhead = _discarded = 0
    _refusal = (HTTPStatus.BAD_REQUEST, _MALFORMED)

    @classmethod
    def limited(cls, max_connections: int) -> type["TimedHttpProtocol"]:
        """Return the protocol of a server with another limit on connections."""
        return type(cls.__name__, (cls,), {"max_connections": max_connections})

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] -- the library's own signature
        """Start the timeout; above the connection limit, close the connection that waited longest."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(HEAD_TIMEOUT_S, self._check_head)
        if len(self.connections) > self.max_connections:
            others = (
                each for each in self.connections - {self} if isinstance(each, TimedHttpProtocol) and each.is_idle
            )
            min(others, key=TimedHttpProtocol.deadline, default=self).abort()

    @property
    def is_idle(self) -> bool:
        """Whether no response would be lost if the connection were closed."""
        return self.is_request_pending or self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        """Parse bytes, and stop the timeout once the request is complete."""
        if not self.is_request_pending and self.cycle.response_complete:
            self.is_request_pending, self._previous_cycle = True, self.cycle
        self._overhead += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return  # the request was refused
        is_head_pending = self.is_request_pending and self.cycle is self._previous_cycle
        if is_head_pending and self._overhead > MAX_HEAD_BYTES:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, _LARGE_HEAD)
        elif self._overhead > MAX_OVERHEAD_BYTES:  # also of a request that is answered already, or is queued
            self.abort()
        elif self.is_request_pending and not is_head_pending and not self.cycle.more_body:
            self.is_request_pending = False
            self._stop_timer()
        elif self.is_request_pending and self._timer is None:
            self._timer = self.loop.call_later(HEAD_TIMEOUT_S, self._check_head)

    def send_400_response(self, msg: str) -> None:
        """Answer a request that cannot be parsed with a problem document, and close the connection."""
        self._refuse(*self._refusal)

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        response = problem_document(status, detail)
        head = b"HTTP/1.1 %d %s\r\nconnection: close\r\n" % (status.value, status.phrase.encode())
        lines = b"".join(b"%s: %s\r\n" % each for each in response.raw_headers)
        self._stop_timer()
        self.transport.write(head + lines + b"\r\n" + bytes(response.body))
        self.transport.close()

    def on_headers_complete(self) -> None:
        """Reject long heads, and requests that proxies and servers may read differently.

        Raises:
            ValueError: the head is too long, there is not exactly one valid host, the target is another host's, or the
                transfer coding is not chunked. The parser then calls `send_400_response`.
        """
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > MAX_HEAD_BYTES:
            self._refusal = (HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, _LARGE_HEAD)
            raise ValueError(_LARGE_HEAD)
        is_http_1_1 = self.parser is not None and self.parser.get_http_version() == _HTTP_1_1
        hosts = [value for name, value in self.headers if name == b"host"]
        codings = [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]
        if (
            len(hosts) > 1
            or (is_http_1_1 and not hosts)
            or any(parse_host(each.decode("latin-1")) is None for each in hosts)
        ):
            raise ValueError("a request must name its host once")
        if not self.url.startswith(b"/") and [self.url.partition(b"//")[2].partition(b"/")[0]] != hosts:
            raise ValueError("the target of a request must be of the host that it names")
        if codings and not (is_http_1_1 and codings == [b"chunked"]):
            raise ValueError("a transfer coding must be chunked")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Exclude the body from the overhead, because it has its own limit; limit what arrives after the response."""
        self._overhead -= len(body)
        if self.cycle.response_complete:
            self._discarded += len(body)
            if self._discarded > MAX_DISCARDED_BYTES:
                self.abort()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Reset the overhead."""
        self._overhead = self._discarded = 0
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timeout."""
        self._stop_timer()
        super().connection_lost(exc)

    def _check_head(self) -> None:
        """Close the connection if the head is incomplete; otherwise allow the rest of the time for the body."""
        self._timer = None
        if self.cycle is self._previous_cycle:
            self.abort()
        else:
            self._timer = self.loop.call_later(REQUEST_TIMEOUT_S - HEAD_TIMEOUT_S, self.abort)

    def deadline(self) -> float:
        """Return until when a request is awaited; infinite for a connection whose request was answered."""
        return inf if self._timer is None else self._timer.when()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def abort(self) -> None:
        """Close the connection at once."""
        self._stop_timer()
        self.transport.abort()


def abort_incomplete_requests(connections: Iterable[object]) -> None:
    """Close the connections that have not sent a complete request; the others get their response."""
    for each in tuple(connections):
        if isinstance(each, TimedHttpProtocol) and each.is_request_pending:
            each.abort()


class _EmbeddedServer(uvicorn.Server):
    """A server that leaves signals to the program that it is part of."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none."""
        yield


class Listener:
    """Serves an ASGI application on this machine, for a runtime that is not part of a server.

    With `takes_over`, it starts to listen once the process that uses the port has ended.
    """

    def __init__(self, app: ASGIApp, address: tuple[str, int], *, takes_over: bool = False) -> None:
        """Take the application, and the address to bind; port 0 is any free port."""
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, lifespan="off", ws="none", http=TimedHttpProtocol
        )
        self._server = _EmbeddedServer(config)
        self._socket = None if takes_over else _bind(address)
        self._address: tuple[str, int] = address if self._socket is None else self._socket.getsockname()[:2]
        self._task: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._address[1]

    @property
    def url(self) -> str:
        """The URL that it listens on."""
        return f"http://{self._address[0]}:{self.port}"

    def start(self) -> None:
        """Start to serve in a task of its own."""
        self._task = asyncio.create_task(self._serve())  # noqa: TID251 -- `stop` waits

    async def _serve(self) -> None:
        while self._socket is None:
            await asyncio.sleep(TAKEOVER_POLL_S)
            with suppress(OSError):  # the other process is still there, or another one was first
                self._socket = _bind(self._address)
        await self._server.serve(sockets=[self._socket])

    async def stop(self) -> None:
        """Finish the current requests and stop."""
        self._server.should_exit = True
        loop = asyncio.get_running_loop()
        loop.call_later(GRACE_S, abort_incomplete_requests, self._server.server_state.connections)
        if self._task is not None:
            if self._socket is None:
                self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        if self._socket is not None:
            self._socket.close()


def _bind(address: tuple[str, int]) -> socket.socket:
    listening = socket.create_server(address, backlog=2048)
    # A response is written in two pieces; without this the second waits up to 40 ms for an acknowledgement.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


async def open_listener(app: CallbackApp, documents: DocumentStore, secret: bytes) -> tuple[Listener, str | None]:
    """Return a listener on the port of this store, and a fault if another program has that port.

    A tool that works for days posts to the address that it got at the start (RAP-025), and a call that is sent again
    after a crash must be byte-identical. So a store has one port. If another process of the store listens there, it
    receives the callbacks of all processes until this one replaces it.
    """
    guarded = RequestGuard(app)
    stored = await documents.get(_PORT_KIND, "port")
    if stored is None:
        listener = Listener(guarded, (_LOOPBACK, 0))
        stored = str(listener.port).encode()
        if await documents.swap(_PORT_KIND, "port", before=None, after=stored):
            return listener, None
        await listener.stop()
        stored = await documents.get(_PORT_KIND, "port") or stored
    port = int(stored)
    with suppress(OSError):
        return Listener(guarded, (_LOOPBACK, port)), None
    if await is_served(CallbackUrls(f"http://{_LOOPBACK}:{port}{PATH}", secret), _PROBE_TIMEOUT_S):
        return Listener(guarded, (_LOOPBACK, port), takes_over=True), None
    fault = _PORT_IN_USE.format(port=port)
    log.error(fault)
    return Listener(guarded, (_LOOPBACK, 0)), fault


async def open_previous_listener(
    callbacks: CallbackHandler, documents: DocumentStore, secret: bytes
) -> Listener | None:
    """Listen also on the port that the store used before it had an address; None if there is none or it is in use."""
    stored = await documents.get(_PORT_KIND, "port")
    if stored is None:
        return None
    urls = CallbackUrls(f"http://{_LOOPBACK}:{int(stored)}{PATH}", secret)
    try:
        listener = Listener(RequestGuard(CallbackApp(callbacks, urls=urls)), (_LOOPBACK, int(stored)))
    except OSError:
        return None
    listener.start()
    return listener


_PORT_IN_USE = (
    "port {port} is in use by another program, and the results of earlier calls of this store are posted there: this"
    " process does not receive them, and that program can read and answer them; stop it and start again, or cancel"
    " those calls"
)
