"""The events of a journal for many streams: each is encoded once, and retained for slow readers."""

import asyncio
import random
from bisect import bisect_right
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import aclosing, contextmanager
from functools import cache, lru_cache
from typing import NamedTuple

from agenttool.codec import json_bytes, object_of
from agenttool.codec.moments import timestamp
from agenttool.history.listed_call import tool_name
from agenttool.journal import steps
from agenttool.journal.projection import invocation_of, members_of
from agenttool.ports.facts import Fact, Step
from agenttool.records import EventType, InvocationId, JsonObject
from agenttool.runtime import Runtime

RETAINED = 5_000
"""How many messages are retained at least, for readers that are slow or reconnect."""

SURPLUS = 1_000
"""How many more messages there may be before the oldest are deleted, because each deletion moves all that are left."""

HEARTBEAT_S = 15.0
CHECK_S = 2.0
"""How often a stream checks whether its credentials are still valid."""

BATCH = 100
"""The maximum number of messages that are sent at a time."""

SPREAD_S = 0.005
"""The mean time between the wake-ups of two streams, so that many readers do not delay calls."""


_DETAILED = frozenset(each for each in EventType if each.is_terminal) | {EventType.PERMISSION_REQUESTED}
"""The events whose message has more members than the type: the approval, or the class of the error."""


class StreamMessage(NamedTuple):
    """One message of the stream, encoded, with the position and the call of its fact."""

    position: int
    call: InvocationId | None
    text: bytes


def encode(event: str, data: JsonObject, position: int | None = None) -> bytes:
    """Return a message in the format of server-sent events."""
    identity = b"" if position is None else b"id: %d\n" % position
    return b"event: %s\n%sdata: %s\n\n" % (event.encode(), identity, json_bytes(data))


class EventHub:
    """Follows the journal of a runtime while a stream is open; the journal has the events of all processes."""

    def __init__(self, runtime: Runtime) -> None:
        """Take a runtime; `run` follows its journal."""
        self._runtime = runtime
        self._retained: list[StreamMessage] = []
        self._news = asyncio.Event()
        self.streams = 0
        """How many streams are open."""
        self.closed: str | None = None
        """Why all streams end; None while they may continue."""
        self._is_needed = asyncio.Event()
        """Set while the journal is followed."""
        self._actor = lru_cache(RETAINED)(self._read_actor)
        self._first = self._followed = 0
        """All messages between these positions are retained, as long as the journal is followed."""

    @property
    def position(self) -> int:
        """The position of the last fact."""
        return self._runtime.inspection.log.last

    async def run(self) -> None:
        """Follow the journal whenever there are streams, until the runtime is closed."""
        while self.closed is None:
            await self._is_needed.wait()
            async with aclosing(self._runtime.inspection.facts(self._followed)) as facts:
                async for position, fact in facts:
                    if not self.streams:
                        self._is_needed.clear()
                        break
                    self._add(position, fact)
                else:
                    return

    def _add(self, position: int, fact: Fact) -> None:
        self._followed, text = position, _message(position, fact)
        if text is None:
            return
        if len(self._retained) == RETAINED + SURPLUS:
            self._first = self._retained[SURPLUS - 1].position
            del self._retained[:SURPLUS]
        self._retained.append(StreamMessage(position, fact.invocation_id, text))
        self._news.set()

    def close(self, reason: str) -> None:
        """End all streams."""
        self.closed = reason
        self._news.set()

    @contextmanager
    def _following(self, begin: int) -> Generator[None]:
        """Follow the journal within this context; the first open stream sets the position to begin at."""
        self.streams += 1
        if not self._is_needed.is_set():
            self._first = self._followed = begin
            self._retained.clear()
            self._is_needed.set()
        try:
            yield
        finally:
            self.streams -= 1

    def _read_actor(self, call: InvocationId) -> str | None:
        """Return the actor of a call."""
        found = invocation_of(self._runtime.inspection.log.facts_of(call))
        return found and found.actor_ref

    def _is_for(self, actor: str | None, call: InvocationId | None) -> bool:
        """Return whether a reader gets the messages of a call: all of them, or only an actor those of its own."""
        return actor is None or (call is not None and self._actor(call) == actor)

    async def stream(self, after: int | None, actor: str | None = None) -> AsyncGenerator[bytes]:
        """Yield messages after a position, or new ones; empty bytes every `CHECK_S` without messages.

        With an actor, only messages of calls of that actor are yielded.

        A reader that missed messages gets `reset`: its position is too old, or it reads too slowly.
        """
        last = self.position
        is_known = after is not None and max(0, last - RETAINED) <= after <= last
        begin = after if after is not None and is_known else last
        with self._following(begin):
            first = self._first
            yield b"retry: 2000\n" + encode("ready", {"position": last})
            if after is not None and not is_known:
                yield encode("reset", {"position": last}, last)
            for text in self._messages(begin, first, actor):
                yield text
            at = max(begin, first)
            while self.closed is None:
                if at < self._first:
                    at = self._followed
                    yield encode("reset", {"position": at}, at)
                place = bisect_right(self._retained, at, key=lambda each: each.position)
                if batch := self._retained[place : place + BATCH]:
                    at = batch[-1].position
                    yield b"".join(each.text for each in batch if self._is_for(actor, each.call))
                elif not await self._wait_for_news():
                    yield b""
            yield encode("closed", {"reason": self.closed})

    def _messages(self, after: int, until: int, actor: str | None) -> Iterator[bytes]:
        """Yield the messages between two positions that are not retained, several at a time."""
        log = self._runtime.inspection.log
        while after < until and (facts := log.read(after, BATCH)):
            after = facts[-1][0]
            texts = (
                _message(position, fact)
                for position, fact in facts
                if position <= until and self._is_for(actor, fact.invocation_id)
            )
            yield b"".join(text for text in texts if text is not None)

    async def _wait_for_news(self) -> bool:
        """Wait for the next message, and a random time that spreads the streams; return False after `CHECK_S`."""
        if self.closed is None:
            self._news.clear()
        try:
            async with asyncio.timeout(CHECK_S):
                await self._news.wait()
        except TimeoutError:
            return False
        await asyncio.sleep(random.uniform(0, SPREAD_S * self.streams))  # noqa: S311 -- no secret
        return True


def _message(position: int, fact: Fact) -> bytes | None:
    at = timestamp(fact.at_ns)
    if fact.step is steps.ANSWER_GIVEN:
        approval = object_of(fact.data).get("approval_id")
        return encode("answer", {"position": position, "at": at, "approval_id": approval}, position)
    types = _event_types(fact.step)
    if not types:
        return None
    last = types[-1].value
    if fact.invocation_id is None:
        data: JsonObject = {"position": position, "type": last, "at": at}
        return encode("catalog", {**data, "tool": tool_name(fact.tool_id) or None}, position)
    details = {name: value for each in types if each in _DETAILED for name, value in members_of(fact, each).items()}
    status = fact.step.last and fact.step.last.value
    return encode(
        "call",
        {
            "position": position,
            "type": last,
            "types": [each.value for each in types],
            "at": at,
            "invocation_id": fact.invocation_id,
            "tool": tool_name(fact.tool_id),
            "tool_id": fact.tool_id,
            "status": status,
            "approval_id": details.get("approval_id"),
            "error_class": details.get("error_class"),
        },
        position,
    )


@cache
def _event_types(step: Step) -> tuple[EventType, ...]:
    return tuple(event for event, _ in step.transitions if event is not None)
