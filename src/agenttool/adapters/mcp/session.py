"""One open MCP session: requests with their native ids and unchanged results, and limits on what a server may send.

The typed methods of the SDK validate results, and drop members that they do not know. So requests are sent through the
dispatcher below them, which returns each result as the server sent it.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import count
from types import TracebackType
from typing import Any, Self, cast  # noqa: TID251 -- the parameters of a request, as the SDK takes them

import anyio
from mcp.client import advertise
from mcp.client.client import Client
from mcp.client.session import ElicitationFnT, ListRootsFnT, LoggingFnT, MessageHandlerFnT, SamplingFnT
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.dispatcher import CallOptions, ProgressFnT, coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, encode_header_value, mcp_param_headers, x_mcp_header_map
from mcp.shared.message import SessionMessage
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CONNECTION_CLOSED,
    LOG_LEVEL_META_KEY,
    ErrorData,
    Implementation,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from agenttool.codec import object_of, objects_in
from agenttool.http.limiter import RateLimiter
from agenttool.ports.limits import RateLimit
from agenttool.records import Json, JsonObject

MessageStreams = tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]
"""Where messages of a server are read, and where messages to it are written."""

Transport = AbstractAsyncContextManager[MessageStreams]
"""Opens the streams to a server, and closes them."""

FAULT = f"agenttool.fault.{secrets.token_hex(8)}"
"""The member of an error's data by which a transport states a fault of its own; the values follow.

It is random, so that no server can state one.
"""

_LOST_STREAM = "SSE stream "
"""The beginning of the error messages of the SDK about a lost stream."""

_OWN_PREFIX = "agenttool/"
"""The prefix of the members of `_meta` that only this product states."""

_DATA = frozenset({"structuredContent", "inputSchema", "outputSchema", "requestedSchema", "data"})
"""The members of a message whose values are data, in which `_meta` has no meaning."""

TOO_LARGE, BUSY, NOT_CONNECTED, CONNECTION_LOST = "too_large", "busy", "not_connected", "connection_lost"
UNAUTHORIZED, REFUSED, INVALID, UNKNOWN_SESSION = "unauthorized", "refused", "invalid", "unknown_session"

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
EXTENSIONS = (TASKS_EXTENSION,)
"""The extensions of the protocol that this client supports."""

MAX_PAGES = 1000
"""How many pages of a list are read."""

FIRST_ID = 100
"""The id of the first request of a session; the SDK numbers those of the handshake from 1 on."""

MESSAGE_RATE = RateLimit(per_second=50, burst=200)
"""How many notifications of progress are read, as many others, and as many requests; more are dropped.

So a flood costs no memory and little time.
"""

_UPDATED, _PROGRESS = "notifications/resources/updated", "notifications/progress"
_NEEDED = ("notifications/cancelled", "notifications/subscriptions/acknowledged", "notifications/elicitation/complete")


@dataclass(slots=True, eq=False)
class SessionId:
    """The id that a server gave to a session in its HTTP headers; None if it has none."""

    value: str | None = None


@dataclass(slots=True, eq=False)
class Exchange:
    """One request and its response.

    Attributes:
        headers: what the request carries besides the usual headers, if it is sent over HTTP.
        on_sent: is called with the id just before the request is sent.
        log_level: the lowest level of log messages that the server sends, if each request of the revision states it.
        withheld: the capabilities of this client that the request does not declare, if each request states them.
        request_id: its JSON-RPC id, once it is sent.
        is_over: whether the server has responded, or the session has ended; False only if the call was canceled before.
    """

    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    on_sent: Callable[[int], None] | None = None
    log_level: str | None = None
    withheld: Collection[str] = ()
    request_id: int | None = None
    is_over: bool = True


_EXCHANGE: ContextVar[Exchange | None] = ContextVar("agenttool_mcp_exchange", default=None)

RELATED: ContextVar[Exchange | None] = ContextVar("agenttool_mcp_related", default=None)
"""The request that a message of the server belongs to, for the callbacks of a session; None if that is not stated.

Streamable HTTP states it: such a message arrives in the response to the request.
"""


class MessageStream:
    """A stream as the SDK uses it: leaving its context closes it."""

    async def aclose(self) -> None:
        """Close the stream."""

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        """Close it."""
        await self.aclose()


class MessageReader(MessageStream):
    """A stream of messages of which `receive` reads one."""

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message.

        Raises:
            anyio.EndOfStream: there is no more.
        """
        raise NotImplementedError

    def __aiter__(self) -> "ReadStream[SessionMessage | Exception]":
        """Return itself."""
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        """Return the next message.

        Raises:
            StopAsyncIteration: there is no more.
        """
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


