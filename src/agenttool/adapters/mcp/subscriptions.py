"""The resources of one connection that callers subscribed to; each new session of the connection subscribes again."""

import asyncio
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup, TaskStatus
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError

from agenttool.adapters.mcp.session import InvalidResult, McpSession, fault_of
from agenttool.errors import words_of
from agenttool.ports.resources import Unsubscribe

CONFIRM_S = 5.0
"""How long a server may take to confirm subscriptions. A caller waits twice as long, because others may be first."""

MAX_RESOURCES = 10_000
"""To how many resources of one server all callers together can subscribe."""

PAUSE_S = 0.1
"""The shortest time between two reports of the same changed resource; all changes in between are one."""

FIRST_DELAY_S, MAX_DELAY_S = 1.0, 60.0
"""The first and the longest delay before a stream that ended is opened again."""

_NOT_CONFIRMED = "it has not confirmed the subscription after {:g} s"
_MAX_DOUBLINGS = 6
_MAX_PARENT_CHARS = 2_000
_SEPARATOR = re.compile("[/#]")


def reports_changes(session: McpSession) -> bool:
    """Return whether a server reports changes of its resources."""
    resources = session.client.server_capabilities.resources
    return resources is not None and bool(resources.subscribe)


def _with_parents(uri: str) -> Iterator[str]:
    """Return a URI and those that it may be a sub-resource of: its beginnings, up to and including a separator."""
    yield uri
    for found in _SEPARATOR.finditer(uri, 0, _MAX_PARENT_CHARS):
        yield uri[: found.start()]
        yield uri[: found.end()]


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
    watchers: dict[object, Callable[[], None]] = field(default_factory=dict)
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


@dataclass(slots=True, eq=False)
class ChangeStream:
    """A stream of a server of 2026-07-28: the resources whose changes it reports, and the scope that closes it."""

    uris: frozenset[str]
    scope: anyio.CancelScope
    is_ended: bool = False


