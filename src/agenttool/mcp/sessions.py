"""The clients of a server that are notified of changes: sessions of older revisions, and subscribers of newer ones."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
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

MAX_LOADED = 50
"""The most tools that a session loads; beyond it the oldest are not listed any more, and can still be called."""

log = logging.getLogger("agenttool.mcp")

TOOLS = "tools"

ListName = OfferKind | Literal["tools"]
"""A list that clients read, and are notified of when it changes."""

Notice = Callable[[], Awaitable[None]]
"""Notifies a client, or all of them."""

_RESOURCES = ResourcesListChanged(), types.ResourceListChangedNotification()
_CHANGES: Mapping[ListName, tuple[ServerEvent, types.ServerNotification]] = {
    TOOLS: (ToolsListChanged(), types.ToolListChangedNotification()),
    OfferKind.PROMPTS: (PromptsListChanged(), types.PromptListChangedNotification()),
    OfferKind.RESOURCES: _RESOURCES,
    OfferKind.TEMPLATES: _RESOURCES,
}


class NotifyingServer(Server[dict[str, object]]):
    """The server of the SDK; it declares to clients of older revisions that it notifies them of changes."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, object]] | None = None,
        extensions: dict[str, dict[str, object]] | None = None,
    ) -> InitializationOptions:
        """Return the reply to the handshake."""
        all_changes = NotificationOptions(tools_changed=True, resources_changed=True, prompts_changed=True)
        return super().create_initialization_options(
            notification_options or all_changes, experimental_capabilities, extensions
        )


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
    subscriptions: dict[str, Unsubscribe] = field(default_factory=dict)
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
        self._sessions: dict[str, ClientSession] = {}

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
        return found

    def log_level(self, context: RequestContext) -> str | None:
        """Return the log level of a session; None on a revision in which each request states it."""
        session = self.of(context)
        return None if session is None else session.log_level

    def notices(self, changed: ListName) -> Iterator[tuple[object, Notice]]:
        """Yield the notices that a list has changed, each with its key: one for all streams, and one for each session.

        Sessions have separate notices, because a client may not read its own.
        """
        event, notification = _CHANGES[changed]
        yield event, partial(self.bus.publish, event)
        for key in self._sessions:
            yield (event, key), partial(self._notify, key, notification)

    async def _notify(self, key: str, notification: types.ServerNotification) -> None:
        session = self._sessions.get(key)
        if session is None:
            return
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
