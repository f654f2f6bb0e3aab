"""Limit which calls run at the same time: shared and exclusive permits, resource locks, and `max_parallel`.

A call claims its conversation, the state that its tool shares with other tools, and the resources that it locks. Two
calls conflict if both claim the same thing and at least one of them exclusively. An exclusive call claims its
conversation and its state exclusively. A call gets its permit, with all of its claims at once, as soon as

1. it conflicts with no running call,
2. it conflicts with no earlier call that still waits, and
3. fewer than `max_parallel` calls are running; calls that wait only for this start in order of arrival.

So conflicting calls run in order of arrival, no call starves, and a call never waits behind one that it does not
conflict with. A call waits only for earlier calls, so no deadlock is possible.

Nested calls (`within`) are the exception, because they would wait for calls that wait for their caller. A nested call
never conflicts with its callers, passes all calls that are not running yet, and uses its caller's slot of
`max_parallel`. While it waits or runs, a caller that is not exclusive does not block exclusive calls of other callers.
If two callers each hold what the other's nested call needs, the call that would complete the deadlock is refused.

A call that waits for a person, a client or a remote side holds nothing (`begin_wait`): it leaves its queues and its
slot, as long as none of its nested calls waits for a permit or runs. So do the callers that wait for it. Each acquires
its claims again before its own code continues (`regain`).
"""

import asyncio
from asyncio import Future
from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from sys import maxsize
from weakref import WeakSet, WeakValueDictionary

from agenttool.errors import ConfigError, ToolFailure
from agenttool.records import (
    AbortReason,
    ErrorClass,
    Live,
    OrderingPolicy,
    ParallelClasses,
    Phase,
    Recoverability,
    RetryGuidance,
    SchedulerPolicy,
    ToolError,
    replace,
)
from agenttool.scheduler.call_facts import CallFacts, claims


class LockQueue:
    """The calls that hold or want one thing, in order of arrival.

    Attributes:
        is_scope: whether it is a conversation or a shared state, and not a resource.
        inside: the permits that hold it, and whether exclusively.
        shared: how many further calls hold it, each with a `Scope` as its permit.
        scopes: the scopes that it belongs to.
    """

    __slots__ = ("__weakref__", "exclusives", "inside", "is_scope", "scopes", "shared", "waiting")

    def __init__(self, *, is_scope: bool = False) -> None:
        self.is_scope = is_scope
        self.inside: dict[Permit, bool] = {}
        self.shared = 0
        self.exclusives = 0
        self.waiting: deque[tuple[Permit, bool]] = deque()
        self.scopes: WeakSet[Scope] = WeakSet()

    def admits(self, *, exclusive: bool) -> bool:
        """Return whether a new permit would be inside at once."""
        return not self.waiting and not self.bars(exclusive=exclusive)

    def bars(self, *, exclusive: bool) -> bool:
        """Return whether the holders block others."""
        return bool(self.inside) or self.shared > 0 if exclusive else self.exclusives > 0

    def enter(self, permit: "Permit", *, exclusive: bool) -> None:
        """Put a permit inside, before all that wait."""
        self.inside[permit] = exclusive
        self.exclusives += exclusive

    def join(self, permit: "Permit", *, exclusive: bool) -> bool:
        """Join the queue; return whether the permit is inside at once."""
        if self.admits(exclusive=exclusive):
            self.enter(permit, exclusive=exclusive)
            return True
        self.waiting.append((permit, exclusive))
        return False

    def quit(self, permit: "Permit") -> list["Permit"]:
        """Remove a permit from the queue; return the permits that got inside because of it."""
        if type(permit) is Scope:
            self.shared -= 1
        else:
            self.exclusives -= self.inside.pop(permit, False)
        entered: list[Permit] = []
        while self.waiting:
            first, exclusive = self.waiting[0]
            if not first.over:
                if self.bars(exclusive=exclusive):
                    break
                self.enter(first, exclusive=exclusive)
                entered.append(first)
            self.waiting.popleft()
        return entered


