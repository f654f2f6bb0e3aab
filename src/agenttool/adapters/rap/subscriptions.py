"""Subscriptions: the open ones, the events that wait to be handled, and the tool that cancels a subscription."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from agenttool.adapters.rap.threads import thread_key
from agenttool.adapters.rap.wire import SubscriptionEvent
from agenttool.codec import read_own, write_own
from agenttool.ports.deferred import Thread
from agenttool.ports.executor import Job, call_failure
from agenttool.ports.stores import DocumentStore
from agenttool.ports.tool import DeclaredTool, own_tool
from agenttool.records import (
    ErrorClass,
    InvocationId,
    JsonObject,
    Part,
    RiskLevel,
    ToolKind,
    WriteEffect,
    replace,
)

RECEIVE_EVENT = "receive_event__injected"
"""The reserved name under which an event enters a conversation; no tool may have it, and no model may call it."""

CANCEL_SUBSCRIPTION = "cancel_subscription"
RESERVED = frozenset({RECEIVE_EVENT, CANCEL_SUBSCRIPTION, "tool_search", "read_result"})
"""Names that a server may not use: those of the protocol, and those of the runtime's own tools."""

_OPEN, _EVENTS, _BY_THREAD = "rap.subscription", "rap.event", "rap.event.thread"
MAX_WAITING_EVENTS = 1000
"""How many events of one thread may wait; a tool that sends more is asked to retry later."""

MAX_EVENT_CHARS = 1_000_000
"""The longest text of one event; a longer one is rejected."""

_PAGE_SIZE = 20
"""How many events are loaded at a time, because each may be long."""

_POLL_S = 0.5
_MAX_DELIVERIES = 32
"""How many deliveries of a subscription are recorded to detect repetitions."""

_CANCEL_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "tool_call_id": {"type": "string", "description": "The id of the call that opened the subscription."}
    },
    "required": ["tool_call_id"],
    "additionalProperties": False,
}


class Subscription(Part, frozen=True, kw_only=True):
    """An open subscription, with the call that opened it.

    Attributes:
        handled: the latest deliveries, to detect repetitions; without a delivery, equal events are two events.
    """

    thread: Thread
    tool_call_id: str
    source: str
    name: str
    arguments: JsonObject
    opened_at_ns: int
    handled: tuple[str, ...] = ()


class InjectedEvent(Part, frozen=True, kw_only=True):
    """An event as it enters a conversation: the call of a reserved tool, and its result.

    Attributes:
        event_id: unique, and in the order of arrival.
        thread: where it belongs: the subscriber's own thread, or a new child of it.
        is_inline: whether it belongs into the subscriber's own history.
        arguments: of the call; they name the subscription.
        text: the result of the call; untrusted.
    """

    event_id: str
    thread: Thread
    is_inline: bool
    name: str = RECEIVE_EVENT
    arguments: JsonObject
    text: str
    is_final: bool = False


SubscribeOutcome = Literal["new", "existing", "limit_reached"]
EventOutcome = Literal["stored", "unknown", "limit_reached"]


