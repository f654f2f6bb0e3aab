"""Who may run now: shared and exclusive turns, resource locks, and at most so many at once.

The rule, in full. Two calls conflict if one of them must run alone, or if both claim a resource and at least one of
them exclusively. A call gets its turn, with all of its claims at once, as soon as

1. it conflicts with no call that is running,
2. it conflicts with no call that came before it and is still waiting, and
3. fewer than `max_parallel` calls are running; if several wait for this only, the first come is the first to go.

So conflicting calls run in the order in which they came, nobody is overtaken for ever, and a call never waits behind
one that it does not conflict with. Since a call waits only for those who came before it, no circle can close.

A call made by a tool that itself holds a turn (`within`) would wait for ever behind those who wait for its caller.
Therefore it never conflicts with the calls that led to it, passes everyone who is not running yet, and takes over its
caller's place in `max_parallel`. While it waits or runs, a caller that shares the gate counts as resting, so two such
callers do not keep each other's exclusive calls out for ever. What remains are two callers that each hold what the
other's nested call wants: the call that would close the circle is refused.
"""

import asyncio
from collections.abc import Iterator
from heapq import heappop, heappush
from sys import maxsize

from agenttool.errors import ConfigError, ToolFailure
from agenttool.records import (
    AbortReason,
    ErrorClass,
    OrderingPolicy,
    ParallelClasses,
    Phase,
    Recoverability,
    RetryGuidance,
    SchedulerPolicy,
    ToolError,
)
from agenttool.scheduler.lines import SHARED, Line, Turn
from agenttool.scheduler.locks import claims
from agenttool.scheduler.safety import CallFacts

WOULD_DEADLOCK = ToolError(
    error_class=ErrorClass.CANCELED,
    error_code="would_deadlock",
    message="this nested call and another would each wait for what the other's caller holds; try again a little later",
    recoverability=Recoverability.RETRYABLE,
    retry=RetryGuidance(safe=True),
    phase=Phase.SCHEDULE,
    abort_reason=AbortReason.FALLBACK,
)


