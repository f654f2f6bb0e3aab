"""One open MCP session: requests with their native ids and unchanged results, and limits on what a server may send.

The SDK validates messages, and drops members that it does not know. So the streams between it and the transport record
the id and the raw result of each request.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib.metadata import version
from types import TracebackType
from typing import Any, Self, cast  # noqa: TID251 -- the type parameters of the SDK's requests

from mcp.client import advertise
from mcp.client.client import Client
from mcp.client.session import ElicitationFnT, ListRootsFnT, LoggingFnT, MessageHandlerFnT, SamplingFnT
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.dispatcher import ProgressFnT, coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    ClientRequest,
    Implementation,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    PaginatedRequestParams,
    Request,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from agenttool.records import JsonObject

MessageStreams = tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]
"""Where messages of a server are read, and where messages to it are written."""

Transport = AbstractAsyncContextManager[MessageStreams]
"""Opens the streams to a server, and closes them."""

FAULT = "agenttool.fault"
"""The member of an error's data by which a transport states a fault of its own; the values follow."""

TOO_LARGE, BUSY, NOT_CONNECTED, CONNECTION_LOST = "too_large", "busy", "not_connected", "connection_lost"
UNAUTHORIZED, REFUSED, INVALID, UNKNOWN_SESSION = "unauthorized", "refused", "invalid", "unknown_session"

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
EXTENSIONS = (TASKS_EXTENSION,)
"""The extensions of the protocol that this client supports."""

MAX_PAGES = 1000
"""How many pages of a list are read."""

BURST, PER_SECOND = 200, 50.0
"""How many notifications of progress are read at once, and in each second, and as many others; others are dropped."""

_UPDATED, _PROGRESS = "notifications/resources/updated", "notifications/progress"
_NEEDED = ("notifications/cancelled", "notifications/subscriptions/acknowledged", "notifications/elicitation/complete")


class _AnyResult(BaseModel):
    """A result whose members are read from the raw message instead."""


@dataclass(slots=True, eq=False)
class SessionId:
    """The id that a server gave to a session in its HTTP headers; None if it has none."""

    value: str | None = None


@dataclass(slots=True, eq=False)
class Exchange:
    """One request and its response.

    Attributes:
        request_id: its JSON-RPC id, once it is sent.
        result: the result as the server sent it.
        headers: what the request carries besides the usual headers, if it is sent over HTTP.
        on_sent: is called with the id just before the request is sent.
        is_raw: whether only the result as it was sent is used. The SDK then does not check it, which takes long if it
            is large.
    """

    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    on_sent: Callable[[int | str], None] | None = None
    request_id: int | str | None = None
    result: JsonObject | None = None
    is_raw: bool = False


_EXCHANGE: ContextVar[Exchange | None] = ContextVar("agenttool_mcp_exchange", default=None)


class NotificationLimit:
    """A token bucket for notifications, so that a flood costs no memory and little time."""

    def __init__(self) -> None:
        """Start full."""
        self._tokens, self._at = float(BURST), time.monotonic()

    def admits(self) -> bool:
        """Return whether one more notification is read."""
        now = time.monotonic()
        self._tokens, self._at = min(self._tokens + (now - self._at) * PER_SECOND, BURST), now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class _StreamContext:
    """The parts that the reader and the writer share."""

    def __init__(self, stream: ReadStream[SessionMessage | Exception] | WriteStream[SessionMessage]) -> None:
        self._closable = stream

    async def aclose(self) -> None:
        await self._closable.aclose()

    async def __aenter__(self) -> Self:
        await self._closable.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        return await self._closable.__aexit__(exc_type, exc_val, exc_tb)


class RecordingReader(_StreamContext):
    """Records raw results, limits notifications, and reports updated resources and the end of the stream."""

    def __init__(
        self,
        stream: ReadStream[SessionMessage | Exception],
        open_: dict[int | str, Exchange],
        closed: asyncio.Event,
        on_update: Callable[[str], None],
    ) -> None:
        """Take the stream of a transport."""
        super().__init__(stream)
        self._stream = stream
        self._open = open_
        self._closed = closed
        self._on_update = on_update
        self._progress, self._others = NotificationLimit(), NotificationLimit()

    def __aiter__(self) -> "ReadStream[SessionMessage | Exception]":
        """Return itself."""
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        """Return the next message."""
        while True:
            try:
                item = await self._stream.__anext__()
            except BaseException:
                self._closed.set()
                raise
            if self._admits(item):
                return item
            await asyncio.sleep(0)  # a flood must not block the event loop

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        return await self.__anext__()

    def _admits(self, item: SessionMessage | Exception) -> bool:
        if isinstance(item, Exception):
            return True
        message = item.message
        if isinstance(message, JSONRPCNotification):
            return self._admits_notification(message)
        if isinstance(message, JSONRPCResponse):
            exchange = self._open.pop(coerce_request_id(message.id), None)
            if exchange is not None:
                exchange.result = cast("JsonObject", message.result)
                if exchange.is_raw:
                    message.result = {}
        return True

    def _admits_notification(self, message: JSONRPCNotification) -> bool:
        """Return whether the SDK reads a notification; it always reads those that a request waits for.

        It never reads an updated resource: it ends a stream of changes on which too many are waiting.
        """
        method = message.method
        if method == _UPDATED:
            uri: object = (message.params or {}).get("uri")
            if isinstance(uri, str):
                self._on_update(uri)
            return False
        if method in _NEEDED or method.endswith("list_changed"):
            return True
        return (self._progress if method == _PROGRESS else self._others).admits()