@dataclass(slots=True, eq=False)
class LimitedReader(MessageReader):
    """Limits notifications and requests, and reports responses, updated resources and the end of the stream.

    Attributes:
        last_context: the context in which the SDK calls the callbacks of the last message; None for its own.
    """

    _stream: ReadStream[SessionMessage | Exception]
    _closed: asyncio.Event
    _callbacks: "SessionCallbacks"
    last_context: Context | None = None
    _rates: RateLimiter = field(default_factory=lambda: RateLimiter(MESSAGE_RATE))

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        while True:
            try:
                item = await self._stream.receive()
            except BaseException:
                self._closed.set()
                raise
            is_admitted = self._admits(item)
            if isinstance(item, Exception) or not isinstance(item.message, JSONRPCResponse | JSONRPCError):
                await asyncio.sleep(0)  # a flood must not block the event loop
            if is_admitted:
                self._note_related()
                return item

    def _note_related(self) -> None:
        """Set `RELATED` for the callbacks of a message: streams of the SDK have the context of its sender."""
        sender: Context | None = getattr(self._stream, "last_context", None)
        related = None if sender is None else sender.get(_EXCHANGE)
        self.last_context = None
        if related is not None:
            self.last_context = copy_context()  # not that of the sender, which has the headers of the request
            self.last_context.run(RELATED.set, related)

    def _admits(self, item: SessionMessage | Exception) -> bool:
        if isinstance(item, Exception):
            return True
        message = item.message
        if isinstance(message, JSONRPCNotification):
            return self._admits_notification(message)
        if isinstance(message, JSONRPCRequest) and self._rates.take("requests"):
            return False
        _remove_own_members(message)
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self._callbacks.on_response(coerce_request_id(message.id))
        if isinstance(message, JSONRPCError) and _is_answer(message.error):
            message.error.data = _AnsweredData(message.error.data)
        return True

    def _admits_notification(self, message: JSONRPCNotification) -> bool:
        """Return whether the SDK reads a notification; it always reads those that a request waits for.

        It never reads an updated resource: it ends a stream of changes on which too many are waiting.
        """
        method = message.method
        if method == _UPDATED:
            uri: object = (message.params or {}).get("uri")
            if isinstance(uri, str):
                self._callbacks.on_update(uri)
            return False
        if method in _NEEDED or method.endswith("list_changed"):
            return True
        return not self._rates.take("progress" if method == _PROGRESS else "others")


def _remove_own_members(message: JSONRPCRequest | JSONRPCResponse | JSONRPCError) -> None:
    """Remove the members of each `_meta` in a message that only this product states."""
    found: object = message.result if isinstance(message, JSONRPCResponse) else None
    found = message.params if isinstance(message, JSONRPCRequest) else found
    rest: list[JsonObject | list[Json]] = [object_of(found)]
    while rest:
        value = rest.pop()
        inside: Iterable[Json] = value
        if isinstance(value, dict):
            meta = object_of(value.get("_meta"))
            for name in [each for each in meta if each.startswith(_OWN_PREFIX)]:
                del meta[name]
            inside = [each for name, each in value.items() if name not in _DATA]
        rest += [each for each in inside if isinstance(each, (dict, list))]


