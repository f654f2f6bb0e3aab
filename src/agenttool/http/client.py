"""The HTTP client of this package: guarded against SSRF, limited in time, size and concurrency, without redirects.

Responses are parsed by `httptools`, which also parses the requests that this package serves. A general client library
costs ten times as much for one message, and would need redirects, retries and compression disabled one by one.
"""

import asyncio
import random
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, NamedTuple, cast
from urllib.parse import urlsplit

import certifi
import httptools

from agenttool.errors import RecordError
from agenttool.http.headers import check_headers, parse_retry_after
from agenttool.http.limiter import ConcurrencyLimiter, ConcurrencyLimits, RequestKey
from agenttool.http.ssrf import Resolver, SsrfPolicy, check_url, resolve

ACCEPTED = 200
MAX_OVERHEAD_BYTES = 65_536
"""The bytes that a response may have besides its body: its head and the framing of its chunks."""

MAX_IDLE_CONNECTIONS = 100
IDLE_S = 15.0
"""How many connections stay open between requests, and how long."""

_FIRST_FINAL_STATUS = 200
_BUSY = (408, 425, 429)
_UNAVAILABLE = 503
_GATEWAY_ERRORS = (502, 503, 504)
_DEFAULT_CONCURRENCY = 100
_MAX_DOUBLINGS = 16
_UNTRUSTED = "its certificate is not trusted; add the authority that signed it to the certificates of this machine"
FaultCode = Literal["refused", "too_large", "timeout", "not_connected", "connection_lost"]
"""Why there is no response; after the first two, the same request will not succeed later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    """The outcome of a request: a status, or why there is none.

    Attributes:
        status: of the response; None if there was no response or no request.
        headers: of the response, by lower-case name.
        body: of the response, as far as it was read.
        is_truncated: whether the body has more bytes than were to be read.
        fault: why there is no status, without any address.
        is_sent: whether any byte of the request may have left, so that the other side may have acted on it.
    """

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)
    body: bytes = b""
    is_truncated: bool = False
    fault: str | None = None
    code: FaultCode | None = None
    is_sent: bool = True

    @property
    def is_refused(self) -> bool:
        """Whether the request may not be made at all, now or later."""
        return self.code in ("refused", "too_large")

    @property
    def is_accepted(self) -> bool:
        """Whether the other side accepted the message, which only status 200 means."""
        return self.status == ACCEPTED

    @property
    def is_2xx(self) -> bool:
        """Whether the status reports a success of any kind."""
        return self.status is not None and 200 <= self.status < 300  # noqa: PLR2004 -- HTTP status class

    @property
    def is_retryable(self) -> bool:
        """Whether the same request may succeed later: there was no response, or a status of 500 or above."""
        return not self.is_refused and (self.status is None or self.status >= 500)  # noqa: PLR2004 -- HTTP status class

    @property
    def is_unhandled(self) -> bool:
        """Whether the other side says that it did not handle the request and asks for another attempt."""
        return self.status == _UNAVAILABLE and self.retry_after_s > 0

    @property
    def is_busy(self) -> bool:
        """Whether the other side rejected the request only for now: 408, 425 or 429."""
        return self.status in _BUSY

    @property
    def retry_after_s(self) -> float:
        """How long the other side asks to wait before the next attempt."""
        return parse_retry_after(self.headers.get("retry-after", "")) or 0.0

    def delay_s(self, attempts: int, *, first_s: float, max_s: float) -> float:
        """Return the delay before the next attempt: random, and never shorter than the `Retry-After` of this reply."""
        jitter_s = random.uniform(0, backoff_s(attempts, first_s=first_s, max_s=max_s))  # noqa: S311 -- not a secret
        return max(jitter_s, self.retry_after_s)


class RequestOptions(NamedTuple):
    """How one request is made.

    Attributes:
        caller: on whose behalf, for the limits on requests and lookups; if empty, the destination's host counts.
        send_once: whether it must not be sent again even if a reused connection turns out to be closed.
        max_idle_s: how long a reused connection may have been idle. The server may close an older one at any moment.
        reader: takes the body of a response of status 200 as it arrives, at the pace at which it is read.
    """

    caller: str = ""
    send_once: bool = False
    max_idle_s: float = IDLE_S
    reader: asyncio.StreamReader | None = None


DEFAULT_OPTIONS = RequestOptions()


def backoff_s(attempts: int, *, first_s: float, max_s: float) -> float:
    """Return the longest delay after so many failed attempts, which doubles each time."""
    return min(first_s * 2 ** min(attempts - 1, _MAX_DOUBLINGS), max_s)


class HttpClient:
    """Sends requests over pooled connections. A failure is a reply, not an exception."""

    def __init__(self, policy: SsrfPolicy, *, timeout_s: float = 15.0, limits: ConcurrencyLimits | None = None) -> None:
        """Take the SSRF policy, and the limits on requests or only the timeout of one."""
        self._policy = policy
        self._resolver = Resolver()
        self._limiter = ConcurrencyLimiter(
            limits or ConcurrencyLimits(total=_DEFAULT_CONCURRENCY, timeout_s=timeout_s, queue_timeout_s=timeout_s)
        )
        self._idle: dict[HttpConnection, tuple[HttpEndpoint, asyncio.TimerHandle]] = {}

    async def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        *,
        max_bytes: int = 4096,
        options: RequestOptions = DEFAULT_OPTIONS,
    ) -> HttpReply:
        """Post a message to exactly that URL, as JSON unless the headers say otherwise."""
        headers = {"Content-Type": "application/json", **(headers or {})}
        return await self.send("POST", url, headers, body, max_bytes=max_bytes, options=options)

    async def get(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        max_bytes: int = 4_000_000,
        options: RequestOptions = DEFAULT_OPTIONS,
    ) -> HttpReply:
        """Get a JSON document of at most `max_bytes`."""
        headers = {"Accept": "application/json", **(headers or {})}
        reply = await self.send("GET", url, headers, max_bytes=max_bytes, options=options)
        if reply.is_truncated:
            return HttpReply(fault=f"the response has more than {max_bytes} bytes", code="too_large")
        return reply

    async def probe(self, url: str) -> str | None:
        """Return why the server of a URL does not answer; None if it does, with whatever status it has of its own."""
        reply = await self.send("OPTIONS", url, {})
        return reply.fault or (f"it answered {reply.status}" if reply.status in _GATEWAY_ERRORS else None)

    async def check_target(self, url: str, caller: str = "") -> None:
        """Reject a URL that may not be contacted, without contacting it; a name that does not resolve now may pass.

        Raises:
            RecordError: it may not be contacted.
        """
        check_url(url, self._policy)
        with suppress(OSError, UnicodeError):
            await resolve(urlsplit(url).hostname or "", self._policy, self._resolver, caller)

    async def close(self) -> None:
        """Close the idle connections."""
        for connection in [*self._idle]:
            self._close_idle(connection)

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        max_bytes: int = 4096,
        options: RequestOptions = DEFAULT_OPTIONS,
    ) -> HttpReply:
        """Send a request, and return the response with up to `max_bytes` of its body."""
        is_sent = False
        try:
            check_url(url, self._policy)
            endpoint, request = encode_request(method, url, headers, body)
            async with self._limiter.limit(RequestKey(options.caller or endpoint.host, endpoint)):
                connection = self._take_idle(endpoint, options.max_idle_s)
                if connection is not None:
                    is_sent = True
                    try:
                        return await self._use(connection, endpoint, request, max_bytes, options.reader)
                    except ConnectionError:  # the other side closed it at the same time
                        if connection.received or options.send_once:
                            raise
                addresses = await resolve(endpoint.host, self._policy, self._resolver, options.caller)
                connection = await _connect(endpoint, addresses)
                is_sent = True
                return await self._use(connection, endpoint, request, max_bytes, options.reader)
        except RecordError as error:
            return HttpReply(fault=str(error), code="refused", is_sent=False)
        except TimeoutError as error:
            fault = str(error) or "its host name was not resolved in time"
            return HttpReply(fault=fault, code="timeout" if is_sent else "not_connected", is_sent=is_sent)
        except (OSError, UnicodeError) as error:
            is_untrusted = isinstance(error, ssl.SSLCertVerificationError)
            fault = _UNTRUSTED if is_untrusted else f"the connection failed: {type(error).__name__}"
            return HttpReply(fault=fault, code="connection_lost" if is_sent else "not_connected", is_sent=is_sent)

    async def _use(
        self,
        connection: "HttpConnection",
        endpoint: "HttpEndpoint",
        request: bytes,
        max_bytes: int,
        reader: asyncio.StreamReader | None,
    ) -> HttpReply:
        """Send a request over a connection, which then is idle if it stays open."""
        reply = await connection.exchange(request, max_bytes, reader)
        if connection.is_open:
            timer = asyncio.get_running_loop().call_later(IDLE_S, self._close_idle, connection)
            self._idle[connection] = endpoint, timer
            if len(self._idle) > MAX_IDLE_CONNECTIONS:
                self._close_idle(next(iter(self._idle)))
        return reply

    def _take_idle(self, endpoint: "HttpEndpoint", max_idle_s: float) -> "HttpConnection | None":
        """Remove and return the open connection that became idle last, unless that was too long ago."""
        closes_after = asyncio.get_running_loop().time() + IDLE_S - max_idle_s
        for connection, (found, timer) in reversed([*self._idle.items()]):
            if found == endpoint and timer.when() >= closes_after:
                del self._idle[connection]
                timer.cancel()
                if connection.is_open:
                    return connection
        return None

    def _close_idle(self, connection: "HttpConnection") -> None:
        _, timer = self._idle.pop(connection)
        timer.cancel()
        connection.close()


class HttpEndpoint(NamedTuple):
    """Where a connection leads."""

    host: str
    port: int
    is_tls: bool


def encode_request(method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> tuple[HttpEndpoint, bytes]:
    """Return where a request goes, and its bytes.

    Raises:
        RecordError: a header would change the framing or the destination of the request.
    """
    check_headers(headers)
    parts = urlsplit(url)
    is_tls = parts.scheme == "https"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    named = (f"{name}: {value}" for name, value in headers.items())
    lines = [f"{method} {target} HTTP/1.1", f"Host: {parts.netloc}", *named]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    endpoint = HttpEndpoint(parts.hostname or "", parts.port or (443 if is_tls else 80), is_tls)
    return endpoint, "\r\n".join((*lines, "", "")).encode("ascii") + (body or b"")


async def _connect(endpoint: HttpEndpoint, addresses: list[str]) -> "HttpConnection":
    """Connect to the first checked address that accepts; TLS still verifies the host name of the URL."""
    name, context = (endpoint.host, tls_context()) if endpoint.is_tls else (None, None)
    failure = OSError("no address")
    for address in addresses:
        try:
            _, connection = await asyncio.get_running_loop().create_connection(
                HttpConnection, address, endpoint.port, ssl=context, server_hostname=name
            )
        except OSError as error:
            failure = error
        else:
            return connection
    raise failure


@cache
def tls_context() -> ssl.SSLContext:
    """Return the TLS context; cached, because loading the certificates takes a tenth of a second."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    return context


