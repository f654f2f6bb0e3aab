"""Subscriptions: which are open, and the events that came of them, kept until somebody has dealt with them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from urllib.parse import quote

from agenttool.adapters.rap.wire import SubscriptionEvent
from agenttool.codec import read_own, write_own
from agenttool.ports.deferred import Thread
from agenttool.ports.stores import DocumentStore
from agenttool.records import ClosedEnum, JsonObject, Part, replace

RECEIVE_EVENT = "receive_event__injected"
"""The reserved name under which an event enters a conversation; no tool may have it, and no model may call it."""

CANCEL_SUBSCRIPTION = "cancel_subscription"
RESERVED = frozenset({RECEIVE_EVENT, CANCEL_SUBSCRIPTION})

_OPEN, _EVENTS, _BY_THREAD = "rap.subscription", "rap.event", "rap.event.thread"
MOST_EVENTS = 1000
LONGEST_EVENT = 1_000_000
"""So many events of one thread wait to be dealt with; a tool that has more of them is asked to come again, and one
that has a longer text to tell is refused."""

_AT_A_TIME = 20
"""So many events are read in one go by whoever follows them: each may be long."""

_MOST_COUNTED = 10_000
"""For so many threads it is known how many events wait; it only saves time."""

_LOOK_EVERY_S = 0.5
_REMEMBERED = 32
"""So many deliveries of a subscription are known again; a tool that sends more than these at once is a poor one."""


class Subscription(Part, frozen=True, kw_only=True):
    """A call that opened a stream of events, as it was made.

    Attributes:
        handled: the latest deliveries, by which a second try of one is known; equal events are two events otherwise.
    """

    thread: Thread
    tool_call_id: str
    source: str
    name: str
    arguments: JsonObject
    opened_at_ns: int
    handled: tuple[str, ...] = ()


class Injected(Part, frozen=True, kw_only=True):
    """An event, as the call of a reserved tool and its result: that is how it enters a conversation.

    Attributes:
        event_id: fresh for every event, and in the order in which they came.
        thread: where it belongs: the subscriber's own thread, or a new child of it.
        is_inline: it belongs into the subscriber's own history.
        name: the reserved name of the call.
        arguments: those of the call: which subscription this comes from.
        text: the result of the call; a stranger's words.
        is_final: nothing comes after it.
    """

    event_id: str
    thread: Thread
    is_inline: bool
    name: str = RECEIVE_EVENT
    arguments: JsonObject
    text: str
    is_final: bool = False

    @property
    def subscriber(self) -> str:
        """The thread that has the subscription."""
        return self.thread.thread_id if self.is_inline else self.thread.ancestors[-1]


class Opened(ClosedEnum):
    """What became of a subscription that a tool says it has opened; one from before was told of twice."""

    NEW = "new"
    BEFORE = "before"
    ONE_TOO_MANY = "one_too_many"


class Received(ClosedEnum):
    """What became of an event."""

    KEPT = "kept"
    UNKNOWN = "unknown"
    TOO_MANY = "too_many"


class Subscriptions:
    """The open subscriptions of a store, and the events that wait for whoever hosts the conversations."""

    def __init__(self, shelf: DocumentStore) -> None:
        """Take where they are kept."""
        self._shelf = shelf
        self._news = asyncio.Event()
        self._waiting: dict[str, int] = {}

    async def open(self, subscription: Subscription, most: int) -> Opened:
        """Remember a subscription, unless its thread has so many others already."""
        thread_id, tool_call_id = subscription.thread.thread_id, subscription.tool_call_id
        if await self.find(thread_id, tool_call_id) is not None:
            return Opened.BEFORE
        if len(await self.of(thread_id, most)) >= most:
            return Opened.ONE_TOO_MANY
        is_new = await self._shelf.swap(
            _OPEN, _key(thread_id, tool_call_id), before=None, after=write_own(subscription)
        )
        return Opened.NEW if is_new else Opened.BEFORE

    async def find(self, thread_id: str, tool_call_id: str) -> Subscription | None:
        """Give an open subscription of a thread."""
        body = await self._shelf.get(_OPEN, _key(thread_id, tool_call_id))
        return None if body is None else read_own(body, Subscription)

    async def end(self, thread_id: str, tool_call_id: str) -> bool:
        """Forget a subscription; tell whether it was there, of which only one may be told."""
        key = _key(thread_id, tool_call_id)
        body = await self._shelf.get(_OPEN, key)
        return body is not None and await self._shelf.swap(_OPEN, key, before=body, after=None)

    async def of(self, thread_id: str | None = None, limit: int = 1000) -> tuple[Subscription, ...]:
        """List the open subscriptions of one thread, or of all."""
        prefix = "" if thread_id is None else f"{quote(thread_id, safe='')}/"
        found = await self._shelf.page(_OPEN, prefix=prefix, limit=limit)
        return tuple(read_own(body, Subscription) for _, body in found)

    async def close_thread(self, thread_id: str) -> None:
        """Forget every subscription of a thread; events that came before are still to be dealt with."""
        while found := await self.of(thread_id):
            for each in found:
                await self.end(thread_id, each.tool_call_id)

    async def receive(self, message: SubscriptionEvent, event_id: str, delivery: str | None = None) -> Received:
        """Keep an event, and end its subscription if it is the last one, in one step.

        Args:
            message: the event as it came.
            event_id: the name it is kept by.
            delivery: the same for every try of one message, and for no other; without one, each try is an event.
        """
        place = _key(message.group_id, message.tool_call_id)
        while (body := await self._shelf.get(_OPEN, place)) is not None:
            subscription = read_own(body, Subscription)
            if delivery in subscription.handled:
                return Received.KEPT
            waiting = await self._waiting_in(message.group_id)
            if waiting >= MOST_EVENTS:
                return Received.TOO_MANY
            event = write_own(_injected(subscription, message, event_id))
            after = None if message.final else write_own(_having_handled(subscription, delivery))
            beside = {(_EVENTS, event_id): event, (_BY_THREAD, _key(message.group_id, event_id)): b"1"}
            if await self._shelf.swap(_OPEN, place, before=body, after=after, beside=beside):
                self._waiting[message.group_id] = waiting + 1
                self._news.set()
                return Received.KEPT
        return Received.UNKNOWN

    async def _waiting_in(self, thread_id: str) -> int:
        """Tell how many events of a thread wait; looked up anew where another process may have dealt with some."""
        known = self._waiting.get(thread_id, MOST_EVENTS)
        if known >= MOST_EVENTS:
            if len(self._waiting) >= _MOST_COUNTED:
                self._waiting.clear()
            known = len(await self._shelf.keys(_BY_THREAD, prefix=_key(thread_id, ""), limit=MOST_EVENTS))
        return known

    async def events(self, after: str = "", limit: int = 1000) -> tuple[Injected, ...]:
        """Give events that nobody has dealt with, in the order in which they came."""
        found = await self._shelf.page(_EVENTS, after=after, limit=limit)
        return tuple(read_own(body, Injected) for _, body in found)

    async def done(self, event_id: str) -> None:
        """Forget an event that somebody has dealt with."""
        body = await self._shelf.get(_EVENTS, event_id)
        if body is None:
            return
        thread_id = read_own(body, Injected).subscriber
        await self._shelf.put(_BY_THREAD, _key(thread_id, event_id), None)
        await self._shelf.put(_EVENTS, event_id, None)
        if self._waiting.get(thread_id):
            self._waiting[thread_id] -= 1

    async def follow(self, after: str = "") -> AsyncIterator[Injected]:
        """Give events as they come, in whichever process they came, for ever; each stays until it is `done`."""
        while True:
            self._news.clear()
            while found := await self.events(after, _AT_A_TIME):
                for event in found:
                    after = event.event_id
                    yield event
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_EVERY_S):
                    await self._news.wait()


def _injected(subscription: Subscription, message: SubscriptionEvent, event_id: str) -> Injected:
    own = subscription.thread
    child = Thread(thread_id=f"{own.thread_id}/{event_id}", ancestors=(*own.ancestors, own.thread_id))
    return Injected(
        event_id=event_id,
        thread=own if message.associative else child,
        is_inline=message.associative,
        arguments={
            "original_tool_name": subscription.name,
            "original_tool_call_id": subscription.tool_call_id,
            "original_args": subscription.arguments,
        },
        text=message.text,
        is_final=bool(message.final),
    )


def _having_handled(subscription: Subscription, delivery: str | None) -> Subscription:
    if delivery is None:
        return subscription
    return replace(subscription, handled=(*subscription.handled, delivery)[-_REMEMBERED:])


def _key(thread_id: str, tool_call_id: str) -> str:
    return f"{quote(thread_id, safe='')}/{quote(tool_call_id, safe='')}"
