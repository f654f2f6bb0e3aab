"""Append facts to the log, in order, reject invalid status transitions, and read events, once or continuously."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Protocol, cast

from agenttool.errors import StoreError
from agenttool.journal.projection import events_of
from agenttool.journal.steps import AFTER_PLAN
from agenttool.ports.facts import Fact, FactData, Step
from agenttool.ports.stores import DurableLog, EventLog
from agenttool.ports.world import Clock
from agenttool.records import InvocationId, InvocationStatus, ToolEvent, ToolId

READ_AHEAD = 256
"""How many facts are read at a time."""


class Noted(Protocol):
    """The part of a call that the journal uses."""

    invocation_id: InvocationId
    tool_id: ToolId
    status: InvocationStatus | None
    events: int


class ForwardClock:
    """The wall clock, except that it never goes back, so that the records of a call are in the order of their times.

    While the wall clock is behind, because it was set back, the time advances with the monotonic clock.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall_ns = clock.now_ns
        self._last_ns = 0
        self._behind = (0, 0)
        """The time, and that of the monotonic clock, when the wall clock was found to be behind."""

    def now_ns(self) -> int:
        """Return the time, never earlier than one that was returned before."""
        moment = self._wall_ns()
        if moment >= self._last_ns:
            self._last_ns = moment
            return moment
        steady_ns = self._clock.moment().steady_ns
        moment = self._behind[0] + steady_ns - self._behind[1]
        if moment < self._last_ns:  # it was not behind before
            self._behind = (self._last_ns, steady_ns)
            return self._last_ns
        self._last_ns = moment
        return moment

    def continue_after(self, moment_ns: int) -> None:
        """Return no time before one that another process recorded for a call that this process continues."""
        self._last_ns = max(self._last_ns, moment_ns)


class Journal:
    """The writer of facts. It wakes listeners after each fact."""

    def __init__(self, *, clock: Clock, log: EventLog) -> None:
        self.log = log
        self.clock = ForwardClock(clock)
        self._now = self.clock.now_ns
        self._append = log.append
        self._listeners: list[Callable[[], None]] = []
        self.is_closed = False
        """Whether no more facts will be appended."""

    def note(self, call: Noted, step: Step, data: FactData = None, moment: int = 0) -> int:
        """Append that a call took a step, now or at a time that has just passed; return the time.

        A status that may not follow the present one is a bug and stops the call.
        """
        if call.status not in step.after:
            step = _after_plan(call, step)
        moment = moment or self._now()
        self._append(Fact(step, moment, call.events, call.invocation_id, call.tool_id, data))
        call.events += step.events
        if step.last is not None:
            call.status = step.last
        if self._listeners:
            self._wake()
        return moment

    def note_apart(self, step: Step, data: FactData = None) -> int:
        """Append a fact that belongs to no call, such as a declaration."""
        moment = self._now()
        self._append(Fact(step, moment, 0, None, None, data))
        if self._listeners:
            self._wake()
        return moment

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` when there are new facts; return the function that stops this."""
        self._listeners.append(wake)
        stop = cast("DurableLog", self.log).listen(wake) if self.log.durable else None

        def leave() -> None:
            self._listeners.remove(wake)
            if stop is not None:
                stop()

        return leave

    def close(self) -> None:
        """Wake all listeners for the last time."""
        self.is_closed = True
        for wake in tuple(self._listeners):
            wake()

    def _wake(self) -> None:
        """Wake the listeners; a durable log does so itself, once facts can be read, also those of other processes."""
        if not self.log.durable:
            for wake in tuple(self._listeners):
                wake()


def _after_plan(call: Noted, step: Step) -> Step:
    """Return what is left of a first step for a call that was recorded as planned; any other step is a bug."""
    rest = AFTER_PLAN.get(step) if call.status is InvocationStatus.PLANNED else None
    if rest is None:
        raise AssertionError(f"a call may not take the step {step.name!r} when it is {call.status!r}")
    return rest


async def follow(journal: Journal, after: int) -> AsyncGenerator[tuple[int, ToolEvent]]:
    """Yield events after a position, or new ones if it is negative, each with the position to continue from.

    Only the last event of a fact has its position: a caller that stops earlier reads the whole fact again.
    It ends when the journal is closed and all events were yielded.
    """
    async with aclosing(follow_facts(journal, after)) as facts:
        async for position, fact in facts:
            events = list(events_of(fact, position=position))
            for event in events:
                yield (position if event is events[-1] else position - 1), event


async def follow_facts(journal: Journal, after: int) -> AsyncGenerator[tuple[int, Fact]]:
    """Yield facts after a position, or new ones if it is negative, each with its position.

    It ends when the journal is closed and all facts were yielded.
    """
    after = journal.log.last if after < 0 else after
    news = asyncio.Event()
    stop = journal.listen(news.set)
    try:
        while True:
            is_last = journal.is_closed
            news.clear()
            while facts := journal.log.read(after, READ_AHEAD):
                for position, fact in facts:
                    after = position
                    yield position, fact
            if is_last:
                return
            await news.wait()
    except StoreError:
        if not journal.is_closed:  # else the file was closed before all events were read; the caller continues later
            raise
    finally:
        stop()
