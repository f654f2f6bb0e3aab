import asyncio

import pytest

from agenttool.errors import ConfigError, ToolFailure
from agenttool.records import ErrorClass, ParallelClasses, ResourceLock, SchedulerPolicy, ToolInterface
from agenttool.scheduler.call_facts import safety_of
from agenttool.scheduler.limiter import CallLimiter, Scopes

SAFE = {"is_concurrency_safe": True}


def facts(*locks, **said):
    interface = ToolInterface(interface_id="i", tool_id="t", **said)
    return (safety_of(interface, locks=lambda _: locks) if locks else safety_of(interface)).facts_for({})


def shared(resource):
    return ResourceLock(resource=resource, mode="shared")


READ = facts(**SAFE, is_read_only=True, is_open_world=False)
WRITE = facts()


def policy(**said):
    return SchedulerPolicy(scheduler_policy_id="sched_1", **said)


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


class Callers:
    """Calls that enter and leave a gate when the test says so, with a list of those inside."""

    def __init__(self, gate):
        self.gate = gate
        self.inside = []
        self._doors = {}
        self.tasks = {}

    async def arrive(self, name, its_facts, within=None, scope=None):
        self._doors[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._visit(name, its_facts, within, scope))
        await settle()

    async def _visit(self, name, its_facts, within, scope):
        turn = await self.gate.acquire(its_facts, scope or self.gate.only_scope, within)
        self.inside.append(name)
        await self._doors[name].wait()
        self.inside.remove(name)
        self.gate.release(turn)

    async def depart(self, *names):
        for name in names:
            self._doors[name].set()
            await self.tasks[name]
        await settle()

    async def give_up(self, name):
        self.tasks[name].cancel()
        await settle()


def with_callers(scenario, gate=None):
    async def run():
        callers = Callers(gate or CallLimiter())
        play = asyncio.create_task(scenario(callers))
        for _ in range(200):
            if play.done():
                break
            await asyncio.sleep(0)
        assert play.done(), "a call waits for ever"
        await play
        assert callers.gate.is_idle

    asyncio.run(run())


def test_safe_calls_run_together():
    async def scenario(callers):
        await callers.arrive("a", READ)
        await callers.arrive("b", READ)
        assert callers.inside == ["a", "b"]
        await callers.depart("a", "b")

    with_callers(scenario)


def test_unsafe_calls_run_one_after_the_other_in_the_order_they_came():
    async def scenario(callers):
        order = []
        for name in "abc":
            await callers.arrive(name, WRITE)
        for _ in range(3):
            (now,) = callers.inside
            order.append(now)
            await callers.depart(now)
        assert order == ["a", "b", "c"]

    with_callers(scenario)


def test_an_unsafe_call_waits_for_readers_and_is_not_overtaken_by_later_ones():
    async def scenario(callers):
        await callers.arrive("read", READ)
        await callers.arrive("write", WRITE)
        await callers.arrive("late read", READ)
        assert callers.inside == ["read"]
        await callers.depart("read")
        assert callers.inside == ["write"]
        await callers.depart("write")
        assert callers.inside == ["late read"]
        await callers.depart("late read")

    with_callers(scenario)


def test_a_call_is_never_held_up_by_a_waiting_one_that_it_does_not_conflict_with():
    async def scenario(callers):
        await callers.arrive("a", facts("a.txt", **SAFE))
        await callers.arrive("also a", facts("a.txt", **SAFE))
        await callers.arrive("b", facts("b.txt", **SAFE))
        await callers.arrive("no file", READ)
        assert callers.inside == ["a", "b", "no file"]
        await callers.depart("a")
        assert callers.inside == ["b", "no file", "also a"]
        await callers.depart("b", "no file", "also a")

    with_callers(scenario)


def test_readers_of_one_resource_share_it_and_a_writer_of_it_waits():
    async def scenario(callers):
        await callers.arrive("r1", facts(shared("a.txt"), **SAFE))
        await callers.arrive("r2", facts(shared("a.txt"), **SAFE))
        await callers.arrive("w", facts("a.txt", **SAFE))
        await callers.arrive("r3", facts(shared("a.txt"), **SAFE))
        assert callers.inside == ["r1", "r2"]
        await callers.depart("r1", "r2")
        assert callers.inside == ["w"]
        await callers.depart("w")
        assert callers.inside == ["r3"]
        await callers.depart("r3")

    with_callers(scenario)


