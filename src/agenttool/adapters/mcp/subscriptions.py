"""The resources of one connection that callers subscribed to; each new session of the connection subscribes again."""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import SubscribeRequest, UnsubscribeRequest

from agenttool.adapters.mcp.session import InvalidResult, McpSession
from agenttool.errors import words_of
from agenttool.ports.resources import Unsubscribe

CONFIRM_S = 5.0
"""How long a subscription waits until the server has confirmed it."""

MAX_STREAMS = 100
"""How many resources of a server of 2026-07-28 can be subscribed to; each is a stream, over HTTP a connection."""

FIRST_DELAY_S, MAX_DELAY_S = 1.0, 60.0
"""The first and the longest delay before a stream that ended is opened again."""

_MAX_DOUBLINGS = 6


def reports_changes(session: McpSession) -> bool:
    """Return whether a server reports changes of its resources."""
    resources = session.client.server_capabilities.resources
    return resources is not None and bool(resources.subscribe)


def retry_delay(failures: int) -> float:
    """Return a delay with jitter, so that many connections are not tried at the same time."""
    longest = min(FIRST_DELAY_S * 2 ** min(failures - 1, _MAX_DOUBLINGS), MAX_DELAY_S)
    return random.uniform(longest / 2, longest)  # noqa: S311 -- jitter, not a secret


@dataclass(slots=True, eq=False)
class ResourceSubscription:
    """A resource that callers subscribed to.

    Attributes:
        confirmed: done once the server has replied; whether it reports changes of this resource.
        watchers: are called after each change.
        ended: is set once there is no watcher any more.
    """

    uri: str
    confirmed: "asyncio.Future[bool]"
    watchers: dict[object, Callable[[], None]] = field(default_factory=dict[object, Callable[[], None]])
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def confirm(self, reply: "bool | Exception", /) -> None:
        """Store the first reply of the server."""
        if self.confirmed.done():
            return
        if isinstance(reply, bool):
            self.confirmed.set_result(reply)
        else:
            self.confirmed.set_exception(reply)
            self.confirmed.exception()  # marks it as retrieved: the caller may be gone


class ResourceSubscriptions:
    """Delivers the changes of resources to the callers that subscribed to them through one connection."""

    def __init__(self) -> None:
        """Start without subscriptions."""
        self._by_uri: dict[str, ResourceSubscription] = {}
        self._added = asyncio.Event()

    def __len__(self) -> int:
        """Return to how many resources callers subscribed."""
        return len(self._by_uri)

    async def add(self, session: McpSession, uri: str, changed: Callable[[], None]) -> Unsubscribe | None:
        """Call a function after each change of a resource, until the returned function is called.

        Returns None if the server does not report changes of the resource.

        Raises:
            InvalidResult: the server does not confirm the subscription in time, or there are too many.
            MCPError: the server refused it.
        """
        if not reports_changes(session):
            return None
        found = self._by_uri.get(uri)
        if found is None:
            if session.is_modern and len(self._by_uri) >= MAX_STREAMS:
                raise InvalidResult(f"callers subscribed to {MAX_STREAMS} of its resources, which is the limit")
            found = self._by_uri[uri] = ResourceSubscription(uri, asyncio.get_running_loop().create_future())
            self._added.set()
        watcher, is_confirmed = object(), False
        found.watchers[watcher] = changed
        try:
            async with asyncio.timeout(CONFIRM_S):
                is_confirmed = await asyncio.shield(found.confirmed)
        except TimeoutError:
            raise InvalidResult(f"it has not confirmed the subscription after {CONFIRM_S:g} s") from None
        finally:
            if not is_confirmed:
                self._remove(found, watcher)
        return (lambda: self._remove(found, watcher)) if is_confirmed else None

    def _remove(self, found: ResourceSubscription, watcher: object) -> None:
        found.watchers.pop(watcher, None)
        if not found.watchers:
            found.ended.set()
            if self._by_uri.get(found.uri) is found:
                del self._by_uri[found.uri]

    def deliver(self, uri: str) -> None:
        """Call the watchers of a resource; a server may report changes of others, which are ignored."""
        found = self._by_uri.get(uri)
        for each in () if found is None else tuple(found.watchers.values()):
            each()

    async def run(self, session: McpSession) -> None:
        """Subscribe to all resources at the server, each in its own task: one may never be confirmed."""
        held: set[ResourceSubscription] = set()
        async with anyio.create_task_group() as tasks:
            while True:
                self._added.clear()
                held.intersection_update(self._by_uri.values())
                for each in self._by_uri.values():
                    if each not in held:
                        held.add(each)
                        tasks.start_soon(self._hold, session, each)
                await self._added.wait()

    async def _hold(self, session: McpSession, found: ResourceSubscription) -> None:
        """Subscribe to a resource until it has no watcher any more."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_listen if session.is_modern else _subscribe, session, found)
            await found.ended.wait()
            tasks.cancel_scope.cancel()
        if not session.is_modern and found.uri not in self._by_uri:
            with suppress(MCPError, InvalidResult), anyio.move_on_after(CONFIRM_S):
                await session.request(UnsubscribeRequest.model_validate({"params": {"uri": found.uri}}))


async def _subscribe(session: McpSession, found: ResourceSubscription) -> None:
    """Subscribe to a resource at a server of a revision up to 2025-11-25."""
    try:
        await session.request(SubscribeRequest.model_validate({"params": {"uri": found.uri}}))
        found.confirm(True)  # noqa: FBT003 -- the reply
    except (MCPError, InvalidResult) as error:
        found.confirm(error)


async def _listen(session: McpSession, found: ResourceSubscription) -> None:
    """Subscribe to a resource at a server of 2026-07-28, and again after its stream ended."""
    for failures in count(1):
        try:
            async with session.client.listen(resource_subscriptions=[found.uri]) as changes:
                found.confirm(found.uri in (changes.honored.resource_subscriptions or ()))
                async for _ in changes:  # `on_message` gets each as a notification, too
                    pass
        except MCPError as error:
            found.confirm(error)
        except Exception as error:  # noqa: BLE001 -- whatever ended the stream
            found.confirm(InvalidResult(f"the stream of changes ended: {words_of(error)}"))
        await asyncio.sleep(retry_delay(failures))
