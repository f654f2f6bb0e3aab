"""The HTTP transports: streamable HTTP, and the older HTTP with server-sent events, both behind the SSRF guard."""

import logging
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import cast

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CONNECTION_CLOSED, METHOD_NOT_FOUND

from agenttool.adapters.mcp.session import (
    BUSY,
    CONNECTION_LOST,
    FAULT,
    NOT_CONNECTED,
    REFUSED,
    TOO_LARGE,
    UNAUTHORIZED,
    UNKNOWN_SESSION,
    MessageStreams,
    SessionId,
)
from agenttool.adapters.mcp.settings import McpServer
from agenttool.codec import json_bytes, object_of, parse_object
from agenttool.errors import ConfigError, RecordError
from agenttool.http.ssrf import Resolver, check_url, policy_for, resolve
from agenttool.records import JsonObject

CONNECT_S, READ_S = 15.0, 300.0
"""How long a connection may take, and how long a server may send nothing."""

MAX_REQUESTS = 100
"""How many requests are open at the same time, beside the streams of changes; others wait."""

_STREAMS = 3
"""Those of changed lists, of changed resources, and the one that replaces it; an older revision has one."""

log = logging.getLogger("agenttool.mcp")

_SESSION_HEADER = "mcp-session-id"
_EVENTS = "text/event-stream"
_JSON = "application/json"
_UNAUTHORIZED, _NOT_FOUND, _FIRST_ERROR = (401, 403), 404, 400
_NOT_ENCODED = "identity"
_MAX_ERROR_BYTES = 2**20
_PASSED_ON = ("www-authenticate", "retry-after")
_EVENT_END = re.compile(rb"\n\n|\r\n\r\n|\r\r")
_MAX_END_BYTES = 3


class _Events(httpx2.AsyncByteStream):
    """A response body that yields the parts of an iterator over the original body."""

    def __init__(self, body: httpx2.AsyncByteStream, parts: AsyncIterator[bytes]) -> None:
        self._body = body
        self._parts = parts

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._parts

    async def aclose(self) -> None:
        await self._body.aclose()


async def _limited_events(body: AsyncIterable[bytes], max_bytes: int, request: httpx2.Request) -> AsyncIterator[bytes]:
    """Yield complete events; replace an event that is too long by an error, and stop."""
    held = bytearray()
    async for part in body:
        begin = max(len(held) - _MAX_END_BYTES, 0)
        held += part
        ends = [found.end() for found in _EVENT_END.finditer(held, begin)]
        if ends:
            yield bytes(held[: ends[-1]])
            del held[: ends[-1]]
        if len(held) > max_bytes:
            yield b"data: " + await _too_large(request, max_bytes) + b"\n\n"
            return
    yield bytes(held)