class HttpConnection(asyncio.Protocol):
    """One connection, with one exchange at a time. Any error closes it, so that no response is mistaken for another.

    `httptools` parses the responses, and calls the methods that start with `on`.

    Attributes:
        received: the bytes that came for the last request; if there are any, the other side has surely seen it.
    """

    def __init__(self) -> None:
        """Start unconnected; the event loop connects it."""
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._response: asyncio.Future[HttpReply] | None = None
        self._reader: asyncio.StreamReader | None = None
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._max_bytes = self.received = self._status = 0
        self._is_reusable = self._has_body = False

    @property
    def _is_awaited(self) -> bool:
        """Whether an exchange waits for the end of its response."""
        return self._response is not None and not self._response.done()

    @property
    def is_open(self) -> bool:
        """Whether another exchange may start."""
        return self._transport is not None and self._response is None and not self._transport.is_closing()

    async def exchange(self, request: bytes, max_bytes: int, reader: asyncio.StreamReader | None = None) -> HttpReply:
        """Send a request and return its response, with up to `max_bytes` of the body.

        A reader gets the body instead, if the status is 200; it can pause the connection, which is then not reused.

        Raises:
            ConnectionError: the connection failed, or the response is not HTTP.
        """
        if self._transport is None or not self.is_open:
            raise ConnectionError("the connection is closed")
        self._response = asyncio.get_running_loop().create_future()
        self._is_reusable, self._has_body = False, not request.startswith(b"HEAD ")
        self._body.clear()
        self._max_bytes, self.received, self._status = max_bytes, 0, 0
        self._reader = reader
        if reader is not None:
            reader.set_transport(self._transport)
        try:
            self._transport.write(request)
            reply = await self._response
        except BaseException:  # also if the request was canceled after its response came
            self.close()
            raise
        finally:
            self._response = None
        if not self._is_reusable or self._transport.get_write_buffer_size():
            self.close()
        return reply

    def close(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Parse bytes of a response; bytes between two exchanges close the connection."""
        if self._response is None:
            self.close()
            return
        self.received += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail("the response is not valid HTTP")
        if self.received - len(self._body) > MAX_OVERHEAD_BYTES:
            self._fail("the head of the response is too long")

    def connection_lost(self, exc: Exception | None) -> None:
        """End the current response; one without a length ends with its connection."""
        has_length = not self._headers.keys().isdisjoint(("content-length", "transfer-encoding"))
        if exc is None and self._status >= _FIRST_FINAL_STATUS and not has_length:
            self._complete()
        else:
            self._fail("the connection was closed before the end of the response")

    def on_message_begin(self) -> None:
        """Start a response; it may be the second one to a request."""
        self._is_reusable, self._headers = False, {}

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header; of several with one name, all values."""
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self._headers[key] = f"{self._headers[key]}, {text}" if key in self._headers else text

    def on_headers_complete(self) -> None:
        """Store the status; a response to HEAD ends here, and one that announces too long a body."""
        self._status = self._parser.get_status_code()
        announced = self._headers.get("content-length", "")
        is_long = announced.isdecimal() and int(announced) > self._max_bytes and self._reader is None
        if self._status >= _FIRST_FINAL_STATUS and (is_long or not self._has_body):
            self._complete(is_truncated=self._has_body)

    def on_body(self, data: bytes) -> None:
        """Store a part of the body, up to the limit; a reader gets all of it."""
        if self._reader is not None and self._status == ACCEPTED:
            self.received -= len(data)
            self._reader.feed_data(data)
        elif len(self._body) <= self._max_bytes:
            self._body += data
            if len(self._body) > self._max_bytes:
                self._complete()

    def on_message_complete(self) -> None:
        """Complete the response, unless it is one of status 1xx, which precede the final one."""
        if self._status >= _FIRST_FINAL_STATUS and self._is_awaited:
            self._is_reusable = self._reader is None and self._parser.should_keep_alive()
            self._complete()

    def _complete(self, *, is_truncated: bool = False) -> None:
        if self._response is not None and not self._response.done():
            body = bytes(self._body[: self._max_bytes])
            is_truncated = is_truncated or len(self._body) > self._max_bytes
            reply = HttpReply(status=self._status, headers=self._headers, body=body, is_truncated=is_truncated)
            self._response.set_result(reply)

    def _fail(self, reason: str) -> None:
        self._is_reusable = False
        if self._response is not None and not self._response.done():
            self._response.set_exception(ConnectionError(reason))
