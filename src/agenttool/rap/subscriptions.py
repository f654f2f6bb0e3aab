"""Subscriptions: a confirmation, then events in order, and nothing after the last, through every restart."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

from agenttool.errors import ToolFailure
from agenttool.rap.call import Call
from agenttool.rap.faults import told_of
from agenttool.rap.keeping import messages, subscriptions
from agenttool.rap.keeping.messages import Outgoing
from agenttool.rap.keeping.store import Store
from agenttool.rap.keeping.subscriptions import Subscriber
from agenttool.rap.limits import Limits
from agenttool.rap.outbox import Outbox
from agenttool.rap.outcome import Event, event_of

LASTS_S = 30 * 86_400.0
"""How long a subscription lasts that nobody ends."""

PATIENCE_S = 60.0
LOOK_EVERY_S = 1.0
"""A generator whose events nobody has taken for so long waits until somebody does; looked at so often."""

_BEHIND = "Error: the subscription has ended, because {most} events wait that nobody has taken; subscribe again."
_log = logging.getLogger(__name__)


class Subscriptions:
    """Events out of generators, and events that somebody publishes."""

    def __init__(self, store: Store, outbox: Outbox, limits: Limits) -> None:
        """Take where subscriptions are kept, how their events go out, and how many there may be."""
        self._store = store
        self._outbox = outbox
        self._pause_s = 1 / limits.events_per_second
        self._most = limits.max_events

    async def publish(self, topic: str, event: Event) -> int:
        """Send an event to everybody who is subscribed to a topic, or to nobody; tell how many.

        Whoever has not taken many events before it gets it no more, and is told that the subscription has ended: one
        that is away neither fills the disk nor keeps the others waiting.

        Raises:
            ToolFailure: its value is nothing that could be sent.
        """
        last = Event(value=_BEHIND.format(most=self._most), final=True)
        sent, ended = await self._store.perform(
            subscriptions.publish,
            topic,
            partial(_body, event),
            partial(_body, last),
            final=event.final,
            most=self._most,
        )
        for message in ended:
            _log.warning("subscription %d has ended: its runtime has not taken %d events", message.call, self._most)
        self._outbox.send_all((*sent, *ended))
        return len(sent)

    async def drive(self, call: Call, events: AsyncGenerator[object]) -> None:
        """Send what a generator yields, until it ends or nobody wants any more."""
        try:
            async with aclosing(events) as yielded:
                async for item in yielded:
                    event = item if isinstance(item, Event) else Event(value=item)
                    oldest = await self._emit(call.number, call.thread_id, call.id, event)
                    if oldest is None or event.final:
                        return
                    await asyncio.sleep(self._pause_s)
                    await self._until_taken(oldest)
            last = "The subscription has ended."
        except ToolFailure as failure:
            last = f"Error: {failure.error.message}"
        except Exception as error:  # noqa: BLE001 -- a generator may raise anything, and its end must be told
            _log.error("subscription %d failed: %s", call.number, told_of(error))
            last = f"Error: the subscription failed; subscribe again, or tell its operator {call.idempotency_key[:12]}"
        await self._emit(call.number, call.thread_id, call.id, Event(value=last, final=True))

    async def expire(self) -> list[int]:
        """End the subscriptions whose time is over, with a last event that says so; give their calls."""
        over = await self._store.perform(subscriptions.expired, time.time_ns())
        for each in over:
            last = Event(value="The subscription has expired; subscribe again to go on.", final=True)
            await self._emit(each.call, each.thread, each.id, last)
        return [each.call for each in over]

    async def cancel(self, call: int) -> None:
        """End a subscription that nobody wants any more, without another word."""
        await self._store.perform(subscriptions.cancel, call)

    async def _until_taken(self, oldest: Outgoing | None) -> None:
        """Wait while a runtime takes nothing, or else the events of a week without it would fill the disk."""
        while oldest is not None and time.time_ns() - oldest.put_at > PATIENCE_S * 1e9:
            await asyncio.sleep(LOOK_EVERY_S)
            oldest = await self._store.insist(messages.next_of, oldest.call)

    async def _emit(self, call: int, thread: str, call_id: str, event: Event) -> Outgoing | None:
        body = event_of(thread, call_id, event)
        message = await self._store.insist(subscriptions.emit, call, body, event.bookmark, final=event.final)
        self._outbox.send(message)
        return message


def _body(event: Event, subscriber: Subscriber) -> bytes:
    return event_of(subscriber.thread, subscriber.id, event)