class Permit(Live, eq=False):
    """The right to run, requested or held.

    Attributes:
        alone: whether the call is exclusive by its facts.
        claims: the queues that it must be inside of, and whether exclusively.
        within: the permit of the call that made this one.
        nested: how many of its nested calls wait or run.
        busy: how many of those are running.
        missing: in how many queues it still waits.
        outside: for how many answers from outside it waits, also through nested calls that rest.
        resting: it was running, and holds nothing while it waits for these answers.
    """

    alone: bool = False
    running: bool = False
    claims: tuple[tuple[LockQueue, bool], ...] = ()
    within: "Permit | None" = None
    nested: int = 0
    busy: int = 0
    over: bool = False
    ticket: int = 0
    missing: int = 0
    outside: int = 0
    resting: bool = False
    started: "Future[None] | None" = None

    def ancestors(self) -> Iterator["Permit"]:
        """Return the permits of the calls that led to this one, nearest first."""
        permit = self.within
        while permit is not None:
            yield permit
            permit = permit.within

    def is_within(self, other: "Permit") -> bool:
        """Return whether the other is a caller of this one; such calls never conflict."""
        return any(ancestor is other for ancestor in self.ancestors())

    def conflicts_with(self, other: "Permit") -> bool:
        """Return whether the two must not run at once."""
        theirs = dict(other.claims)
        return any(queue in theirs and (exclusive or theirs[queue]) for queue, exclusive in self.claims)


class Scope(Permit, eq=False, weakref=True, kw_only=True):
    """A conversation and a shared state. It is the permit of all calls in it that are not exclusive and lock nothing.

    Such calls are only counted.
    """

    conversation: LockQueue
    state: LockQueue


class Scopes(dict[str | None, Scope]):
    """The scopes of one conversation, by the state that tools share; None is no shared state."""

    def __init__(self, limiter: "CallLimiter", conversation: str) -> None:
        super().__init__()
        self._limiter = limiter
        self._conversation = limiter.queue("conversation", conversation)

    def __missing__(self, state: str | None) -> Scope:
        """Make the scope of a shared state; one without a state has a queue of its own."""
        mine = self._conversation
        shared = LockQueue(is_scope=True) if state is None else self._limiter.queue("state", state)
        scope = Scope(running=True, conversation=mine, state=shared, claims=((mine, False), (shared, False)))
        mine.scopes.add(scope)
        shared.scopes.add(scope)
        self[state] = scope
        return scope


WOULD_DEADLOCK = ToolError(
    error_class=ErrorClass.CANCELED,
    error_code="would_deadlock",
    message="this call and another would deadlock: each would wait for what the other's callers hold; try again later",
    phase=Phase.SCHEDULE,
    abort_reason=AbortReason.FALLBACK,
)

WAITS_FOR_CALLER = replace(
    WOULD_DEADLOCK,
    message=(
        "this call would wait for the tool that makes it, so neither would end; make the call with `ctx.call`, or"
        " declare both tools `concurrency_safe`"
    ),
    recoverability=Recoverability.NOT_RECOVERABLE,
    retry=RetryGuidance(safe=False),
)