def test_two_calls_that_lock_two_things_in_opposite_order_both_finish():
    async def scenario(callers):
        await callers.arrive("ab", facts("a", "b", **SAFE))
        await callers.arrive("ba", facts("b", "a", **SAFE))
        assert callers.inside == ["ab"]
        await callers.depart("ab", "ba")

    with_callers(scenario)


def test_no_more_run_than_max_parallel_and_the_first_come_go_first():
    async def scenario(callers):
        for name in "abcd":
            await callers.arrive(name, READ)
        assert callers.inside == ["a", "b"]
        await callers.depart("b")
        assert callers.inside == ["a", "c"]
        await callers.depart("a", "c", "d")

    with_callers(scenario, CallLimiter(policy(max_parallel=2)))


def test_a_serial_policy_runs_one_at_a_time():
    async def scenario(callers):
        await callers.arrive("a", READ)
        await callers.arrive("b", READ)
        assert callers.inside == ["a"]
        await callers.depart("a", "b")

    with_callers(scenario, CallLimiter(policy(ordering_policy="serial", max_parallel=8)))


def test_a_canceled_waiter_leaves_no_trace_and_blocks_no_call():
    async def scenario(callers):
        await callers.arrive("read", READ)
        await callers.arrive("write", WRITE)
        await callers.arrive("late read", READ)
        await callers.give_up("write")
        assert callers.inside == ["read", "late read"]
        await callers.depart("read", "late read")

    with_callers(scenario)


def test_a_waiter_canceled_in_the_moment_it_is_let_in_gives_its_turn_back():
    async def run():
        gate = CallLimiter()
        first = gate.try_acquire(WRITE, gate.only_scope)
        waiting = asyncio.create_task(gate.acquire(WRITE, gate.only_scope))
        await settle()
        gate.release(first)
        waiting.cancel()
        await settle()
        assert waiting.cancelled()
        assert gate.is_idle

    asyncio.run(run())


def test_trying_gives_a_turn_or_nothing_and_leaves_no_trace():
    gate = CallLimiter()
    turn = gate.try_acquire(facts("a", **SAFE), gate.only_scope)
    assert gate.try_acquire(facts("a", "b", **SAFE), gate.only_scope) is None
    gate.release(gate.try_acquire(facts("b", **SAFE), gate.only_scope))
    assert gate.try_acquire(WRITE, gate.only_scope) is None
    gate.release(turn)
    assert gate.is_idle
    gate.release(gate.try_acquire(WRITE, gate.only_scope))
    assert gate.is_idle


def test_a_policy_keeps_the_classes_it_does_not_name_alone():
    reads_only = CallLimiter(policy(parallel_classes=ParallelClasses(read_only=True)))
    assert reads_only.try_acquire(READ, reads_only.only_scope)
    assert reads_only.try_acquire(READ, reads_only.only_scope)
    assert reads_only.try_acquire(facts(**SAFE, is_read_only=True, is_open_world=True), reads_only.only_scope) is None
    assert reads_only.try_acquire(facts(**SAFE, is_read_only=False, is_open_world=False), reads_only.only_scope) is None


def test_a_policy_that_allows_destructive_calls_together_still_asks_for_their_own_word():
    gate = CallLimiter(
        policy(parallel_classes=ParallelClasses(read_only=True, write=True, destructive=True, open_world=True))
    )
    assert gate.try_acquire(facts(**SAFE, is_destructive=True), gate.only_scope)
    assert gate.try_acquire(facts(**SAFE, is_destructive=True), gate.only_scope)
    assert gate.try_acquire(facts(is_destructive=True), gate.only_scope) is None


def test_locks_of_the_policy_are_claimed_by_each_of_its_calls():
    gate = CallLimiter(policy(resource_locks=(ResourceLock(resource="license"),)))
    turn = gate.try_acquire(READ, gate.only_scope)
    assert gate.try_acquire(READ, gate.only_scope) is None
    gate.release(turn)
    assert gate.try_acquire(READ, gate.only_scope)


def test_a_policy_that_lets_nothing_run_is_refused():
    with pytest.raises(ConfigError, match="max_parallel must be at least 1, got 0"):
        CallLimiter(policy(max_parallel=0))


def test_a_turn_is_alone_by_right_and_not_by_luck():
    gate = CallLimiter()
    turn = gate.try_acquire(READ, gate.only_scope)
    assert not turn.alone
    gate.release(turn)
    assert gate.try_acquire(WRITE, gate.only_scope).alone


