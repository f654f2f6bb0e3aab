"""Serve a runtime to MCP clients over streamable HTTP: one endpoint for all tools, and one for each profile.

The latest events of a session's streams are stored, so that a client of revision 2025-11-25 can resume a broken one.
"""

from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import JSONRPCMessage, JSONRPCResponse
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from agenttool.config.table import suggestion
from agenttool.mcp.callers import principal_in, session_owner
from agenttool.mcp.profiles import ALL_TOOLS, McpOptions, admits
from agenttool.mcp.server import RuntimeMcpServer
from agenttool.runtime import Runtime

__all__ = ["McpEndpoints", "McpOptions", "serve_http"]

MAX_BODY_BYTES = 20_000_000
"""The largest request body that is read."""

MAX_EVENTS = 200
MAX_CHARS = 8_000_000
"""How much of a session is stored; then the oldest events are dropped, and a stream cannot be resumed before them."""

RETRY_MS = 1_000
"""How long a client waits before it resumes a stream."""


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event of a stream; the first one of each stream has no message."""

    number: int
    stream: str
    message: JSONRPCMessage | None
    chars: int


class StreamEvents(EventStore):
    """The latest events of all streams of one session, in memory."""

    def __init__(self) -> None:
        """Start without events."""
        self._events: deque[StoredEvent] = deque()
        self._last = 0
        self._chars = 0

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Store an event and return its id."""
        self._last += 1
        event = StoredEvent(self._last, stream_id, message, _chars_in(message))
        self._events.append(event)
        self._chars += event.chars
        while len(self._events) > MAX_EVENTS or self._chars > MAX_CHARS:
            self._chars -= self._events.popleft().chars
        return str(event.number)

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

    @property
    def event_store(self) -> EventStore | None:
        """The store of the session that is opened now."""
        return StreamEvents()

    @event_store.setter
    def event_store(self, value: EventStore | None) -> None:
        """Ignore the store that the SDK sets for all sessions."""


def _chars_in(message: JSONRPCMessage | None) -> int:
    """Return about how many characters a message has."""
    return len(str(message.result)) if isinstance(message, JSONRPCResponse) else 1_000


class McpEndpoints:
    """The ASGI application of `/mcp` and `/mcp/NAME`; the application around it verifies tokens."""

    def __init__(self, profiles: Mapping[str, McpOptions], apps: Mapping[str, ASGIApp]) -> None:
        """Take the options and the application of each profile."""
        self._profiles = profiles
        self._apps = apps

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, if its caller may use the profile."""
        name = scope.get("path_params", {}).get("profile", ALL_TOOLS)
        try:
            principal = principal_in(scope)
        except PermissionError as error:
            await PlainTextResponse(str(error), HTTPStatus.FORBIDDEN)(scope, receive, send)
            return
        subject, options = None if principal is None else principal.subject, self._profiles.get(name)
        if options is None or not admits(options, self._profiles, subject):
            usable = [each for each, other in self._profiles.items() if admits(other, self._profiles, subject)]
            await _refusal(name, usable)(scope, receive, send)
            return
        # The parser leaves blanks at the end of a value, and the SDK compares values with the body.
        headers = [(each, value.strip(b" \t")) for each, value in scope["headers"]]
        await self._apps[name]({**scope, "headers": headers, "user": session_owner(principal)}, receive, send)


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
        for name, options in profiles.items():
            server = await stack.enter_async_context(RuntimeMcpServer.open(runtime, options))
            manager = ResumableSessions(server.lowlevel, max_request_body_size=MAX_BODY_BYTES, retry_interval=RETRY_MS)
            await stack.enter_async_context(manager.run())
            apps[name] = manager.handle_request
        yield McpEndpoints(profiles, apps)
