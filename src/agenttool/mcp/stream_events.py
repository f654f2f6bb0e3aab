"""The latest events of a session's streams, so that a client of revision 2025-11-25 can resume a broken one."""

from collections import deque
from dataclasses import dataclass

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import JSONRPCMessage, JSONRPCResponse

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
