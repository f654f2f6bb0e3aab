"""Events of subscriptions: sent in order after the confirmation, across restarts, with nothing after the final one."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from agenttool.errors import ToolFailure
from agenttool.rap import tables
from agenttool.rap.background import error_location
from agenttool.rap.call import RapCall
from agenttool.rap.limits import Limits
from agenttool.rap.outbox import Outbox
from agenttool.rap.store import ProviderStore
from agenttool.rap.tool_api import Event, event_message

LIFETIME_S = 30 * 86_400.0
"""How long a subscription lasts by default."""

BACKPRESSURE_S = 60.0
POLL_S = 1.0
"""A generator waits while its oldest event is undelivered for this long; it is polled this often."""

_BEHIND = "Error: the subscription has ended, because {limit} undelivered events wait; subscribe again."
_log = logging.getLogger(__name__)


class EventSender:
    """Sends the events of generators, and events that are published on topics."""

    def __init__(self, store: ProviderStore, outbox: Outbox, limits: Limits) -> None:
        self._store = store
        self._outbox = outbox
        self._delay_s = 1 / limits.events_per_second
        self._limit = limits.max_events

    async def publish(self, topic: str, event: Event) -> int:
        """Send an event to all subscribers of a topic, and return how many there are.

        A subscriber with too many undelivered events gets a final event instead, so that it neither fills the disk nor
        delays the others.

        Raises:
            ToolFailure: the value cannot be sent.
        """
        last = Event(value=_BEHIND.format(limit=self._limit), final=True)
        sent, ended = await self._store.run(
            tables.publish_event,
            topic,
            lambda each: event_message(each.thread, each.id, event),
            lambda each: event_message(each.thread, each.id, last),
            final=event.final,
            limit=self._limit,
        )
        for message in ended:
            _log.warning("subscription %d has ended: %d of its events are undelivered", message.call, self._limit)
        self._outbox.send_all((*sent, *ended))
        return len(sent)

    async def run_generator(self, call: RapCall, events: AsyncGenerator[object]) -> None:
        """Send what a generator yields, until it or the subscription ends."""
        try:
            async with aclosing(events) as yielded:
                async for item in yielded:
                    event = item if isinstance(item, Event) else Event(value=item)
                    oldest = await self._emit(call.number, call.thread_id, call.id, event)
                    if oldest is None or event.final:
                        return
                    await asyncio.sleep(self._delay_s)
                    await self._wait_for_delivery(oldest)
            last = "The subscription has ended."
        except ToolFailure as failure:
            last = f"Error: {failure.error.message}"
        except Exception as error:  # noqa: BLE001 -- whatever a generator raises ends its subscription
            _log.error("subscription %d failed: %s", call.number, error_location(error))
            reference = call.idempotency_key[:12]
            last = f"Error: the subscription failed; subscribe again, or give its operator the reference {reference}"
        await self._emit(call.number, call.thread_id, call.id, Event(value=last, final=True))

    async def expire(self) -> list[int]:
        """End expired subscriptions with a final event, and return their calls."""
        expired = await self._store.run(tables.expired_subscriptions, time.time_ns())
        for each in expired:
            last = Event(value="The subscription has expired; subscribe again to continue.", final=True)
            await self._emit(each.call, each.thread, each.id, last)
        return [each.call for each in expired]

    async def _wait_for_delivery(self, oldest: tables.OutgoingMessage | None) -> None:
        """Wait while a runtime accepts nothing, because undelivered events would fill the disk."""
        while oldest is not None and time.time_ns() - oldest.queued_at > BACKPRESSURE_S * 1e9:
            await asyncio.sleep(POLL_S)
            oldest = await self._store.run_until_stored(tables.next_message, oldest.call)

    async def _emit(self, call: int, thread: str, call_id: str, event: Event) -> tables.OutgoingMessage | None:
        body = event_message(thread, call_id, event)
        message = await self._store.run_until_stored(tables.append_event, call, body, event.bookmark, final=event.final)
        self._outbox.send(message)
        return message
