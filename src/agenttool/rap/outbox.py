"""Messages to runtimes: stored before they are sent, in order for each call, and retried until accepted or rejected."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from agenttool.adapters.rap.wire import ViewUpdate, write
from agenttool.http.client import HttpReply
from agenttool.http.limiter import Quota
from agenttool.rap import tables
from agenttool.rap.background import BackgroundTasks
from agenttool.rap.limits import Limits
from agenttool.rap.store import ProviderStore
from agenttool.records import JsonObject

FIRST_DELAY_S = 0.5
MAX_DELAY_S = 30.0
IDEMPOTENCY_HEADER = "Idempotency-Key"
"""The same for every attempt of one message, so that a receiver can distinguish a repetition from a second event."""

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Outbox:
    """Delivers the messages of each call in order, with one task for each call that has messages.

    Progress is not stored: while a report is being sent, only the latest further one waits.

    Attributes:
        post: takes a caller, a URL, a body and headers, and posts the body to the URL.
        on_rejected: takes a message that its runtime rejected, and the status of the reply.
    """

    store: ProviderStore
    tasks: BackgroundTasks
    quota: Quota
    limits: Limits
    post: Callable[[str, str, bytes, Mapping[str, str]], Awaitable[HttpReply]]
    on_rejected: Callable[[tables.OutgoingMessage, int | None], Awaitable[None]]
    _active: set[int] = field(default_factory=set)
    _changed: set[int] = field(default_factory=set)
    _reported: set[int] = field(default_factory=set)
    _latest: dict[int, JsonObject] = field(default_factory=dict)
    _reporting: "dict[int, asyncio.Task[None]]" = field(default_factory=dict)

    def send(self, message: tables.OutgoingMessage | None) -> None:
        """Start to deliver a call's messages with its oldest one; None is ignored."""
        if message is None:
            return
        if message.call in self._active:
            self._changed.add(message.call)
            return
        self._active.add(message.call)
        if message.kind != "event":
            self.quota.acquire(message.call, message.caller)  # waiting events have a limit for each subscription
        self.tasks.start(self._deliver_all(message))

    async def _deliver_all(self, message: tables.OutgoingMessage) -> None:
        """Deliver the messages of a call in order: none overtakes a confirmation or follows a final one."""
        call = message.call
        following: tables.OutgoingMessage | None = message
        try:
            while following is not None:
                following = await self._deliver_next(following)
                if following is None and call in self._changed:
                    self._changed.discard(call)
                    following = await self.store.run_until_stored(tables.next_message, call)
        finally:
            self._active.discard(call)
            if message.kind != "event":
                self.quota.release(call, message.caller)

    async def _deliver_next(self, message: tables.OutgoingMessage) -> tables.OutgoingMessage | None:
        """Deliver a message, delete it, and return the next."""
        reporting = self._reporting.get(message.call)
        if message.kind == "view" and reporting is not None:
            await asyncio.wait([reporting])  # a report must not arrive after the message that clears it
        await self._deliver(message)
        following = await self.store.run_until_stored(tables.delete_message, message)
        if message.kind == "event":
            await asyncio.sleep(1 / self.limits.events_per_second)
        return following

    async def _deliver(self, message: tables.OutgoingMessage) -> None:
        key, attempts = f"{self.store.name}-{message.number}", 0
        while True:
            reply = await self.post(message.caller, message.url, message.body, {IDEMPOTENCY_HEADER: key})
            if not reply.is_retryable and not reply.is_busy:
                break
            if time.time_ns() - message.queued_at > self.limits.give_up_s * 1e9:
                _log.error("message %d of call %d was dropped: it could not be delivered", message.number, message.call)
                return
            attempts += 1
            await asyncio.sleep(reply.delay_s(attempts, first_s=FIRST_DELAY_S, max_s=MAX_DELAY_S))
        if not reply.is_2xx:
            reason = reply.fault or f"status {reply.status}"
            _log.warning("message %d of call %d was rejected: %s", message.number, message.call, reason)
            await self.on_rejected(message, reply.status)

    def report(self, call: tables.StoredCall, progress: JsonObject) -> None:
        """Send progress; while a report is being sent, only the latest further one is."""
        self._reported.add(call.number)
        self._latest[call.number] = progress
        if call.number not in self._reporting:
            self._reporting[call.number] = self.tasks.start(self._send_reports(call))

    def last_view(self, call: tables.StoredCall) -> list[tuple[tables.MessageKind, bytes]]:
        """Return the message that clears a call's progress at its end, if it reported any."""
        self._latest.pop(call.number, None)
        if call.number not in self._reported:
            return []
        self._reported.discard(call.number)
        return [("view", _progress(call, {}))]

    async def _send_reports(self, call: tables.StoredCall) -> None:
        try:
            while (progress := self._latest.pop(call.number, None)) is not None:
                await self.post(call.caller, call.callback_url, _progress(call, progress), {})
        finally:
            del self._reporting[call.number]


def _progress(call: tables.StoredCall, content: JsonObject) -> bytes:
    """Return the view of a call's progress; its type names the call, so that calls of one thread do not collide."""
    return write(ViewUpdate(group_id=call.thread, view_type=f"progress/{call.id}", content=content))
