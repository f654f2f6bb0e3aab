"""Serve a runtime to MCP clients over streamable HTTP: one endpoint for all tools, and one for each profile.

The latest events of a session's streams are stored, so that a client of revision 2025-11-25 can resume a broken one.
"""

from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import NamedTuple
from weakref import WeakSet

from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore, StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import JSONRPCMessage
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agenttool.config.table import suggestion
from agenttool.http.request_body import read_body
from agenttool.mcp.callers import principal_in, session_owner
from agenttool.mcp.profiles import ALL_TOOLS, McpOptions, admits
from agenttool.mcp.server import RuntimeMcpServer
from agenttool.ports.quota import PER_CALLER
from agenttool.runtime import Runtime

__all__ = ["McpEndpoints", "McpOptions", "serve_http"]

MAX_BODY_BYTES = 20_000_000
"""The largest request body that is read."""

SMALL_BODY_BYTES = 1_000_000
"""The largest body with any number of values."""

MAX_VALUES = 100_000
"""About how many values a larger body may have.

The SDK parses bodies in the event loop. 20 MB of numbers would block it for a second; images do not.
"""

MAX_EVENTS = 200
MAX_CHARS = 8_000_000
"""How much of a session is stored; then the oldest events are dropped, and a stream cannot be resumed before them."""

RETRY_MS = 1_000
"""How long a client waits before it resumes a stream."""


class StoredEvent(NamedTuple):
    """An event of a stream; the first one of each stream has no message."""

    number: int
    stream: str
    message: JSONRPCMessage | None
    chars: int


class StreamEvents(EventStore):
    """The latest events of all streams of one session, in memory.

    Attributes:
        caller: the caller that opened the session.
        of_caller: the events of all sessions of the caller.
        chars: about how many characters the events have.
    """

    def __init__(self, caller: AuthorizationContext | None, others: "WeakSet[StreamEvents]") -> None:
        """Take the caller of the session, and the events of all sessions; start without events."""
        found = (each.of_caller for each in others if each.caller == caller)
        self.caller, self.of_caller = caller, next(found, WeakSet[StreamEvents]())
        self.of_caller.add(self)
        others.add(self)
        self.chars = 0
        self._events: deque[StoredEvent] = deque()
        self._last = 0

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Store an event and return its id; beyond the limits, the oldest one of the largest session is dropped."""
        self._last += 1
        event = StoredEvent(self._last, stream_id, message, 0 if message is None else len(str(message)))
        self._events.append(event)
        self.chars += event.chars
        while len(self._events) > MAX_EVENTS or self.chars > MAX_CHARS:
            self.drop_oldest()
        while sum(each.chars for each in self.of_caller) > PER_CALLER["characters of MCP events"]:
            max(self.of_caller, key=lambda each: each.chars).drop_oldest()
        return str(event.number)

    def drop_oldest(self) -> None:
        """Drop one event."""
        self.chars -= self._events.popleft().chars

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send the events of a stream after one of them, and return the stream; None if that one is not stored."""
        found = next((each for each in self._events if str(each.number) == last_event_id), None)
        if found is None:
            return None
        for event in tuple(self._events):
            if event.number > found.number and event.stream == found.stream and event.message is not None:
                await send_callback(EventMessage(event.message, str(event.number)))
        return found.stream


class ResumableSessions(StreamableHTTPSessionManager):
    """The session manager of the SDK, with events for each session.

    The SDK names streams by the ids of requests, which repeat. One store for all sessions would mix them up.
    """

    _stored: WeakSet[StreamEvents]
    _opening: AuthorizationContext | None = None

    def share_limit(self, stored: WeakSet[StreamEvents]) -> None:
        """Take the events of all profiles, which have one limit for each caller."""
        self._stored = stored

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        """Register a new session; None, which the SDK answers with 503, if its caller has too many."""
        if requestor is not None:
            count = sum(each == requestor for each in self._session_owners.values())
            if count >= PER_CALLER["MCP sessions"]:
                return None
        self._opening = requestor
        return super()._admit_session(requestor)

    @property
    def event_store(self) -> EventStore | None:
        """The store of the session that is opened now."""
        return StreamEvents(self._opening, self._stored)

    @event_store.setter
    def event_store(self, value: EventStore | None) -> None:
        """Ignore the store that the SDK sets for all sessions."""


