"""Laws of the gate, for any set of callers: against the rule as the gate's own page states it, and for calls within calls."""

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.errors import ToolFailure
from agenttool.records import SchedulerPolicy, SchedulingFacts
from agenttool.scheduler.call_facts import CallFacts
from agenttool.scheduler.limiter import CallLimiter, LockQueue, Permit, Scopes

RESOURCES = ("a", "b", "c")
CONVERSATIONS = ("ann", "bob")
STATES = (None, "process", "server")


def call_facts(*, alone, locks):
    return CallFacts(
        record=SchedulingFacts(),
        alone=alone,
        classes=frozenset(),
        locks=tuple(locks.items()),
        claims_nothing=not alone and not locks,
    )


@dataclass(frozen=True)
class Asked:
    """A call: its facts, its conversation, and the state that its tool shares."""

    facts: CallFacts
    conversation: str
    state: str | None

    def scope(self, gate):
        return Scopes(gate, self.conversation)[self.state]

    def claims(self, *, alone=None):
        """Give what it claims, and whether exclusively."""
        alone = self.facts.alone if alone is None else alone
        state = {} if self.state is None else {("state", self.state): alone}
        return {("conversation", self.conversation): alone, **state, **dict(self.facts.locks)}


claims = st.builds(
    call_facts,
    alone=st.sampled_from([False, False, False, True]),
    locks=st.dictionaries(st.sampled_from(RESOURCES), st.booleans(), max_size=2),
)
asked = st.builds(Asked, claims, st.sampled_from(CONVERSATIONS), st.sampled_from(STATES))
limits = st.sampled_from([None, 1, 2, 3])
steps = st.lists(
    st.one_of(asked, st.tuples(st.sampled_from(["leave", "give up", "both at once"]), st.integers(0, 9))),
    min_size=1,
    max_size=40,
)


def conflict(mine, theirs):
    return any(each in theirs and (exclusive or theirs[each]) for each, exclusive in mine.items())


class Rule:
    """The three sentences of the gate's page, as simple code."""

    def __init__(self, limit):
        self.limit = limit or 10**9
        self.running = {}
        self.waiting = {}

    def let_in(self):
        ahead = []
        for call, its_claims in list(self.waiting.items()):
            free = not any(conflict(its_claims, other) for other in [*self.running.values(), *ahead])
            if free and len(self.running) < self.limit:
                self.running[call] = self.waiting.pop(call)
            else:
                ahead.append(its_claims)


def gate_for(limit):
    return CallLimiter(SchedulerPolicy(scheduler_policy_id="s", max_parallel=limit))


async def settle():
    for _ in range(4):
        await asyncio.sleep(0)


class Play:
    """A gate and the rule side by side, going through the same steps."""

    def __init__(self, limit):
        self.gate, self.rule = gate_for(limit), Rule(limit)
        self.turns, self.tasks = {}, {}

    async def arrive(self, call, asked):
        async def visit():
            self.turns[call] = await self.gate.acquire(asked.facts, asked.scope(self.gate))

        self.rule.waiting[call] = asked.claims()
        self.tasks[call] = asyncio.create_task(visit())
        await self.compare()

    async def go(self, what, which):
        if what != "leave" and self.rule.waiting:
            waiting = list(self.rule.waiting)
            call = waiting[which % len(waiting)]
            del self.rule.waiting[call]
            self.tasks[call].cancel()
        if what != "give up" and self.rule.running:
            running = list(self.rule.running)
            call = running[which % len(running)]
            del self.rule.running[call]
            self.gate.release(self.turns.pop(call))
        await self.compare()

    async def compare(self):
        self.rule.let_in()
        await settle()
        assert set(self.turns) == set(self.rule.running)


@given(steps, limits)
def test_whichever_calls_come_leave_or_give_up_the_gate_keeps_its_rule(steps, limit):
    async def run():
        play = Play(limit)
        for number, step in enumerate(steps):
            await (play.arrive(number, step) if isinstance(step, Asked) else play.go(*step))
        while play.rule.running:
            await play.go("leave", 0)
        assert not play.rule.waiting
        assert play.gate.is_idle

    asyncio.run(run())


@dataclass
class Program:
    """A call that makes calls, some of them at once."""

    asked: Asked
    at_once: bool
    makes: list["Program"] = field(default_factory=list)


programs = st.recursive(
    st.builds(Program, asked, st.booleans()),
    lambda inner: st.builds(Program, asked, st.booleans(), st.lists(inner, max_size=3)),
    max_leaves=8,
)


def may_be_together(one, other):
    """Callers and the calls they made; and a sharing caller that rests while another's nested call is alone."""
    (turn, asked), (its_turn, its_asked) = one, other
    if turn.is_within(its_turn) or its_turn.is_within(turn) or not conflict(asked.claims(), its_asked.claims()):
        return True
    resting = (turn.nested and not turn.alone) or (its_turn.nested and not its_turn.alone)
    return resting and not conflict(asked.claims(alone=False), its_asked.claims(alone=False))


@given(st.lists(programs, min_size=1, max_size=4), limits)
def test_calls_within_calls_all_end_and_unsafe_ones_never_overlap(batch, limit):
    async def run():
        gate = gate_for(limit)
        running = []

        async def execute(program, within=None):
            try:
                turn = await gate.acquire(program.asked.facts, program.asked.scope(gate), within)
            except ToolFailure:
                return
            if program.makes:
                turn = gate.own_permit(turn)
            own = (turn, program.asked)
            running.append(own)
            assert all(may_be_together(own, other) for other in running if other is not own)
            assert limit is None or sum(not other.busy for other, _ in running) <= limit
            await asyncio.sleep(0)
            if program.at_once:
                await asyncio.gather(*(execute(inner, turn) for inner in program.makes))
            else:
                for inner in program.makes:
                    await execute(inner, turn)
            running.remove(own)
            gate.release(turn)

        everyone = asyncio.gather(*(execute(program) for program in batch))
        for _ in range(3000):
            if everyone.done():
                break
            await asyncio.sleep(0)
        assert everyone.done(), "somebody waits for ever"
        everyone.result()
        assert gate.is_idle

    asyncio.run(run())


def test_a_line_lets_in_readers_together_and_a_writer_by_itself():
    line = LockQueue()
    first, second, writer, third = Permit(), Permit(), Permit(), Permit()
    assert line.join(first, exclusive=False)
    assert line.join(second, exclusive=False)
    assert not line.join(writer, exclusive=True)
    assert not line.join(third, exclusive=False)
    first.over = second.over = True
    assert line.quit(first) == []
    assert line.quit(second) == [writer]
    writer.over = True
    assert line.quit(writer) == [third]


@pytest.mark.parametrize("gone", [0, 1])
def test_a_call_that_leaves_the_line_is_passed_over(gone):
    line = LockQueue()
    inside, waiting = Permit(), [Permit(), Permit()]
    line.join(inside, exclusive=True)
    for turn in waiting:
        line.join(turn, exclusive=True)
    waiting[gone].over = True
    assert line.quit(waiting[gone]) == []
    inside.over = True
    assert line.quit(inside) == [waiting[1 - gone]]