def test_a_call_made_by_a_tool_that_runs_alone_does_not_wait_for_it():
    gate = CallLimiter(policy(max_parallel=1))
    caller = gate.try_acquire(WRITE, gate.only_scope)
    nested = gate.try_acquire(WRITE, gate.only_scope, within=caller)
    assert nested
    assert gate.try_acquire(READ, gate.only_scope, within=caller) is None
    assert gate.try_acquire(READ, gate.only_scope) is None
    gate.release(nested)
    gate.release(caller)
    assert gate.is_idle


def test_a_nested_call_passes_those_who_wait_for_its_caller():
    async def scenario(callers):
        caller = callers.gate.own_permit(await callers.gate.acquire(READ, callers.gate.only_scope))
        await callers.arrive("write", WRITE)
        await callers.arrive("nested", READ, within=caller)
        assert callers.inside == ["nested"]
        await callers.depart("nested")
        callers.gate.release(caller)
        await callers.depart("write")

    with_callers(scenario)


def test_two_callers_do_not_keep_each_others_exclusive_calls_out_for_ever():
    async def scenario(callers):
        one, other = [
            callers.gate.own_permit(await callers.gate.acquire(READ, callers.gate.only_scope)) for _ in range(2)
        ]
        await callers.arrive("nested in one", WRITE, within=one)
        assert callers.inside == []
        await callers.arrive("nested in other", WRITE, within=other)
        assert callers.inside == ["nested in one"]
        await callers.depart("nested in one")
        assert callers.inside == []
        callers.gate.release(one)
        await settle()
        assert callers.inside == ["nested in other"]
        await callers.depart("nested in other")
        callers.gate.release(other)

    with_callers(scenario)


def test_a_nested_call_that_would_close_a_circle_is_refused():
    async def scenario(callers):
        scope = callers.gate.only_scope
        holds_a, holds_b = [await callers.gate.acquire(facts(each, **SAFE), scope) for each in "ab"]
        await callers.arrive("wants b", facts("b", **SAFE), within=holds_a)
        with pytest.raises(ToolFailure) as refused:
            await callers.gate.acquire(facts("a", **SAFE), scope, within=holds_b)
        assert (refused.value.error.error_class, refused.value.error.error_code) == (
            ErrorClass.CANCELED,
            "would_deadlock",
        )
        callers.gate.release(holds_b)
        await callers.depart("wants b")
        callers.gate.release(holds_a)

    with_callers(scenario)


def test_a_nested_call_that_outlives_its_caller_is_counted_on_its_own():
    async def scenario(callers):
        caller = callers.gate.own_permit(await callers.gate.acquire(READ, callers.gate.only_scope))
        await callers.arrive("nested", READ, within=caller)
        callers.gate.release(caller)
        await callers.arrive("next", READ)
        assert callers.inside == ["nested"]
        await callers.depart("nested", "next")

    with_callers(scenario, CallLimiter(policy(max_parallel=1)))


def test_a_nested_call_that_waits_longer_than_its_caller_runs_is_counted_on_its_own():
    async def scenario(callers):
        caller = callers.gate.own_permit(await callers.gate.acquire(READ, callers.gate.only_scope))
        await callers.arrive("nested", READ, within=caller)
        await callers.arrive("also nested", READ, within=caller)
        callers.gate.release(caller)
        await callers.depart("nested")
        await callers.arrive("next", READ)
        assert callers.inside == ["also nested"]
        await callers.depart("also nested", "next")

    with_callers(scenario, CallLimiter(policy(max_parallel=1)))


def test_newcomers_do_not_pass_a_nested_call_that_waits_for_them():
    async def scenario(callers):
        caller = callers.gate.own_permit(await callers.gate.acquire(READ, callers.gate.only_scope))
        await callers.arrive("read", READ)
        await callers.arrive("nested write", WRITE, within=caller)
        await callers.arrive("late read", READ)
        assert callers.inside == ["read"]
        await callers.depart("read")
        assert callers.inside == ["nested write"]
        await callers.depart("nested write", "late read")
        callers.gate.release(caller)

    with_callers(scenario)


def test_an_exclusive_call_excludes_its_conversation_and_its_state_and_nothing_else():
    gate = CallLimiter()
    ann, bob = Scopes(gate, "ann"), Scopes(gate, "bob")
    turn = gate.try_acquire(WRITE, ann["process"])
    assert gate.try_acquire(READ, ann[None]) is None
    assert gate.try_acquire(READ, bob["process"]) is None
    for its_facts in (READ, WRITE):
        gate.release(gate.try_acquire(its_facts, bob[None]))
        gate.release(gate.try_acquire(its_facts, bob["another"]))
    gate.release(turn)
    assert gate.is_idle