async def _session_events(name: str, body: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the body of a session of the older transport; end without an error if the connection fails."""
    try:
        async for part in body:
            yield part
    except httpx2.HTTPError as error:
        log.info("the event stream of the server %r ended: %s", name, type(error).__name__)


async def _too_large(request: httpx2.Request, max_bytes: int) -> bytes:
    """Return the JSON-RPC error that replaces a response to a message.

    Raises:
        httpx2.StreamError: the request has no message, so there is nothing to respond to.
    """
    message = f"a response of more than {max_bytes} bytes was refused (max_message_bytes)"
    try:
        sent = parse_object(await request.aread())
    except RecordError:
        raise httpx2.StreamError(message) from None
    return json_bytes({"jsonrpc": "2.0", "id": sent.get("id"), "error": _error(TOO_LARGE, message)})


async def _read(body: httpx2.AsyncByteStream, max_bytes: int) -> bytes | None:
    """Return a whole body; None if it is too long."""
    held = bytearray()
    async for part in body:
        held += part
        if len(held) > max_bytes:
            return None
    return bytes(held)


@cache
def _tls_context() -> ssl.SSLContext:
    """Return the TLS context of all connections; loading the trusted certificates for each source would be slow."""
    return httpx2.create_ssl_context(trust_env=False)


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Connects to public and allowed addresses, and the one in the URL; limits responses; stores the session id."""

    def __init__(self, server: McpServer, session_id: SessionId) -> None:
        """Take the settings, and the object that stores the id.

        Raises:
            ConfigError: an entry of `allow` is invalid.
        """
        limits = httpx2.Limits(max_connections=MAX_REQUESTS + _STREAMS, max_keepalive_connections=20)
        self._inner = httpx2.AsyncHTTPTransport(verify=_tls_context(), trust_env=False, limits=limits)
        self._policy = policy_for((server.url or "",), server.allow)
        self._resolver = Resolver()
        self._server = server
        self._max_bytes = server.max_message_bytes
        self._session_id = session_id
        login = f"a user must log in: run `agenttool sources login {server.name}`"
        self._advice = "check the headers and credentials in its settings" if server.oauth is None else login

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to the first address of its host that answers.

        A failure of a message is a response with a JSON-RPC error: an exception would end the calls of all callers.

        Raises:
            ConfigError: the settings do not allow its address.
        """
        try:
            response = await self._send(request)
        except RecordError as error:
            raise ConfigError(f"its url may not be contacted: {error}") from error
        except httpx2.PoolTimeout:
            return _failed(request, BUSY, f"{MAX_REQUESTS} other requests run, which is the limit; try again later")
        except (httpx2.ConnectError, httpx2.ConnectTimeout, OSError) as error:
            return _failed(request, NOT_CONNECTED, f"no connection ({type(error).__name__})")
        except httpx2.HTTPError as error:
            return _failed(request, CONNECTION_LOST, f"the connection was lost ({type(error).__name__})")
        return await self._checked(request, response)

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        """Resolve the host of a request once, check all its addresses, and send it to the first that accepts it.

        Raises:
            RecordError: its URL may not be contacted.
            OSError: its host name cannot be resolved.
            httpx2.HTTPError: the connection failed.
        """
        check_url(str(request.url), self._policy)
        host, failure = request.url.host, httpx2.ConnectError("no address")
        for address in await resolve(host, self._policy, self._resolver):
            pinned = httpx2.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,  # with the header `Host` of the name
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": host},
            )
            try:
                return await self._inner.handle_async_request(pinned)
            except httpx2.ConnectError as error:
                failure = error
        raise failure

    async def _checked(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """Return a response within the limits, with the reason of a refusal."""
        encoding = response.headers.get("content-encoding", _NOT_ENCODED)
        if encoding != _NOT_ENCODED:  # a small body may expand to any size
            await response.aclose()
            return _failed(request, REFUSED, f"it answered in the encoding {encoding!r}, which was not requested")
        if response.status_code >= _FIRST_ERROR:
            return await _explained(request, response, self._advice)
        found = response.headers.get(_SESSION_HEADER)
        self._session_id.value = found or self._session_id.value
        body = cast("httpx2.AsyncByteStream", response.stream)
        if response.headers.get("content-type", "").startswith(_EVENTS):
            is_session = self._server.transport == "sse" and request.method == "GET"
            events = _session_events(self._server.name, body) if is_session else body
            response.stream = _Events(body, _limited_events(events, self._max_bytes, request))
            return response
        return await self._limited(request, response, body)

    async def _limited(
        self, request: httpx2.Request, response: httpx2.Response, body: httpx2.AsyncByteStream
    ) -> httpx2.Response:
        """Return a response whose body is read; one that is too long, or breaks off, is an error."""
        try:
            content = await _read(body, self._max_bytes)
        except httpx2.HTTPError as error:
            return _failed(request, CONNECTION_LOST, f"the connection was lost ({type(error).__name__})")
        finally:
            await body.aclose()
        if content is None:
            error = await _too_large(request, self._max_bytes)
            return httpx2.Response(200, content=error, headers={"content-type": _JSON}, request=request)
        response.stream = httpx2.ByteStream(content)
        return response

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


def _failed(request: httpx2.Request, fault: str, message: str, status: int = 502) -> httpx2.Response:
    """Return a response that fails one message; other requests have no place for an error."""
    members: JsonObject = {"jsonrpc": "2.0", "id": None, "error": _error(fault, message)}
    return httpx2.Response(status, json=members, request=request)


def _error(fault: str, message: str) -> JsonObject:
    return {"code": CONNECTION_CLOSED, "message": message, "data": {FAULT: fault}}


async def _explained(request: httpx2.Request, response: httpx2.Response, advice: str) -> httpx2.Response:
    """Return an error response to a message with a JSON-RPC error as its body, if it has none.

    The status 404 within a session means that the server does not know the session any more, whatever the body says.
    """
    if not _is_message(await request.aread()):
        return response
    content, status = None, response.status_code
    with suppress(httpx2.HTTPError):
        content = await _read(cast("httpx2.AsyncByteStream", response.stream), _MAX_ERROR_BYTES)
    await response.aclose()
    error = object_of(_object_in(content or b"").get("error"))
    lost: tuple[str, str] | None = None
    if status == _NOT_FOUND and error.get("code") != METHOD_NOT_FOUND:
        lost = UNKNOWN_SESSION, "the server does not know the session any more"
    elif error.get("code") == CONNECTION_CLOSED:  # some servers that were restarted send it
        lost = CONNECTION_LOST, f"HTTP status {status}: {error.get('message')}"
    if lost is not None and _SESSION_HEADER in request.headers:
        return _failed(request, *lost, status)
    if content is not None and status != _UNAUTHORIZED[0] and _is_message(content):
        return httpx2.Response(status, content=content, headers=response.headers, request=request)
    if status == _NOT_FOUND:  # the SDK reads it as a method that the server does not have
        return httpx2.Response(status, request=request)
    fault = UNAUTHORIZED if status in _UNAUTHORIZED else REFUSED
    words = f"it answered with the HTTP status {status}" + (f"; {advice}" if fault == UNAUTHORIZED else "")
    explained = _failed(request, fault, words, status)
    for name in _PASSED_ON:
        if name in response.headers:
            explained.headers[name] = response.headers[name]
    return explained


def _is_message(content: bytes) -> bool:
    """Return whether a body is a JSON-RPC message; those of OAuth are not."""
    return "jsonrpc" in _object_in(content)


def _object_in(content: bytes) -> JsonObject:
    try:
        return parse_object(content)
    except RecordError:
        return {}


@asynccontextmanager
async def open_http(
    server: McpServer, headers: Mapping[str, str], session_id: SessionId, auth: httpx2.Auth | None = None
) -> AsyncGenerator[MessageStreams]:
    """Return the streams to a server with a URL.

    Raises:
        ConfigError: its URL may not be contacted.
    """

    def client(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            transport=GuardedTransport(server, session_id),
            headers={**(headers or {}), "accept-encoding": _NOT_ENCODED},
            auth=auth,
            timeout=httpx2.Timeout(CONNECT_S, read=READ_S),
            trust_env=False,
        )

    url = server.url or ""
    if server.transport == "sse":
        async with sse_client(url, dict(headers), auth=auth, httpx_client_factory=client) as streams:
            yield streams
    else:
        async with (
            client(dict(headers), auth=auth) as http,
            streamable_http_client(url, http_client=http, max_sse_event_size=server.max_message_bytes) as streams,
        ):
            yield streams