class CallLimiter:
    """Grants permits within one event loop. Every permit must be returned with `release`.

    Attributes:
        only_scope: the scope of all calls, for a limiter of one conversation.
    """

    def __init__(self, policy: SchedulerPolicy | None = None) -> None:
        """Store the policy; without one there is no limit, and only the facts of the calls count.

        Each call locks the `resource_locks` of the policy too.

        Raises:
            ConfigError: `max_parallel` would let nothing run.
        """
        self._limit = _limit_of(policy)
        self._solo = _solo_classes(policy.parallel_classes if policy else None)
        self._policy_locks = claims((policy.resource_locks or ()) if policy else ())
        self._is_particular = bool(self._solo or self._policy_locks)
        self._running = 0
        self._queues: WeakValueDictionary[tuple[str, str], LockQueue] = WeakValueDictionary()
        self._any_resource = LockQueue()
        self._waiting: dict[Permit, None] = {}
        self._ready: list[tuple[int, Permit]] = []
        self._nested_count = 0
        self._nested: dict[Permit, None] = {}
        self._last_ticket = 0
        self.only_scope = Scopes(self, "")[None]

    def queue(self, kind: str, name: str) -> LockQueue:
        """Return the queue of a resource, a conversation or a shared state; it exists as long as a permit has it."""
        found = self._queues.get((kind, name))
        if found is None:
            found = self._queues[kind, name] = LockQueue(is_scope=kind != "resource")
        return found

    @property
    def is_idle(self) -> bool:
        """Whether no call runs or waits."""
        queues = (self._any_resource, *self._queues.values())
        held = any(each.inside or each.shared or each.waiting for each in queues)
        return not (held or self._running or self._waiting or self._nested)

    @property
    def has_waiters(self) -> bool:
        """Whether a call waits only for a slot of `max_parallel`."""
        return bool(self._ready)

    def try_acquire(self, facts: CallFacts, scope: Scope, within: Permit | None = None) -> Permit | None:
        """Return a permit if the call need not wait, else None."""
        if within is None and facts.claims_nothing and not self._is_particular and not self._nested:
            # The hot path: only counts, and only the facts of the call itself.
            mine, state = scope.conversation, scope.state
            if mine.exclusives or mine.waiting or state.exclusives or state.waiting or self._running >= self._limit:
                return None
            mine.shared += 1
            state.shared += 1
            self._running += 1
            return scope
        return self._try(self.request(facts, scope, within))

    def own_permit(self, permit: Permit) -> Permit:
        """Return a permit of its own for a running call whose permit is its scope, so that it can make nested calls."""
        if not isinstance(permit, Scope):
            return permit
        own = Permit(running=True, claims=permit.claims)
        for queue, _ in permit.claims:
            queue.shared -= 1
            queue.enter(own, exclusive=False)
        return own

    async def acquire(self, facts: CallFacts, scope: Scope, within: Permit | None = None) -> Permit:
        """Return a permit, at once or as `wait` does."""
        return self.try_acquire(facts, scope, within) or await self.wait(self.request(facts, scope, within))

    async def wait(self, permit: Permit) -> Permit:
        """Wait until a requested permit is granted. A call that is canceled while it waits leaves the queue.

        Raises:
            ToolFailure: the wait of a nested call could never end.
        """
        permit.started = asyncio.get_running_loop().create_future()
        self._queue(permit)
        try:
            await permit.started
        except BaseException:
            # The permit may have been granted at the moment of the cancellation.
            self._end(permit)
            raise
        return permit

    def release(self, permit: Permit) -> None:
        """Release a permit, and start the calls that may run now."""
        if not isinstance(permit, Scope):
            self._end(permit)
            return
        self._running -= 1
        mine, state = permit.conversation, permit.state
        if mine.waiting or state.waiting or self._nested or self._ready:
            self._quit(mine, permit)
            self._quit(state, permit)
            self._start_ready()
            return
        mine.shared -= 1
        state.shared -= 1

    def begin_wait(self, permit: Permit) -> None:
        """Note that a running call waits for an answer from outside; `end_wait` ends this."""
        permit.outside += 1
        self._rest(permit)

    def end_wait(self, permit: Permit) -> None:
        """Note that an answer from outside arrived, or is not awaited any more."""
        permit.outside -= 1

    async def regain(self, permit: Permit) -> None:
        """Acquire the claims of a resting call again, unless it waits for another answer; return at once if it ended.

        Raises:
            ToolFailure: the wait of a nested call could never end.
        """
        if permit.resting and not permit.outside:
            permit.started = asyncio.get_running_loop().create_future()
            self._queue(permit)
            permit.resting = False
            if permit.within is not None:
                self.end_wait(permit.within)
            self._start_ready()
        if not (permit.running or permit.resting or permit.over) and permit.started is not None:
            await asyncio.wait([permit.started])

    def request(self, facts: CallFacts, scope: Scope, within: Permit | None) -> Permit:
        """Return the permit that a call needs; it is granted by `wait`. If its locks are unknown, it locks all."""
        permit = Permit()
        permit.alone = facts.alone or not self._solo.isdisjoint(facts.classes)
        found = {scope.conversation: permit.alone, scope.state: permit.alone}
        locks = (*(facts.locks or ()), *self._policy_locks)
        if locks or facts.locks is None:
            found[self._any_resource] = facts.locks is None
        for resource, exclusive in locks:
            queue = self.queue("resource", resource)
            found[queue] = exclusive or found.get(queue, False)
        permit.claims = tuple(found.items())
        if type(within) is Scope:
            raise AssertionError("a call that makes nested calls needs a permit of its own; see `own_permit`")
        if within is not None and not within.over:
            permit.within = within
        return permit

    def _try(self, permit: Permit) -> Permit | None:
        caller = permit.within
        if caller is None:
            is_admitted = all(queue.admits(exclusive=exclusive) for queue, exclusive in permit.claims)
            may_run = self._running < self._limit and is_admitted and self._is_clear(permit)
        else:
            self._count_nested(caller, 1)
            may_run = self._may_nest(permit) and not any(self._may_nest(earlier) for earlier in self._nested)
            if not may_run:
                self._count_nested(caller, -1)
        if not may_run:
            return None
        self._enter_queues(permit)
        self._run(permit)
        return permit

    def _enter_queues(self, permit: Permit) -> None:
        for queue, exclusive in permit.claims:
            queue.enter(permit, exclusive=exclusive)

    def _queue(self, permit: Permit) -> None:
        self._last_ticket += 1
        permit.ticket = self._last_ticket
        if permit.within is not None:
            self._count_nested(permit.within, 1)
            if self._would_deadlock(permit):
                self._count_nested(permit.within, -1)
                raise ToolFailure(WOULD_DEADLOCK)
            self._nested[permit] = None
            # Its caller no longer blocks exclusive calls, which may unblock another call.
            self._start_ready()
            return
        self._waiting[permit] = None
        permit.missing = sum(not queue.join(permit, exclusive=exclusive) for queue, exclusive in permit.claims)
        if not permit.missing:
            heappush(self._ready, (permit.ticket, permit))

    def _run(self, permit: Permit) -> None:
        permit.running = True
        self._waiting.pop(permit, None)
        caller = permit.within
        self._running += not permit.busy  # a call whose nested calls run lends its slot to them
        if caller is not None:
            self._running -= caller.running and not caller.busy
            caller.busy += 1
        # A call that was canceled meanwhile releases the permit as soon as its task wakes up.
        if permit.started is not None and not permit.started.done():
            permit.started.set_result(None)

    def _end(self, permit: Permit) -> None:
        """Remove a permit, waiting or running, and start others."""
        if permit.over:
            return
        if permit.running:
            self._stop_counting(permit)
        permit.over = True
        self._waiting.pop(permit, None)
        caller = permit.within
        if caller is not None:
            self._nested.pop(permit, None)
            if permit.resting:
                self.end_wait(caller)
            else:
                self._count_nested(caller, -1)
        permit.resting = False
        if permit.started is not None and not permit.started.done():
            permit.started.set_result(None)
        self._leave_queues(permit)
        if caller is not None:
            self._rest(caller)

    def _rest(self, permit: Permit) -> None:
        """Make a running call hold nothing if it only waits for answers from outside, and then its callers, too."""
        if not permit.outside or permit.nested or not permit.running:
            return
        self._stop_counting(permit)
        permit.resting = True
        self._leave_queues(permit)
        caller = permit.within
        if caller is not None:
            self._count_nested(caller, -1)
            self.begin_wait(caller)

    def _leave_queues(self, permit: Permit) -> None:
        for queue, _ in permit.claims:
            self._quit(queue, permit)
        if self._nested or self._ready:
            self._start_ready()

    def _quit(self, queue: LockQueue, permit: Permit) -> None:
        for entered in queue.quit(permit):
            entered.missing -= 1
            if not entered.missing:
                heappush(self._ready, (entered.ticket, entered))

    def _stop_counting(self, permit: Permit) -> None:
        """Release the slot of `max_parallel`, which a nested call got from its caller."""
        permit.running = False
        if not permit.busy:
            self._running -= 1
        caller = permit.within
        if caller is not None:
            caller.busy -= 1
            if caller.running and not caller.busy:
                self._running += 1

    def _start_ready(self) -> None:
        for permit in [permit for permit in self._nested if self._may_nest(permit)]:
            # The one before may have taken what this one needs.
            if self._may_nest(permit):
                del self._nested[permit]
                self._enter_queues(permit)
                self._run(permit)
        held_up: list[tuple[int, Permit]] = []
        while self._ready and self._running < self._limit:
            ticket, permit = heappop(self._ready)
            if permit.over:
                continue
            if self._is_clear(permit):
                self._run(permit)
            else:
                held_up.append((ticket, permit))
        for entry in held_up:
            heappush(self._ready, entry)

    def _count_nested(self, caller: Permit, step: int) -> None:
        caller.nested += step
        self._nested_count += step

    def _may_nest(self, permit: Permit) -> bool:
        caller = permit.within
        inherits_slot = caller is not None and caller.running and not caller.busy
        return (inherits_slot or self._running < self._limit) and next(self._blockers(permit), None) is None

    def _is_clear(self, permit: Permit) -> bool:
        """Return whether no nested call blocks another; nested calls join queues only when they start."""
        return not self._nested_count or (
            next(self._blockers(permit), None) is None
            and not any(permit.conflicts_with(nested) for nested in self._nested)
        )

    def _blockers(self, permit: Permit) -> Iterator[Permit]:
        """Return the running permits that block one that is not running, without its callers."""
        for queue, mine in permit.claims:
            if mine and queue.shared:
                yield from queue.scopes
            for other, exclusive in queue.inside.items() if mine or queue.exclusives else ():
                is_lenient = queue.is_scope and other.nested
                if (exclusive or (mine and not is_lenient)) and other.running and not permit.is_within(other):
                    yield other

    def ahead_of(self, permit: Permit) -> set[Permit]:
        """Return the permits that one waits for, directly or not, or would wait for if it were queued now."""
        if permit.within is not None:
            return {*self._blockers(permit)}
        earlier = [each for each in self._waiting if each.ticket < (permit.ticket or maxsize)]
        found, together, ahead = dict(permit.claims), Permit(claims=permit.claims), set[Permit]()
        for other in (*reversed(earlier), *self._nested):
            if together.conflicts_with(other):
                ahead.add(other)
                found |= {queue: mine or found.get(queue, False) for queue, mine in other.claims}
                together.claims = tuple(found.items())
        return ahead | {*self._blockers(together)}

    def _would_deadlock(self, permit: Permit) -> bool:
        """Return whether the blockers of a nested call wait, through their nested calls, for its callers."""
        callers = set(permit.ancestors())
        met: set[Permit] = set()
        ahead = list(self._blockers(permit))
        while ahead:
            other = ahead.pop()
            if other in callers:
                return True
            if other not in met:
                met.add(other)
                for waiting in self._nested:
                    if waiting.is_within(other):
                        ahead.extend(self._blockers(waiting))
        return False


def _limit_of(policy: SchedulerPolicy | None) -> int:
    if policy is None:
        return maxsize
    limit = maxsize if policy.max_parallel is None else policy.max_parallel
    if limit < 1:
        raise ConfigError(f"max_parallel must be at least 1, got {limit!r}; leave it out for no limit")
    return 1 if policy.ordering_policy == OrderingPolicy.SERIAL else limit


def _solo_classes(classes: ParallelClasses | None) -> frozenset[str]:
    """Return the classes of calls that must run alone: those that `parallel_classes` does not allow."""
    if classes is None:
        return frozenset()
    names = ("read_only", "write", "destructive", "open_world")
    return frozenset(name for name in names if not getattr(classes, name))