class RecordingWriter(_StreamContext):
    """Records the ids of requests, and adds the headers of a call."""

    def __init__(self, stream: WriteStream[SessionMessage], open_: dict[int | str, Exchange]) -> None:
        """Take the stream of a transport."""
        super().__init__(stream)
        self._stream = stream
        self._open = open_

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message."""
        exchange = _EXCHANGE.get()
        if exchange is not None and isinstance(item.message, JSONRPCRequest):
            exchange.request_id = item.message.id
            self._open[item.message.id] = exchange
            if exchange.headers:
                metadata = item.metadata if isinstance(item.metadata, ClientMessageMetadata) else None
                item.metadata = metadata or ClientMessageMetadata()
                item.metadata.headers = {**(item.metadata.headers or {}), **exchange.headers}
            if exchange.on_sent is not None:
                exchange.on_sent(item.message.id)
        await self._stream.send(item)

    def forget(self, exchange: Exchange) -> None:
        """Stop waiting for the result of a request."""
        if exchange.request_id is not None:
            self._open.pop(exchange.request_id, None)


class InvalidResult(ValueError):
    """The server's result is not valid for the request; the message has the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCallbacks:
    """What a session calls when the server sends something on its own; `on_update` gets the URI of a resource."""

    on_message: MessageHandlerFnT
    on_update: Callable[[str], None]
    on_log: LoggingFnT
    elicit: ElicitationFnT | None = None
    sample: SamplingFnT | None = None
    list_roots: ListRootsFnT | None = None


class McpSession:
    """One open session with a server."""

    def __init__(self, client: Client, writer: RecordingWriter, closed: asyncio.Event, session_id: SessionId) -> None:
        """Take a client that is connected; `open_session` does so.

        Attributes:
            tools_valid_s: for how long the list of tools is valid that was read last; None if the server does not say.
            refused_tools: the tools that this session defines otherwise than they were accepted.
        """
        self.client = client
        self._writer = writer
        self.closed = closed
        self._session_id = session_id
        self.tools_valid_s: float | None = None
        self.refused_tools: frozenset[str] = frozenset()

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
        request: ClientRequest | Request[Any, Any],
        exchange: Exchange | None = None,
        on_progress: ProgressFnT | None = None,
    ) -> JsonObject:
        """Send a request, and return its result as the server sent it.

        Raises:
            MCPError: the server answered with an error, or the connection ended.
            InvalidResult: the result is not an object.
        """
        exchange = exchange or Exchange()
        exchange.result, exchange.is_raw = None, True
        with self._recording(exchange):
            await self.client.session.send_request(request, _AnyResult, progress_callback=on_progress)
        return exchange.result or {}

    @contextmanager
    def _recording(self, exchange: Exchange) -> Generator[None]:
        """Record the id and the raw result of the request that the block sends.

        Raises:
            InvalidResult: the SDK rejects the response, and there is no raw result.
        """
        token = _EXCHANGE.set(exchange)
        try:
            yield
        except ValidationError as error:
            if exchange.result is None:
                raise InvalidResult(_first_fault(error)) from error
        finally:
            _EXCHANGE.reset(token)
            self._writer.forget(exchange)

    async def list_tools(self) -> list[JsonObject]:
        """Return the definitions of all tools, as the server sent them; an entry that is no object is left out.

        Raises:
            InvalidResult: the server sent no list, or too many pages.
        """
        found: list[JsonObject] = []
        cursor: str | None = None
        validity: list[float] = []
        for _ in range(MAX_PAGES):
            exchange = Exchange()
            with self._recording(exchange):  # an invalid entry does not invalidate the others
                await self.client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
            result = exchange.result or {}
            tools, following = result.get("tools"), result.get("nextCursor")
            if not isinstance(tools, list):
                raise InvalidResult("its list has no 'tools'")
            found += [each for each in tools if isinstance(each, dict)]
            ttl_ms = result.get("ttlMs") if self.is_modern else None
            validity += [ttl_ms / 1000] if isinstance(ttl_ms, int | float) else []
            self.tools_valid_s = min(validity, default=None)
            if not isinstance(following, str) or following == cursor:
                return found
            cursor = following
        raise InvalidResult(f"its list of tools has more than {MAX_PAGES} pages")


def fault_of(error: MCPError) -> str | None:
    """Return the fault that the transport states in an error; None if the server sent the error."""
    data: object = error.data
    found = cast("dict[str, object]", data).get(FAULT) if isinstance(data, dict) else None
    if isinstance(found, str):
        return found
    return CONNECTION_LOST if error.code == CONNECTION_CLOSED else None


def _first_fault(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place or 'the result'}: {first['msg']}"


@asynccontextmanager
async def open_session(
    transport: Transport, callbacks: SessionCallbacks, session_id: SessionId, *, mode: str
) -> AsyncGenerator[McpSession]:
    """Connect to a server over a transport, and negotiate the revision.

    Raises:
        MCPError: the server rejects the connection.
    """
    open_: dict[int | str, Exchange] = {}
    closed = asyncio.Event()
    writers: list[RecordingWriter] = []

    @asynccontextmanager
    async def recorded() -> AsyncGenerator[MessageStreams]:
        async with transport as (reader, writer):
            writers.append(RecordingWriter(writer, open_))
            yield RecordingReader(reader, open_, closed, callbacks.on_update), writers[0]

    client = Client(
        recorded(),
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
        yield McpSession(client, writers[0], closed, session_id)
