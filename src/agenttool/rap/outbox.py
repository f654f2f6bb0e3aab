"""Messages to runtimes: kept before they are sent, sent in order per call, and tried until taken or refused."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable

from agenttool.adapters.rap.connections import Terms
from agenttool.adapters.rap.courier import Courier, Reply
from agenttool.adapters.rap.credentials import Credential, is_taken_once
from agenttool.rap.keeping import messages
from agenttool.rap.keeping.messages import Kind, Outgoing
from agenttool.rap.keeping.store import Store
from agenttool.rap.limits import Limits, Room
from agenttool.rap.tasks import Tasks

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0
IDEMPOTENCY_HEADER = "Idempotency-Key"
"""The same for every try of one message, so that a receiver can tell a second try from a second event."""

_log = logging.getLogger(__name__)


class Outbox:
    """One lane for each call that has messages to send. A lane at rest costs nothing but its rows."""

    def __init__(
        self,
        store: Store,
        courier: Courier,
        tasks: Tasks,
        room: Room,
        *,
        credential: Credential | None = None,
        limits: Limits,
    ) -> None:
        """Take the store, who carries, the room that lanes take, and how long to try."""
        self._store = store
        self._courier = courier
        self._tasks = tasks
        self._credential = credential
        self._room = room
        self._give_up_ns = int(limits.give_up_s * 1e9)
        self._event_pause_s = 1 / limits.events_per_second
        self._lanes: set[int] = set()
        self._again: set[int] = set()
        self.before_view: Callable[[int], Awaitable[None]] | None = None
        self.on_refused: Callable[[Outgoing, int | None], Awaitable[None]] = _leave_it

    def send(self, message: Outgoing | None) -> None:
        """Set a call's lane going, beginning with its oldest message; nothing to send is fine, too."""
        if message is None:
            return
        if message.call in self._lanes:
            self._again.add(message.call)
            return
        self._lanes.add(message.call)
        if message.kind is not Kind.EVENT:
            self._room.enter(message.call, message.caller)  # of events that wait, each subscription has a limit
        self._tasks.start(self._clear(message))

    def send_all(self, waiting: Iterable[Outgoing]) -> None:
        """Set every lane going that was left with messages."""
        for message in waiting:
            self.send(message)

    async def _clear(self, message: Outgoing) -> None:
        """Send what a call has to send, one after the other: nothing overtakes a confirmation, or follows an end."""
        call = message.call
        following: Outgoing | None = message
        try:
            while following is not None:
                following = await self._send_one(following)
                if following is None and call in self._again:
                    self._again.discard(call)
                    following = await self._store.insist(messages.next_of, call)
        finally:
            self._lanes.discard(call)
            if message.kind is not Kind.EVENT:
                self._room.leave(call, message.caller)

    async def _send_one(self, message: Outgoing) -> Outgoing | None:
        """Deliver a message, let go of it, and give the next."""
        if message.kind is Kind.VIEW and self.before_view is not None:
            await self.before_view(message.call)
        await self._deliver(message)
        following = await self._store.insist(messages.done, message)
        if message.kind is Kind.EVENT:
            await asyncio.sleep(self._event_pause_s)
        return following

    async def _deliver(self, message: Outgoing) -> None:
        delay = FIRST_DELAY_S
        while True:
            reply = await self._post(message)
            if not reply.is_worth_retrying:
                break
            if time.time_ns() - message.put_at > self._give_up_ns:
                _log.error("message %d of call %d given up: nobody takes it", message.number, message.call)
                return
            await asyncio.sleep(random.uniform(0, delay))  # noqa: S311 -- spreads tries, keeps no secret
            delay = min(2 * delay, LONGEST_DELAY_S)
        if reply.status is None or not 200 <= reply.status < 300:  # noqa: PLR2004 -- HTTP's own lines
            told = reply.fault or f"status {reply.status}"
            _log.warning("message %d of call %d dropped: %s", message.number, message.call, told)
            await self.on_refused(message, reply.status)

    async def _post(self, message: Outgoing) -> Reply:
        headers = {IDEMPOTENCY_HEADER: f"{self._store.name}-{message.number}"}
        if self._credential is not None:
            headers |= self._credential.headers("POST", message.url, message.body)
        terms = Terms(message.caller, comes_again=True, only_once=is_taken_once(self._credential))
        return await self._courier.post(message.url, message.body, headers, terms=terms)


async def _leave_it(_message: Outgoing, _status: int | None) -> None:
    """Do nothing about a message that was refused."""