class SubscriptionStore:
    """The open subscriptions of a store, and the events that wait for the host of the conversations."""

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents
        self._arrived = asyncio.Event()

    async def open(self, subscription: Subscription, limit: int) -> SubscribeOutcome:
        """Store a subscription, unless its thread has `limit` others already."""
        thread_id, tool_call_id = subscription.thread.thread_id, subscription.tool_call_id
        if await self.find(thread_id, tool_call_id) is not None:
            return "existing"
        if len(await self.of(thread_id, limit)) >= limit:
            return "limit_reached"
        is_new = await self._documents.swap(
            _OPEN, thread_key(thread_id, tool_call_id), before=None, after=write_own(subscription)
        )
        return "new" if is_new else "existing"

    async def find(self, thread_id: str, tool_call_id: str) -> Subscription | None:
        """Return an open subscription of a thread."""
        body = await self._documents.get(_OPEN, thread_key(thread_id, tool_call_id))
        return None if body is None else read_own(body, Subscription)

    async def end(self, thread_id: str, tool_call_id: str) -> bool:
        """Delete a subscription; return whether this call deleted it."""
        key = thread_key(thread_id, tool_call_id)
        body = await self._documents.get(_OPEN, key)
        return body is not None and await self._documents.swap(_OPEN, key, before=body, after=None)

    async def of(self, thread_id: str | None = None, limit: int = 1000) -> tuple[Subscription, ...]:
        """Return the open subscriptions of one thread, or of all."""
        prefix = "" if thread_id is None else thread_key(thread_id)
        found = await self._documents.page(_OPEN, prefix=prefix, limit=limit)
        return tuple(read_own(body, Subscription) for _, body in found)

    async def close_thread(self, thread_id: str) -> None:
        """Delete every subscription of a thread; events that arrived before stay until they are handled."""
        while found := await self.of(thread_id):
            for each in found:
                await self.end(thread_id, each.tool_call_id)

    async def receive(self, message: SubscriptionEvent, event_id: str, delivery: str | None = None) -> EventOutcome:
        """Store an event, and end its subscription if it is the final one, in one step.

        Args:
            message: the event.
            event_id: the id under which it is stored.
            delivery: identifies the message across retries; without one, each attempt is a separate event.
        """
        key = thread_key(message.group_id, message.tool_call_id)
        while (body := await self._documents.get(_OPEN, key)) is not None:
            subscription = read_own(body, Subscription)
            if delivery in subscription.handled:
                return "stored"
            prefix = thread_key(message.group_id)
            waiting = await self._documents.keys(_BY_THREAD, prefix=prefix, limit=MAX_WAITING_EVENTS)
            if len(waiting) >= MAX_WAITING_EVENTS:
                return "limit_reached"
            event = write_own(_injected(subscription, message, event_id))
            handled = subscription.handled if delivery is None else (*subscription.handled, delivery)
            open_after = replace(subscription, handled=handled[-_MAX_DELIVERIES:])
            after = None if message.final else write_own(open_after)
            beside = {(_EVENTS, event_id): event, (_BY_THREAD, thread_key(message.group_id, event_id)): b"1"}
            if await self._documents.swap(_OPEN, key, before=body, after=after, beside=beside):
                self._arrived.set()
                return "stored"
        return "unknown"

    async def events(self, after: str = "", limit: int = 1000) -> tuple[InjectedEvent, ...]:
        """Return unhandled events in the order of arrival."""
        found = await self._documents.page(_EVENTS, after=after, limit=limit)
        return tuple(read_own(body, InjectedEvent) for _, body in found)

    async def done(self, event_id: str) -> None:
        """Delete an event that was handled."""
        body = await self._documents.get(_EVENTS, event_id)
        if body is None:
            return
        event = read_own(body, InjectedEvent)
        thread_id = event.thread.thread_id if event.is_inline else event.thread.ancestors[-1]
        await self._documents.put(_BY_THREAD, thread_key(thread_id, event_id), None)
        await self._documents.put(_EVENTS, event_id, None)

    async def follow(self, after: str = "") -> AsyncIterator[InjectedEvent]:
        """Yield events as they arrive in any process, without end; each stays stored until it is `done`."""
        while True:
            self._arrived.clear()
            while found := await self.events(after, _PAGE_SIZE):
                for event in found:
                    after = event.event_id
                    yield event
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await self._arrived.wait()


def _injected(subscription: Subscription, message: SubscriptionEvent, event_id: str) -> InjectedEvent:
    own = subscription.thread
    return InjectedEvent(
        event_id=event_id,
        thread=own if message.associative else own.child(f"{own.thread_id}/{event_id}"),
        is_inline=message.associative,
        arguments={
            "original_tool_name": subscription.name,
            "original_tool_call_id": subscription.tool_call_id,
            "original_args": subscription.arguments,
        },
        text=message.text,
        is_final=bool(message.final),
    )


@dataclass(frozen=True, slots=True)
class _CancelExecutor:
    """Ends a subscription of the calling thread, and notifies every server."""

    subscriptions: SubscriptionStore
    withdraw: Callable[[InvocationId, str], None]

    async def start(self, job: Job) -> object:
        """Cancel the subscription that the input names.

        Raises:
            ToolFailure: the thread of the call has no such subscription.
        """
        tool_call_id = str(job.call_input["tool_call_id"])
        if not await self.subscriptions.end(job.thread.thread_id, tool_call_id):
            message = f"this thread has no open subscription {tool_call_id!r}; a thread cancels only its own"
            raise call_failure(ErrorClass.EXECUTION_FAILED, message, code="unknown_id")
        self.withdraw(InvocationId(tool_call_id), job.thread.thread_id)
        return f"The subscription {tool_call_id} is canceled."


def cancel_subscription_tool(
    subscriptions: SubscriptionStore, withdraw: Callable[[InvocationId, str], None]
) -> DeclaredTool:
    """Declare the built-in tool by which a model ends a subscription of its own thread."""
    return own_tool(
        _CancelExecutor(subscriptions, withdraw),
        namespace="rap",
        name=CANCEL_SUBSCRIPTION,
        kind=ToolKind.NATIVE_TOOL,
        description="End a subscription that was opened in this conversation, so that no more of its events come.",
        schema=_CANCEL_SCHEMA,
        interface={
            "is_read_only": False,
            "is_destructive": False,
            "is_concurrency_safe": True,
            "is_open_world": True,
        },
        permission={"risk_level": RiskLevel.LOW, "write_effects": (WriteEffect.REMOTE_MUTATION,)},
    )
