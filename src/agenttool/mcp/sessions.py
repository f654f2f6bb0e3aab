"""The clients of a server that are notified of changes: sessions of older revisions, and subscribers of newer ones."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourcesListChanged,
    ServerEvent,
    SubscriptionBus,
    ToolsListChanged,
)
from starlette.datastructures import Headers

from agenttool.mcp.exchange import RequestContext, is_stateless
from agenttool.ports.resources import OfferKind, Unsubscribe

MAX_SESSIONS = 10_000
"""The most sessions that are notified; beyond it the oldest is dropped."""

MAX_LOADED = 50
"""The most tools that a session loads; beyond it the oldest are not listed any more, and can still be called."""

log = logging.getLogger("agenttool.mcp")


@dataclass(slots=True, eq=False)
class ClientSession:
    """One session of an older revision.

    Attributes:
        channel: sends notifications to the client.
        log_level: the lowest level of log messages that it wants.
        subscriptions: the resources that it subscribed to, and how each subscription ends.
        loaded: the tools that its searches found, the latest last; its list shows them.
        is_ended: whether the client has left.
    """

    channel: ServerSession
    log_level: str = "info"
    subscriptions: dict[str, Unsubscribe] = field(default_factory=dict[str, Unsubscribe])
    loaded: tuple[str, ...] = ()
    is_ended: bool = False

    def unsubscribe(self, *uris: str) -> None:
        """End the subscriptions to resources; those that do not exist are ignored."""
        for each in uris:
            self.subscriptions.pop(each, lambda: None)()

    async def load(self, names: Iterable[str]) -> None:
        """Show tools in the list of this session, and notify its client if it changes."""
        found = dict.fromkeys(names)
        before, others = self.loaded, (each for each in self.loaded if each not in found)
        self.loaded = (*others, *found)[-MAX_LOADED:]
        if set(before) != set(self.loaded):
            await self.channel.send_notification(types.ToolListChangedNotification())


def call_at_end(session: ServerSession, ended: Callable[[], None]) -> None:
    """Call a function when a session ends.

    The SDK has no public way: a handler gets the session, and only its private connection notices the end.

    Raises:
        TypeError: the SDK has changed.
    """
    connection = getattr(session, "_connection", None)
    if not isinstance(connection, Connection):
        raise TypeError("the MCP SDK has no `ServerSession._connection` any more; find another way to notice the end")
    connection.exit_stack.callback(ended)


class ClientSessions:
    """Notifies clients of changes: on their sessions, or on the streams of `subscriptions/listen`.

    Attributes:
        bus: carries changes to the streams.
    """

    def __init__(self) -> None:
        """Start without clients."""
        self.bus = InMemorySubscriptionBus()
        self._sessions: OrderedDict[str, ClientSession] = OrderedDict()

    def of(self, context: RequestContext) -> ClientSession | None:
        """Return the session of a request, registered if it is new; None on a revision without sessions."""
        if is_stateless(context):
            return None
        headers: object = getattr(context.request, "headers", None)  # on stdio there is no request
        key = headers.get("mcp-session-id", "") if isinstance(headers, Headers) else ""
        found = self._sessions.get(key)
        if found is None:
            found = self._sessions[key] = ClientSession(context.session)
            call_at_end(context.session, lambda: self._drop(key))
            if len(self._sessions) > MAX_SESSIONS:
                self._drop(next(iter(self._sessions)))
        return found

    def log_level(self, context: RequestContext) -> str | None:
        """Return the log level of a session; None on a revision in which each request states it."""
        session = self.of(context)
        return None if session is None else session.log_level

    async def tools_changed(self) -> None:
        """Notify all clients that the list of tools has changed."""
        await self._publish(ToolsListChanged(), types.ToolListChangedNotification())

    async def list_changed(self, kind: OfferKind) -> None:
        """Notify all clients that a list of resources or prompts has changed."""
        if kind is OfferKind.PROMPTS:
            await self._publish(PromptsListChanged(), types.PromptListChangedNotification())
        else:
            await self._publish(ResourcesListChanged(), types.ResourceListChangedNotification())

    async def _publish(self, event: ServerEvent, notification: types.ServerNotification) -> None:
        await self.bus.publish(event)
        for key, session in tuple(self._sessions.items()):
            try:
                await session.channel.send_notification(notification)
            except Exception:  # noqa: BLE001 -- whatever ended the session
                log.debug("session %r is gone", key)
                self._drop(key)

    def _drop(self, key: str) -> None:
        dropped = self._sessions.pop(key, None)
        if dropped is not None:
            dropped.is_ended = True
            dropped.unsubscribe(*tuple(dropped.subscriptions))


class ListenStream:
    """The bus of one stream of `subscriptions/listen`: the lists of all clients, and resources of its own."""

    def __init__(self, lists: SubscriptionBus) -> None:
        """Take the bus that carries changed lists."""
        self._lists = lists
        self._listener: Callable[[ServerEvent], None] | None = None

    async def publish(self, event: ServerEvent) -> None:
        """Deliver an event to this stream."""
        if self._listener is not None:
            self._listener(event)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Deliver events to the listener until the returned function is called."""
        self._listener = listener
        return self._lists.subscribe(listener)