class Gate:
    """Hands out turns within one event loop. Every turn that was handed out must be given back with `leave`."""

    def __init__(self, policy: SchedulerPolicy | None = None) -> None:
        """Take the policy of the calls that will come; none means no limit, and only the calls' own facts count.

        A policy's own `resource_locks` are claimed by each of its calls.

        Raises:
            ConfigError: `max_parallel` would let nothing run.
        """
        self._limit = _limit_of(policy)
        self._solo = _solo_classes(policy.parallel_classes if policy else None)
        self._policy_locks = (policy.resource_locks or ()) if policy else ()
        self._is_particular = bool(self._solo or self._policy_locks)
        self._taken = 0
        self._everyone = Line()
        self._lines: dict[str, Line] = {}
        self._ready: list[tuple[int, Turn]] = []
        self._families = 0
        self._nested: dict[Turn, None] = {}
        self._tickets = 0

    @property
    def is_idle(self) -> bool:
        """Tell whether nobody runs and nobody waits."""
        everyone = self._everyone
        return not (everyone.inside or everyone.waiting or self._lines or self._nested or self._running)

    @property
    def is_wanted(self) -> bool:
        """Tell whether somebody waits for nothing but a place."""
        return bool(self._ready)

    @property
    def _running(self) -> int:
        """How many places of `max_parallel` are taken: by turns, and by those who have the common one."""
        return self._taken + self._everyone.shared

    def try_enter(self, facts: CallFacts, within: Turn | None = None) -> Turn | None:
        """Give a turn if there is nothing to wait for; otherwise leave no trace."""
        if within is None and facts.claims_nothing and not self._is_particular and not self._nested:
            # The path of nearly every call: one line, no rules but the call's own.
            everyone = self._everyone
            if everyone.exclusives or everyone.waiting or self._taken + everyone.shared >= self._limit:
                return None
            everyone.shared += 1
            return SHARED
        return self._try(self._turn(facts, within))

    def own(self, turn: Turn) -> Turn:
        """Give a turn of its own to a running call that had the common one, so that calls can be made within it."""
        if turn is not SHARED:
            return turn
        everyone = self._everyone
        everyone.shared -= 1
        self._taken += 1
        own = Turn(running=True)
        everyone.enter(own, exclusive=False)
        return own

    async def enter(self, facts: CallFacts, within: Turn | None = None) -> Turn:
        """Wait for a turn. Whoever is canceled while waiting leaves no trace, and blocks nobody.

        Raises:
            ToolFailure: the wait of a nested call could never end.
        """
        at_once = self.try_enter(facts, within)
        if at_once is not None:
            return at_once
        turn = self._turn(facts, within)
        turn.started = asyncio.get_running_loop().create_future()
        self._queue(turn)
        try:
            await turn.started
        except BaseException:
            # The turn may have been granted in the very moment in which its owner was canceled.
            self._end(turn)
            raise
        return turn

    def leave(self, turn: Turn) -> None:
        """Give a turn back, and start whoever may run now."""
        everyone = self._everyone
        if turn is not SHARED or everyone.waiting or self._ready or self._nested:
            self._end(turn)
            return
        everyone.shared -= 1

    def _turn(self, facts: CallFacts, within: Turn | None) -> Turn:
        turn = Turn()
        turn.alone = facts.alone or not self._solo.isdisjoint(facts.classes)
        turn.locks = facts.locks
        if self._policy_locks:
            turn.locks = claims((*(facts.record.resource_locks or ()), *self._policy_locks))
        if within is SHARED:
            raise AssertionError("whoever makes calls needs a turn of its own; see `own`")
        if within is not None and within.running:
            turn.within = within
        return turn

    def _try(self, turn: Turn) -> Turn | None:
        caller = turn.within
        if caller is None:
            may_run = self._running < self._limit and self._admits(turn) and self._is_clear(turn)
        else:
            self._count_nested(caller, 1)
            may_run = self._may_nest(turn) and not any(self._may_nest(earlier) for earlier in self._nested)
            if not may_run:
                self._count_nested(caller, -1)
        if not may_run:
            return None
        self._enter_lines(turn)
        self._run(turn)
        return turn

    def _admits(self, turn: Turn) -> bool:
        if not self._everyone.admits(exclusive=turn.alone):
            return False
        for resource, exclusive in turn.locks:
            line = self._lines.get(resource)
            if line is not None and not line.admits(exclusive=exclusive):
                return False
        return True

    def _enter_lines(self, turn: Turn) -> None:
        self._everyone.enter(turn, exclusive=turn.alone)
        for resource, exclusive in turn.locks:
            self._line(resource).enter(turn, exclusive=exclusive)

    def _line(self, resource: str) -> Line:
        line = self._lines.get(resource)
        if line is None:
            line = self._lines[resource] = Line()
        return line

    def _queue(self, turn: Turn) -> None:
        self._tickets += 1
        turn.ticket = self._tickets
        if turn.within is not None:
            self._count_nested(turn.within, 1)
            if self._closes_circle(turn):
                self._count_nested(turn.within, -1)
                raise ToolFailure(WOULD_DEADLOCK)
            self._nested[turn] = None
            # Its caller rests from now on, which may be what another one waited for.
            self._start_whoever_may()
            return
        turn.missing = not self._everyone.join(turn, exclusive=turn.alone)
        for resource, exclusive in turn.locks:
            turn.missing += not self._line(resource).join(turn, exclusive=exclusive)
        if not turn.missing:
            heappush(self._ready, (turn.ticket, turn))

    def _run(self, turn: Turn) -> None:
        turn.running = True
        caller = turn.within
        if caller is None or caller.busy or not caller.running:
            self._taken += 1
        if caller is not None:
            caller.busy += 1
        # Whoever was canceled a moment ago gives the turn back as soon as its task wakes up.
        if turn.started is not None and not turn.started.done():
            turn.started.set_result(None)

    def _end(self, turn: Turn) -> None:
        """Take a turn out, waiting or running, and let others move up."""
        if turn is not SHARED:
            if turn.running:
                self._stop_counting(turn)
            turn.over = True
        if turn.within is not None:
            self._nested.pop(turn, None)
            self._count_nested(turn.within, -1)
        self._quit(self._everyone, turn)
        for resource, _ in turn.locks:
            line = self._line(resource)
            self._quit(line, turn)
            if not line.inside:
                del self._lines[resource]
        if self._nested or self._ready:
            self._start_whoever_may()

    def _quit(self, line: Line, turn: Turn) -> None:
        for entered in line.quit(turn):
            entered.missing -= 1
            if not entered.missing:
                heappush(self._ready, (entered.ticket, entered))

    def _stop_counting(self, turn: Turn) -> None:
        """Give back the place in `max_parallel`, which a nested call had from its caller."""
        turn.running = False
        if not turn.busy:
            self._taken -= 1
        caller = turn.within
        if caller is not None:
            caller.busy -= 1
            if caller.running and not caller.busy:
                self._taken += 1

    def _start_whoever_may(self) -> None:
        for turn in [turn for turn in self._nested if self._may_nest(turn)]:
            # The one before may have taken what this one needs.
            if self._may_nest(turn):
                del self._nested[turn]
                self._enter_lines(turn)
                self._run(turn)
        held_up: list[tuple[int, Turn]] = []
        while self._ready and self._running < self._limit:
            ticket, turn = heappop(self._ready)
            if turn.over:
                continue
            if self._is_clear(turn):
                self._run(turn)
            else:
                held_up.append((ticket, turn))
        for entry in held_up:
            heappush(self._ready, entry)

    def _count_nested(self, caller: Turn, step: int) -> None:
        caller.nested += step
        self._families += step

    def _may_nest(self, turn: Turn) -> bool:
        caller = turn.within
        inherits_place = caller is not None and caller.running and not caller.busy
        return (inherits_place or self._running < self._limit) and next(self._in_the_way(turn), None) is None

    def _is_clear(self, turn: Turn) -> bool:
        """Tell whether no nested call, which is in no line before it starts, stands in the way of another."""
        return not self._families or (
            next(self._in_the_way(turn), None) is None
            and not any(turn.conflicts_with(nested) for nested in self._nested)
        )

    def _in_the_way(self, turn: Turn) -> Iterator[Turn]:
        """Give the running turns that conflict with one that is not, its own callers left out."""
        if turn.alone and self._everyone.shared:
            yield SHARED
        for other, exclusive in self._everyone.inside.items() if turn.alone or self._everyone.exclusives else ():
            is_resting = other.nested and not exclusive
            if (exclusive or (turn.alone and not is_resting)) and other.running and not turn.is_within(other):
                yield other
        for resource, mine in turn.locks:
            line = self._lines.get(resource)
            for other, exclusive in line.inside.items() if line else ():
                if (mine or exclusive) and other.running and not turn.is_within(other):
                    yield other

    def _closes_circle(self, turn: Turn) -> bool:
        """Tell whether those in the way of a nested call wait, through nested calls of their own, for its callers."""
        callers = set(turn.ancestors())
        met: set[Turn] = set()
        ahead = list(self._in_the_way(turn))
        while ahead:
            other = ahead.pop()
            if other in callers:
                return True
            if other not in met:
                met.add(other)
                for waiting in self._nested:
                    if waiting.is_within(other):
                        ahead.extend(self._in_the_way(waiting))
        return False


def _limit_of(policy: SchedulerPolicy | None) -> int:
    if policy is None:
        return maxsize
    limit = maxsize if policy.max_parallel is None else policy.max_parallel
    if limit < 1:
        raise ConfigError(f"max_parallel must be at least 1, got {limit!r}; leave it out for no limit")
    return 1 if policy.ordering_policy == OrderingPolicy.SERIAL else limit


def _solo_classes(classes: ParallelClasses | None) -> frozenset[str]:
    """Give the classes of calls that must run alone: of those a policy speaks of, all that it does not allow."""
    if classes is None:
        return frozenset()
    names = ("read_only", "write", "destructive", "open_world")
    return frozenset(name for name in names if not getattr(classes, name))