@dataclass(frozen=True, slots=True)
class McpEndpoints:
    """The ASGI application of `/mcp` and `/mcp/NAME`; the application around it verifies tokens.

    Attributes:
        profiles: the options of each profile.
        apps: the application of each profile.
    """

    profiles: Mapping[str, McpOptions]
    apps: Mapping[str, ASGIApp]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, if its caller may use the profile."""
        name = scope.get("path_params", {}).get("profile", ALL_TOOLS)
        try:
            principal = principal_in(scope)
        except PermissionError as error:
            await PlainTextResponse(str(error), HTTPStatus.FORBIDDEN)(scope, receive, send)
            return
        subject, options = None if principal is None else principal.subject, self.profiles.get(name)
        if options is None or not admits(options, self.profiles, subject):
            usable = [each for each, other in self.profiles.items() if admits(other, self.profiles, subject)]
            await _refusal(name, usable)(scope, receive, send)
            return
        if scope["method"] == "POST":
            try:
                receive = await _read_first(scope, receive)
            except HTTPException as error:
                await PlainTextResponse(error.detail, error.status_code)(scope, receive, send)
                return
        # The parser leaves blanks at the end of a value, and the SDK compares values with the body.
        headers = [(each, value.strip(b" \t")) for each, value in scope["headers"]]
        await self.apps[name]({**scope, "headers": headers, "user": session_owner(principal)}, receive, send)


async def _read_first(scope: Scope, receive: Receive) -> Receive:
    """Read the body of a request, and return a function that delivers it again.

    Raises:
        HTTPException: it is too large, or has too many values.
    """
    body = await read_body(Headers(scope=scope), receive, MAX_BODY_BYTES)
    if len(body) > SMALL_BODY_BYTES and body.count(b",") + body.count(b":") > MAX_VALUES:
        detail = (
            f"a body above {SMALL_BODY_BYTES} bytes may have {MAX_VALUES} values; send fewer, or make several calls"
        )
        raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


def _refusal(name: str, usable: list[str]) -> PlainTextResponse:
    """Return the reply for a profile that does not exist, or that the caller may not use; it does not say which."""
    paths = {each: f"/mcp/{each}" if each else "/mcp" for each in usable}
    if not paths:
        message = "this token may use no profile; add its subject to a table [mcp.NAME]"
        return PlainTextResponse(message, HTTPStatus.FORBIDDEN)
    what = f"there is no profile {name!r} for this caller" if name else "this caller may use profiles only, not /mcp"
    return PlainTextResponse(f"{what}; {suggestion(f'/mcp/{name}', paths.values())}", HTTPStatus.NOT_FOUND)


@asynccontextmanager
async def serve_http(runtime: Runtime, profiles: Mapping[str, McpOptions]) -> AsyncGenerator[McpEndpoints]:
    """Yield the application of a runtime that the caller has entered; leaving it ends all sessions.

    Raises:
        StoreError: the store cannot be used.
    """
    async with AsyncExitStack() as stack:
        apps: dict[str, ASGIApp] = {}
        stored = WeakSet[StreamEvents]()
        for name, options in profiles.items():
            server = await stack.enter_async_context(RuntimeMcpServer.open(runtime, options))
            manager = ResumableSessions(server.lowlevel, max_request_body_size=MAX_BODY_BYTES, retry_interval=RETRY_MS)
            manager.share_limit(stored)
            await stack.enter_async_context(manager.run())
            apps[name] = manager.handle_request
        yield McpEndpoints(profiles, apps)