class InvalidResult(ValueError):
    """The server's result is not valid for the request; the message has the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCallbacks:
    """What a session calls when the server sends something on its own.

    Attributes:
        on_update: takes the URI of a resource.
        on_response: takes the id of a request to which the server has responded.
    """

    on_message: MessageHandlerFnT
    on_update: Callable[[str], None]
    on_response: Callable[[int | str], None]
    on_log: LoggingFnT
    elicit: ElicitationFnT | None = None
    sample: SamplingFnT | None = None
    list_roots: ListRootsFnT | None = None


@dataclass(slots=True, eq=False)
class McpSession:
    """One open session with a server.

    Attributes:
        client: the client of the SDK, which is connected.
        closed: is set at the end of the session.
        tools_valid_s: how long the last list of tools is valid; None if the server does not state it.
        refused_tools: the tools whose definitions in this session differ from the accepted ones.
    """

    client: Client
    closed: asyncio.Event
    _session_id: SessionId
    tools_valid_s: float | None = None
    refused_tools: frozenset[str] = frozenset()
    _ids: Iterator[int] = field(default_factory=lambda: count(FIRST_ID))
    _header_maps: dict[object, Mapping[tuple[str, ...], str]] = field(default_factory=dict)

    @property
    def session_id(self) -> str | None:
        """The id that the server gave to the session, if it did."""
        return self._session_id.value

    @property
    def protocol_version(self) -> str:
        """The negotiated revision."""
        return self.client.protocol_version

    @property
    def is_modern(self) -> bool:
        """Whether the revision has no handshake."""
        return self.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def server_name(self) -> str | None:
        """How the server calls itself."""
        info = self.client.server_info
        return None if info is None else info.name

    async def request(
        self,
        method: str,
        params: JsonObject,
        exchange: Exchange | None = None,
        on_progress: ProgressFnT | None = None,
    ) -> JsonObject:
        """Send a request, and return its result as the server sent it.

        Raises:
            MCPError: the server answered with an error, or the connection ended.
        """
        if self.closed.is_set():
            raise MCPError(CONNECTION_CLOSED, "Connection closed")
        exchange, members = exchange or Exchange(), {**params, "_meta": dict[str, object]()}
        options = self._stamp(method, members, exchange)
        exchange.request_id = options["request_id"] = next(self._ids)
        if on_progress is not None:
            options["on_progress"] = on_progress
        if exchange.on_sent is not None:
            exchange.on_sent(exchange.request_id)
        token = _EXCHANGE.set(exchange)
        try:
            dispatcher = self.client.session._dispatcher  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] -- as below
            return await dispatcher.send_raw_request(method, members, options)
        except asyncio.CancelledError:
            exchange.is_over = self.closed.is_set()
            raise
        finally:
            _EXCHANGE.reset(token)

    def _stamp(self, method: str, members: dict[str, Any], exchange: Exchange) -> CallOptions:
        """Add what the revision requires to the `_meta` of a request; return its options, with its headers."""
        options = CallOptions()
        self.client.session._stamp({"method": method, "params": members}, options)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] -- methods for requests check the result, which takes long
        headers = options["headers"] = {**options.get("headers", {}), **exchange.headers}
        if method == "tools/call":
            headers |= mcp_param_headers(self._header_maps.get(members["name"], {}), members["arguments"])
        if "taskId" in members:
            headers[MCP_NAME_HEADER] = encode_header_value(members["taskId"])
        meta, declared = members["_meta"], members["_meta"].get(CLIENT_CAPABILITIES_META_KEY)
        if declared is not None:
            meta[CLIENT_CAPABILITIES_META_KEY] = {
                name: each for name, each in declared.items() if name not in exchange.withheld
            }
            meta |= {} if exchange.log_level is None else {LOG_LEVEL_META_KEY: exchange.log_level}
        return options

    async def list_tools(self) -> list[JsonObject]:
        """Return the definitions of all tools, as the server sent them; an entry that is no object is left out.

        Raises:
            InvalidResult: the server sent no list, or too many pages.
        """
        found: list[JsonObject] = []
        cursor: str | None = None
        validity: list[float] = []
        for _ in range(MAX_PAGES):
            result = await self.request("tools/list", {} if cursor is None else {"cursor": cursor})
            following = result.get("nextCursor")
            if not isinstance(result.get("tools"), list):
                raise InvalidResult("its list has no 'tools'")
            page = objects_in(result["tools"])
            found += page
            if self.is_modern:
                self._header_maps |= {str(each.get("name")): x_mcp_header_map(each.get("inputSchema")) for each in page}
            ttl_ms = result.get("ttlMs") if self.is_modern else None
            validity += [ttl_ms / 1000] if isinstance(ttl_ms, int | float) else []
            self.tools_valid_s = min(validity, default=None)
            if not isinstance(following, str) or following == cursor:
                return found
            cursor = following
        raise InvalidResult(f"its list of tools has more than {MAX_PAGES} pages")


@dataclass(frozen=True, slots=True)
class _AnsweredData:
    """The data of an error that a server sent with the code that the SDK uses for lost connections."""

    data: object


def _is_answer(error: ErrorData) -> bool:
    """Return whether the server sent an error that has the code of lost connections, and no transport did."""
    is_fault = FAULT in object_of(cast("object", error.data))
    return error.code == CONNECTION_CLOSED and not is_fault and not error.message.startswith(_LOST_STREAM)


def data_of(error: MCPError) -> object:
    """Return the data of an error, as the server or the transport sent it."""
    data: object = error.data
    return data.data if isinstance(data, _AnsweredData) else data


def fault_of(error: MCPError) -> str | None:
    """Return the fault that the transport states in an error; None if the server sent the error."""
    data: object = error.data
    if isinstance(found := object_of(data).get(FAULT), str):
        return found
    is_lost = error.code == CONNECTION_CLOSED and not isinstance(data, _AnsweredData)
    return CONNECTION_LOST if is_lost else None


@asynccontextmanager
async def open_session(
    transport: Transport, callbacks: SessionCallbacks, session_id: SessionId, *, mode: str
) -> AsyncGenerator[McpSession]:
    """Connect to a server over a transport, and negotiate the revision.

    Raises:
        MCPError: the server rejects the connection.
    """
    closed = asyncio.Event()

    @asynccontextmanager
    async def limited() -> AsyncGenerator[MessageStreams]:
        async with transport as (reader, writer):
            yield LimitedReader(reader, closed, callbacks), writer

    client = Client(
        limited(),
        mode=mode,
        cache=None,
        client_info=Implementation(name="agenttool", version=version("agenttool")),
        message_handler=callbacks.on_message,
        logging_callback=callbacks.on_log,
        elicitation_callback=callbacks.elicit,
        sampling_callback=callbacks.sample,
        list_roots_callback=callbacks.list_roots,
        extensions=[advertise(each) for each in EXTENSIONS],
    )
    async with client:
        yield McpSession(client, closed, session_id)