class ResourceSubscriptions:
    """Delivers the changes of resources to the callers that subscribed to them through one connection.

    A changed resource is marked until it is delivered, so that a burst of changes is neither lost nor costs memory.
    """

    def __init__(self) -> None:
        """Start without subscriptions."""
        self._by_uri: dict[str, ResourceSubscription] = {}
        self._resubscribe = asyncio.Event()
        self._updated: dict[ResourceSubscription, None] = {}
        self._deliver = asyncio.Event()

    def __len__(self) -> int:
        """Return to how many resources callers subscribed."""
        return len(self._by_uri)

    async def add(self, session: McpSession, uri: str, changed: Callable[[], None]) -> Unsubscribe | None:
        """Call a function after changes of a resource or its sub-resources, until the returned function is called.

        Returns None if the server does not report changes of the resource.

        Raises:
            InvalidResult: the server does not confirm the subscription in time, or there are too many.
            MCPError: the server refused it.
        """
        if not reports_changes(session):
            return None
        found = self._by_uri.get(uri)
        if found is None:
            if len(self._by_uri) >= MAX_RESOURCES:
                raise InvalidResult(f"callers subscribed to {MAX_RESOURCES} of its resources, which is the limit")
            found = self._by_uri[uri] = ResourceSubscription(uri, asyncio.get_running_loop().create_future())
            self._resubscribe.set()
        watcher, is_confirmed = object(), False
        found.watchers[watcher] = changed
        try:
            async with asyncio.timeout(2 * CONFIRM_S):
                is_confirmed = await asyncio.shield(found.confirmed)
        except TimeoutError:
            raise InvalidResult(_NOT_CONFIRMED.format(2 * CONFIRM_S)) from None
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
                self._resubscribe.set()

    def note_update(self, uri: str) -> None:
        """Mark the subscriptions to a changed resource, and to resources that it may be a sub-resource of."""
        for each in _with_parents(uri):
            found = self._by_uri.get(each)
            if found is not None:
                self._mark(found)

    def _mark(self, found: ResourceSubscription) -> None:
        self._updated[found] = None
        self._deliver.set()

    async def run(self, session: McpSession) -> None:
        """Subscribe at the server, and deliver what it reports, until the task is canceled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._deliver_updates)
            await (self._keep_stream if session.is_modern else self._subscribe_each)(session, tasks)

    async def _deliver_updates(self) -> None:
        while True:
            await self._deliver.wait()
            self._deliver.clear()
            updated, self._updated = self._updated, {}
            for found in updated:
                for each in tuple(found.watchers.values()):
                    each()
            await asyncio.sleep(PAUSE_S)

    async def _subscribe_each(self, session: McpSession, tasks: TaskGroup) -> None:
        """Subscribe at a server of a revision up to 2025-11-25, by a task for each: one may never be confirmed."""
        held: set[ResourceSubscription] = set()
        while True:
            self._resubscribe.clear()
            held.intersection_update(self._by_uri.values())
            for each in self._by_uri.values():
                if each not in held:
                    held.add(each)
                    tasks.start_soon(self._hold, session, each)
            await self._resubscribe.wait()

    async def _hold(self, session: McpSession, found: ResourceSubscription) -> None:
        """Subscribe to a resource until it has no watcher any more."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._subscribe, session, found)
            await found.ended.wait()
            tasks.cancel_scope.cancel()
        if found.uri not in self._by_uri:
            with suppress(MCPError), anyio.move_on_after(CONFIRM_S):
                await session.request("resources/unsubscribe", {"uri": found.uri})

    async def _subscribe(self, session: McpSession, found: ResourceSubscription) -> None:
        try:
            await session.request("resources/subscribe", {"uri": found.uri})
            self._confirm(found)
        except MCPError as error:
            found.confirm(error)

    def _confirm(self, found: ResourceSubscription) -> None:
        """Confirm a subscription; one of an earlier session or stream may have missed a change since."""
        if found.confirmed.done():
            self._mark(found)
        found.confirm(True)  # noqa: FBT003 -- the reply

    async def _keep_stream(self, session: McpSession, tasks: TaskGroup) -> None:
        """Keep one stream open for all resources; replace it after these changed, or after it ended."""
        state = _StreamState()
        while True:
            self._resubscribe.clear()
            if state.stream is not None and state.stream.is_ended:
                state.stream = None
                await state.delay()
            carried = frozenset[str]() if state.stream is None else state.stream.uris
            state.refused.intersection_update(self._by_uri.values())
            wanted = {uri: each for uri, each in self._by_uri.items() if each not in state.refused}
            stay = [uri for uri in wanted if uri in carried]
            for uri in stay:
                wanted[uri].confirm(True)  # noqa: FBT003 -- the reply
            new = [each for uri, each in wanted.items() if uri not in carried][: state.batch]
            if not new and len(stay) == len(carried):
                try:
                    async with asyncio.timeout(MAX_DELAY_S if state.refused else None):
                        await self._resubscribe.wait()
                except TimeoutError:
                    state.refused.clear()
                continue
            uris = [*stay, *(each.uri for each in new)]
            try:
                following = await tasks.start(self._listen, session, uris) if uris else None
            except Exception as error:  # noqa: BLE001 -- whatever ended the stream
                await state.fail(error, new)
            else:
                self._switch(state, following, new)

    async def _listen(self, session: McpSession, uris: list[str], *, task_status: TaskStatus[ChangeStream]) -> None:
        """Keep a stream open until it ends; the session calls `note_update` for each update on it."""
        with anyio.CancelScope() as scope:
            async with AsyncExitStack() as ending:
                with anyio.fail_after(CONFIRM_S):
                    listening = session.client.listen(resource_subscriptions=uris)
                    changes = await ending.enter_async_context(listening)
                stream = ChangeStream(frozenset(changes.honored.resource_subscriptions or ()) & set(uris), scope)
                task_status.started(stream)
                with suppress(MCPError, SubscriptionLost):
                    async for _ in changes:
                        pass
                stream.is_ended = True
                self._resubscribe.set()

    def _switch(self, state: "_StreamState", following: ChangeStream | None, new: list[ResourceSubscription]) -> None:
        """Use the next stream, close the one before, and confirm the new resources."""
        if state.stream is not None:
            state.stream.scope.cancel()
        state.stream, state.batch = following, MAX_RESOURCES
        for each in new:
            if following is not None and each.uri in following.uris:
                self._confirm(each)
            else:
                state.refuse(each, False)  # noqa: FBT003 -- the reply


@dataclass(slots=True, eq=False)
class _StreamState:
    """The stream of one session with a server of 2026-07-28.

    Attributes:
        stream: None if none is open.
        refused: resources that the server does not report now; those of an earlier stream are tried again.
        batch: how many new resources are added at once.
        failures: how often it failed without a long time in between.
        failed_at: when it failed last.
    """

    stream: ChangeStream | None = None
    refused: set[ResourceSubscription] = field(default_factory=set)
    batch: int = MAX_RESOURCES
    failures: int = 0
    failed_at: float = 0.0

    def refuse(self, found: ResourceSubscription, reply: "bool | Exception") -> None:
        """Leave a resource out of the next streams."""
        self.refused.add(found)
        found.confirm(reply)

    async def delay(self) -> None:
        """Wait until the next try."""
        now = time.monotonic()
        self.failures = 1 if now - self.failed_at > 2 * MAX_DELAY_S else self.failures + 1
        self.failed_at = now
        await asyncio.sleep(retry_delay(self.failures))

    async def fail(self, error: Exception, new: list[ResourceSubscription]) -> None:
        """Decide what to do after a stream was not opened; the one before stays open.

        The server may refuse it because of one resource. So the new resources are then added by halves.
        """
        if isinstance(error, MCPError) and fault_of(error) is None and new:
            if len(new) == 1:
                self.refuse(new[0], error)
            self.batch = max(len(new) // 2, 1)
            return
        is_late = isinstance(error, TimeoutError)
        words = f"the stream of changes was not opened: {words_of(error)}"
        for each in new:
            if not each.confirmed.done():
                self.refuse(each, InvalidResult(_NOT_CONFIRMED.format(CONFIRM_S) if is_late else words))
        if not is_late:
            await self.delay()