def test_exclusive_calls_without_a_shared_state_overlap_across_conversations_and_not_within_one():
    gate = CallLimiter()
    ann, bob = Scopes(gate, "ann"), Scopes(gate, "bob")
    turns = [gate.try_acquire(WRITE, each[None]) for each in (ann, bob)]
    assert all(turns)
    assert gate.try_acquire(WRITE, Scopes(gate, "ann")[None]) is None
    for turn in turns:
        gate.release(turn)
    assert gate.is_idle


def test_a_call_whose_locks_are_unknown_excludes_every_call_that_locks_something():
    unknown = safety_of(ToolInterface(interface_id="i", tool_id="t", **SAFE), locks=lambda _: 1 / 0).facts_for({})
    gate = CallLimiter()
    ann, bob = Scopes(gate, "ann"), Scopes(gate, "bob")
    turn = gate.try_acquire(unknown, ann[None])
    assert gate.try_acquire(facts(shared("a"), **SAFE), bob[None]) is None
    gate.release(gate.try_acquire(READ, bob[None]))
    gate.release(turn)
    turn = gate.try_acquire(facts(shared("a"), **SAFE), bob[None])
    assert gate.try_acquire(unknown, ann[None]) is None
    gate.release(turn)
    assert gate.is_idle


def test_a_call_that_waits_for_a_state_keeps_its_place_in_its_conversation_and_delays_no_other_conversation():
    async def scenario(callers):
        ann, bob, eve = (Scopes(callers.gate, name) for name in ("ann", "bob", "eve"))
        await callers.arrive("ann writes", WRITE, scope=ann["process"])
        await callers.arrive("bob writes", WRITE, scope=bob["process"])
        await callers.arrive("bob asks elsewhere", READ, scope=bob[None])
        await callers.arrive("eve writes elsewhere", WRITE, scope=eve[None])
        assert callers.inside == ["ann writes", "eve writes elsewhere"]
        await callers.give_up("bob writes")
        assert callers.inside == ["ann writes", "eve writes elsewhere", "bob asks elsewhere"]
        await callers.depart("eve writes elsewhere", "bob asks elsewhere", "ann writes")

    with_callers(scenario)


def test_nested_calls_that_need_the_states_of_each_others_callers_do_not_wait_for_ever():
    async def scenario(callers):
        gate, ann, bob = callers.gate, Scopes(callers.gate, "ann"), Scopes(callers.gate, "bob")
        one, other = await gate.acquire(WRITE, ann["x"]), await gate.acquire(WRITE, bob["y"])
        await callers.arrive("ann wants y", WRITE, within=one, scope=ann["y"])
        with pytest.raises(ToolFailure) as refused:
            await gate.acquire(READ, bob["x"], within=other)
        assert refused.value.error.error_code == "would_deadlock"
        gate.release(other)
        await callers.depart("ann wants y")
        gate.release(one)

    with_callers(scenario)


class Waiter:
    """A call that holds a permit, waits for an answer from outside, and acquires its permit again."""

    def __init__(self, gate, its_facts, within=None, scope=None):
        self.gate = gate
        self.permit = gate.try_acquire(its_facts, scope or gate.only_scope, within)
        assert self.permit is not None
        self.permit = gate.own_permit(self.permit)
        gate.begin_wait(self.permit)
        self.regaining = None

    async def answer(self):
        """Deliver the answer, and start to acquire the permit again."""
        self.gate.end_wait(self.permit)
        self.regaining = asyncio.create_task(self.gate.regain(self.permit))
        await settle()

    async def end(self):
        await self.regaining
        self.gate.release(self.permit)
        await settle()


def test_a_call_that_waits_for_an_answer_holds_neither_its_claims_nor_its_slot():
    async def scenario(callers):
        waiter = Waiter(callers.gate, WRITE)
        await callers.arrive("a", WRITE)
        assert (callers.inside, waiter.permit.resting) == (["a"], True)
        await callers.depart("a")
        await waiter.answer()
        assert waiter.permit.running
        await waiter.end()

    with_callers(scenario, CallLimiter(policy(max_parallel=1)))


def test_a_call_with_its_answer_joins_its_queues_at_their_end():
    async def scenario(callers):
        waiter = Waiter(callers.gate, WRITE)
        await callers.arrive("a", WRITE)
        await callers.arrive("b", WRITE)
        await waiter.answer()
        await callers.arrive("c", WRITE)
        await callers.depart("a")
        assert (callers.inside, waiter.permit.running) == (["b"], False)
        await callers.depart("b")
        assert (callers.inside, waiter.permit.running) == ([], True)
        await waiter.end()
        assert callers.inside == ["c"]
        await callers.depart("c")

    with_callers(scenario)


