"""Messages to runtimes: stored before they are sent, in order for each call, and retried until accepted or rejected."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable

from agenttool.adapters.rap.credentials import Credential, is_single_use
from agenttool.adapters.rap.http_client import HttpClient, HttpReply, RequestOptions
from agenttool.adapters.rap.limiter import Quota
from agenttool.adapters.rap.wire import ViewUpdate, write
from agenttool.rap import tables
from agenttool.rap.background import BackgroundTasks
from agenttool.rap.settings import Limits
from agenttool.rap.store import ProviderStore
from agenttool.rap.tables import MessageKind, OutgoingMessage
from agenttool.rap.tool_api import Call
from agenttool.records import JsonObject

FIRST_DELAY_S = 0.5
MAX_DELAY_S = 30.0
IDEMPOTENCY_HEADER = "Idempotency-Key"
"""The same for every attempt of one message, so that a receiver can distinguish a repetition from a second event."""

PROGRESS = "progress"
"""The view of a call's progress is `progress/ID`, so that calls of one thread do not overwrite each other."""

_log = logging.getLogger(__name__)


class Outbox:
    """Delivers the messages of each call in order, with one task for each call that has messages."""

    def __init__(
        self,
        store: ProviderStore,
        client: HttpClient,
        tasks: BackgroundTasks,
        quota: Quota,
        *,
        credential: Credential | None = None,
        limits: Limits,
    ) -> None:
        """Take the store, the HTTP client, the quota of open calls, and the limits."""
        self._store = store
        self._client = client
        self._tasks = tasks
        self._credential = credential
        self._quota = quota
        self._give_up_ns = int(limits.give_up_s * 1e9)
        self._event_delay_s = 1 / limits.events_per_second
        self._active: set[int] = set()
        self._changed: set[int] = set()
        self.before_view: Callable[[int], Awaitable[None]] | None = None
        self.on_rejected: Callable[[OutgoingMessage, int | None], Awaitable[None]] = _ignore

    def send(self, message: OutgoingMessage | None) -> None:
        """Start to deliver a call's messages with its oldest one; None is ignored."""
        if message is None:
            return
        if message.call in self._active:
            self._changed.add(message.call)
            return
        self._active.add(message.call)
        if message.kind is not MessageKind.EVENT:
            self._quota.acquire(message.call, message.caller)  # waiting events have a limit for each subscription
        self._tasks.start(self._deliver_all(message))

    def send_all(self, messages: Iterable[OutgoingMessage]) -> None:
        """Start to deliver the messages of several calls."""
        for message in messages:
            self.send(message)

    async def _deliver_all(self, message: OutgoingMessage) -> None:
        """Deliver the messages of a call in order: none overtakes a confirmation or follows a final one."""
        call = message.call
        following: OutgoingMessage | None = message
        try:
            while following is not None:
                following = await self._deliver_next(following)
                if following is None and call in self._changed:
                    self._changed.discard(call)
                    following = await self._store.run_until_stored(tables.next_message, call)
        finally:
            self._active.discard(call)
            if message.kind is not MessageKind.EVENT:
                self._quota.release(call, message.caller)

    async def _deliver_next(self, message: OutgoingMessage) -> OutgoingMessage | None:
        """Deliver a message, delete it, and return the next."""
        if message.kind is MessageKind.VIEW and self.before_view is not None:
            await self.before_view(message.call)
        await self._deliver(message)
        following = await self._store.run_until_stored(tables.delete_message, message)
        if message.kind is MessageKind.EVENT:
            await asyncio.sleep(self._event_delay_s)
        return following

    async def _deliver(self, message: OutgoingMessage) -> None:
        delay = FIRST_DELAY_S
        while True:
            reply = await self._post(message)
            if not reply.is_retryable:
                break
            if time.time_ns() - message.queued_at > self._give_up_ns:
                _log.error("message %d of call %d was dropped: it could not be delivered", message.number, message.call)
                return
            await asyncio.sleep(random.uniform(0, delay))  # noqa: S311 -- jitter, not a secret
            delay = min(2 * delay, MAX_DELAY_S)
        if reply.status is None or not 200 <= reply.status < 300:  # noqa: PLR2004 -- HTTP status class
            reason = reply.fault or f"status {reply.status}"
            _log.warning("message %d of call %d was rejected: %s", message.number, message.call, reason)
            await self.on_rejected(message, reply.status)

    async def _post(self, message: OutgoingMessage) -> HttpReply:
        headers = {IDEMPOTENCY_HEADER: f"{self._store.name}-{message.number}"}
        if self._credential is not None:
            headers |= self._credential.headers("POST", message.url, message.body)
        options = RequestOptions(message.caller, is_preemptible=True, send_once=is_single_use(self._credential))
        return await self._client.post(message.url, message.body, headers, options=options)


async def _ignore(_message: OutgoingMessage, _status: int | None) -> None:
    """Do nothing about a rejected message."""


class ViewSender:
    """Sends views, which are stored and delivered like results, and progress, of which only the latest is sent."""

    def __init__(
        self,
        store: ProviderStore,
        outbox: Outbox,
        client: HttpClient,
        tasks: BackgroundTasks,
        credential: Credential | None,
    ) -> None:
        """Take how views are delivered."""
        self._store = store
        self._outbox = outbox
        self._client = client
        self._tasks = tasks
        self._credential = credential
        self._latest: dict[int, JsonObject] = {}
        self._posting: dict[int, asyncio.Task[None]] = {}
        outbox.before_view = self._wait_until_posted

    async def send(self, call: Call, view_type: str, content: JsonObject) -> None:
        """Send a view, after the call's earlier messages.

        Raises:
            RecordError: the content is not JSON.
        """
        body = write(ViewUpdate(group_id=call.thread_id, view_type=view_type, content=content))
        self._outbox.send(await self._store.run(tables.append_and_peek, call.number, MessageKind.VIEW, body))

    def report(self, call: Call, progress: JsonObject) -> None:
        """Send progress; while a report is being sent, only the latest further one is."""
        call.has_reported = True
        self._latest[call.number] = progress
        if call.number not in self._posting:
            self._posting[call.number] = self._tasks.start(self._post_latest(call))

    def clearing(self, call: Call) -> list[tuple[MessageKind, bytes]]:
        """Return the message that clears a call's progress at its end, if it reported any."""
        self._latest.pop(call.number, None)
        return [(MessageKind.VIEW, _progress(call, {}))] if call.has_reported else []

    async def _post_latest(self, call: Call) -> None:
        try:
            while (progress := self._latest.pop(call.number, None)) is not None:
                body, url, credential = _progress(call, progress), call.stored.callback_url, self._credential
                headers = None if credential is None else credential.headers("POST", url, body)
                options = RequestOptions(caller=call.stored.caller, is_preemptible=True)  # a later report replaces it
                await self._client.post(url, body, headers, options=options)
        finally:
            del self._posting[call.number]

    async def _wait_until_posted(self, call: int) -> None:
        """Wait for a report that is being sent, so that it cannot arrive after the message that clears it."""
        posting = self._posting.get(call)
        if posting is not None:
            await asyncio.wait([posting])


def _progress(call: Call, content: JsonObject) -> bytes:
    return write(ViewUpdate(group_id=call.thread_id, view_type=f"{PROGRESS}/{call.id}", content=content))