def test_a_call_with_its_answer_waits_for_a_slot_behind_those_that_came_before():
    async def scenario(callers):
        waiter = Waiter(callers.gate, READ)
        await callers.arrive("a", READ)
        await callers.arrive("b", READ)
        await waiter.answer()
        await callers.depart("a")
        assert (callers.inside, waiter.permit.running) == (["b"], False)
        await callers.depart("b")
        assert waiter.permit.running
        await waiter.end()

    with_callers(scenario, CallLimiter(policy(max_parallel=1)))


def test_a_call_that_waits_for_two_answers_acquires_its_permit_after_the_last():
    async def scenario(callers):
        waiter = Waiter(callers.gate, WRITE)
        callers.gate.begin_wait(waiter.permit)
        await waiter.answer()
        assert (waiter.regaining.done(), waiter.permit.resting) == (True, True)
        await waiter.answer()
        assert waiter.permit.running
        await waiter.end()

    with_callers(scenario)


@pytest.mark.parametrize("is_granted", [False, True], ids=["before its permit", "at the moment of its permit"])
def test_a_call_that_is_canceled_while_it_acquires_its_permit_again_blocks_no_other(is_granted):
    async def scenario(callers):
        waiter = Waiter(callers.gate, WRITE)
        await callers.arrive("a", WRITE)
        await waiter.answer()
        await callers.arrive("b", WRITE)
        if is_granted:
            callers._doors["a"].set()  # the permit is granted before the task of the waiter runs again
        waiter.regaining.cancel()
        await settle()
        callers.gate.release(waiter.permit)
        await callers.depart("a")
        assert callers.inside == ["b"]
        await callers.depart("b")

    with_callers(scenario)


def test_a_call_that_ends_while_it_waits_for_an_answer_leaves_nothing():
    async def scenario(callers):
        waiter = Waiter(callers.gate, WRITE)
        callers.gate.release(waiter.permit)
        callers.gate.end_wait(waiter.permit)
        await callers.gate.regain(waiter.permit)
        await callers.arrive("a", WRITE)
        await callers.depart("a")

    with_callers(scenario)


def test_a_caller_whose_only_nested_call_waits_for_an_answer_holds_nothing_until_both_continue():
    async def scenario(callers):
        outer = callers.gate.try_acquire(WRITE, callers.gate.only_scope)
        inner = Waiter(callers.gate, WRITE, within=outer)
        assert (outer.resting, outer.running) == (True, False)
        await callers.arrive("a", WRITE)
        assert callers.inside == ["a"]
        await inner.answer()
        assert not inner.permit.running
        await callers.depart("a")
        assert inner.permit.running
        await inner.end()
        await callers.gate.regain(outer)
        assert outer.running
        callers.gate.release(outer)

    with_callers(scenario)


def test_a_caller_with_another_nested_call_that_runs_keeps_its_claims():
    async def scenario(callers):
        outer = callers.gate.try_acquire(WRITE, callers.gate.only_scope)
        beside = callers.gate.try_acquire(READ, callers.gate.only_scope, outer)
        inner = Waiter(callers.gate, READ, within=outer)
        await callers.arrive("a", WRITE)
        assert (outer.running, callers.inside) == (True, [])
        callers.gate.release(beside)
        await settle()
        assert (outer.resting, callers.inside) == (True, ["a"])
        await callers.depart("a")
        await inner.answer()
        await inner.end()
        await callers.gate.regain(outer)
        callers.gate.release(outer)

    with_callers(scenario)


def test_a_nested_call_that_would_complete_a_deadlock_is_refused_when_its_answer_arrives():
    async def scenario(callers):
        gate, scope = callers.gate, callers.gate.only_scope
        door, window = (facts(ResourceLock(resource=each, mode="exclusive"), **SAFE) for each in ("door", "window"))
        first = gate.try_acquire(door, scope)
        beside = gate.try_acquire(READ, scope, first)  # it runs, so its caller holds the door
        inner = Waiter(gate, window, within=first)
        second = gate.try_acquire(window, scope)
        crossing = asyncio.create_task(gate.acquire(door, scope, second))
        await settle()
        await inner.answer()
        with pytest.raises(ToolFailure) as refused:
            await inner.regaining
        assert refused.value.error.error_code == "would_deadlock"
        for each in (inner.permit, beside, first):
            gate.release(each)
        gate.release(await crossing)
        gate.release(second)

    with_callers(scenario)
