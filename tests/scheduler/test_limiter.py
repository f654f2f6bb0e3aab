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


class Crowd:
    """Calls that enter a gate when told and leave when told, with a list of those who are in."""

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


def in_a_crowd(scenario, gate=None):
    async def run():
        crowd = Crowd(gate or CallLimiter())
        play = asyncio.create_task(scenario(crowd))
        for _ in range(200):
            if play.done():
                break
            await asyncio.sleep(0)
        assert play.done(), "somebody waits for ever"
        await play
        assert crowd.gate.is_idle

    asyncio.run(run())


def test_safe_calls_run_together():
    async def scenario(crowd):
        await crowd.arrive("a", READ)
        await crowd.arrive("b", READ)
        assert crowd.inside == ["a", "b"]
        await crowd.depart("a", "b")

    in_a_crowd(scenario)


def test_unsafe_calls_run_one_after_the_other_in_the_order_they_came():
    async def scenario(crowd):
        order = []
        for name in "abc":
            await crowd.arrive(name, WRITE)
        for _ in range(3):
            (now,) = crowd.inside
            order.append(now)
            await crowd.depart(now)
        assert order == ["a", "b", "c"]

    in_a_crowd(scenario)


def test_an_unsafe_call_waits_for_readers_and_is_not_overtaken_by_later_ones():
    async def scenario(crowd):
        await crowd.arrive("read", READ)
        await crowd.arrive("write", WRITE)
        await crowd.arrive("late read", READ)
        assert crowd.inside == ["read"]
        await crowd.depart("read")
        assert crowd.inside == ["write"]
        await crowd.depart("write")
        assert crowd.inside == ["late read"]
        await crowd.depart("late read")

    in_a_crowd(scenario)


def test_a_call_is_never_held_up_by_a_waiting_one_that_it_does_not_conflict_with():
    async def scenario(crowd):
        await crowd.arrive("a", facts("a.txt", **SAFE))
        await crowd.arrive("also a", facts("a.txt", **SAFE))
        await crowd.arrive("b", facts("b.txt", **SAFE))
        await crowd.arrive("no file", READ)
        assert crowd.inside == ["a", "b", "no file"]
        await crowd.depart("a")
        assert crowd.inside == ["b", "no file", "also a"]
        await crowd.depart("b", "no file", "also a")

    in_a_crowd(scenario)


def test_readers_of_one_resource_share_it_and_a_writer_of_it_waits():
    async def scenario(crowd):
        await crowd.arrive("r1", facts(shared("a.txt"), **SAFE))
        await crowd.arrive("r2", facts(shared("a.txt"), **SAFE))
        await crowd.arrive("w", facts("a.txt", **SAFE))
        await crowd.arrive("r3", facts(shared("a.txt"), **SAFE))
        assert crowd.inside == ["r1", "r2"]
        await crowd.depart("r1", "r2")
        assert crowd.inside == ["w"]
        await crowd.depart("w")
        assert crowd.inside == ["r3"]
        await crowd.depart("r3")

    in_a_crowd(scenario)


def test_two_calls_that_lock_two_things_in_opposite_order_both_finish():
    async def scenario(crowd):
        await crowd.arrive("ab", facts("a", "b", **SAFE))
        await crowd.arrive("ba", facts("b", "a", **SAFE))
        assert crowd.inside == ["ab"]
        await crowd.depart("ab", "ba")

    in_a_crowd(scenario)


def test_no_more_run_than_max_parallel_and_the_first_come_go_first():
    async def scenario(crowd):
        for name in "abcd":
            await crowd.arrive(name, READ)
        assert crowd.inside == ["a", "b"]
        await crowd.depart("b")
        assert crowd.inside == ["a", "c"]
        await crowd.depart("a", "c", "d")

    in_a_crowd(scenario, CallLimiter(policy(max_parallel=2)))


def test_a_serial_policy_runs_one_at_a_time():
    async def scenario(crowd):
        await crowd.arrive("a", READ)
        await crowd.arrive("b", READ)
        assert crowd.inside == ["a"]
        await crowd.depart("a", "b")

    in_a_crowd(scenario, CallLimiter(policy(ordering_policy="serial", max_parallel=8)))


def test_a_canceled_waiter_leaves_no_trace_and_blocks_nobody():
    async def scenario(crowd):
        await crowd.arrive("read", READ)
        await crowd.arrive("write", WRITE)
        await crowd.arrive("late read", READ)
        await crowd.give_up("write")
        assert crowd.inside == ["read", "late read"]
        await crowd.depart("read", "late read")

    in_a_crowd(scenario)


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
    async def scenario(crowd):
        caller = crowd.gate.own_permit(await crowd.gate.acquire(READ, crowd.gate.only_scope))
        await crowd.arrive("write", WRITE)
        await crowd.arrive("nested", READ, within=caller)
        assert crowd.inside == ["nested"]
        await crowd.depart("nested")
        crowd.gate.release(caller)
        await crowd.depart("write")

    in_a_crowd(scenario)


def test_two_callers_do_not_keep_each_others_exclusive_calls_out_for_ever():
    async def scenario(crowd):
        one, other = [crowd.gate.own_permit(await crowd.gate.acquire(READ, crowd.gate.only_scope)) for _ in range(2)]
        await crowd.arrive("nested in one", WRITE, within=one)
        assert crowd.inside == []
        await crowd.arrive("nested in other", WRITE, within=other)
        assert crowd.inside == ["nested in one"]
        await crowd.depart("nested in one")
        assert crowd.inside == []
        crowd.gate.release(one)
        await settle()
        assert crowd.inside == ["nested in other"]
        await crowd.depart("nested in other")
        crowd.gate.release(other)

    in_a_crowd(scenario)


def test_a_nested_call_that_would_close_a_circle_is_refused():
    async def scenario(crowd):
        scope = crowd.gate.only_scope
        holds_a, holds_b = [await crowd.gate.acquire(facts(each, **SAFE), scope) for each in "ab"]
        await crowd.arrive("wants b", facts("b", **SAFE), within=holds_a)
        with pytest.raises(ToolFailure) as refused:
            await crowd.gate.acquire(facts("a", **SAFE), scope, within=holds_b)
        assert (refused.value.error.error_class, refused.value.error.error_code) == (
            ErrorClass.CANCELED,
            "would_deadlock",
        )
        crowd.gate.release(holds_b)
        await crowd.depart("wants b")
        crowd.gate.release(holds_a)

    in_a_crowd(scenario)


def test_a_nested_call_that_outlives_its_caller_is_counted_on_its_own():
    async def scenario(crowd):
        caller = crowd.gate.own_permit(await crowd.gate.acquire(READ, crowd.gate.only_scope))
        await crowd.arrive("nested", READ, within=caller)
        crowd.gate.release(caller)
        await crowd.arrive("next", READ)
        assert crowd.inside == ["nested"]
        await crowd.depart("nested", "next")

    in_a_crowd(scenario, CallLimiter(policy(max_parallel=1)))


def test_a_nested_call_that_waits_longer_than_its_caller_runs_is_counted_on_its_own():
    async def scenario(crowd):
        caller = crowd.gate.own_permit(await crowd.gate.acquire(READ, crowd.gate.only_scope))
        await crowd.arrive("nested", READ, within=caller)
        await crowd.arrive("also nested", READ, within=caller)
        crowd.gate.release(caller)
        await crowd.depart("nested")
        await crowd.arrive("next", READ)
        assert crowd.inside == ["also nested"]
        await crowd.depart("also nested", "next")

    in_a_crowd(scenario, CallLimiter(policy(max_parallel=1)))


def test_newcomers_do_not_pass_a_nested_call_that_waits_for_them():
    async def scenario(crowd):
        caller = crowd.gate.own_permit(await crowd.gate.acquire(READ, crowd.gate.only_scope))
        await crowd.arrive("read", READ)
        await crowd.arrive("nested write", WRITE, within=caller)
        await crowd.arrive("late read", READ)
        assert crowd.inside == ["read"]
        await crowd.depart("read")
        assert crowd.inside == ["nested write"]
        await crowd.depart("nested write", "late read")
        crowd.gate.release(caller)

    in_a_crowd(scenario)


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
    async def scenario(crowd):
        ann, bob, eve = (Scopes(crowd.gate, name) for name in ("ann", "bob", "eve"))
        await crowd.arrive("ann writes", WRITE, scope=ann["process"])
        await crowd.arrive("bob writes", WRITE, scope=bob["process"])
        await crowd.arrive("bob asks elsewhere", READ, scope=bob[None])
        await crowd.arrive("eve writes elsewhere", WRITE, scope=eve[None])
        assert crowd.inside == ["ann writes", "eve writes elsewhere"]
        await crowd.give_up("bob writes")
        assert crowd.inside == ["ann writes", "eve writes elsewhere", "bob asks elsewhere"]
        await crowd.depart("eve writes elsewhere", "bob asks elsewhere", "ann writes")

    in_a_crowd(scenario)


def test_nested_calls_that_need_the_states_of_each_others_callers_do_not_wait_for_ever():
    async def scenario(crowd):
        gate, ann, bob = crowd.gate, Scopes(crowd.gate, "ann"), Scopes(crowd.gate, "bob")
        one, other = await gate.acquire(WRITE, ann["x"]), await gate.acquire(WRITE, bob["y"])
        await crowd.arrive("ann wants y", WRITE, within=one, scope=ann["y"])
        with pytest.raises(ToolFailure) as refused:
            await gate.acquire(READ, bob["x"], within=other)
        assert refused.value.error.error_code == "would_deadlock"
        gate.release(other)
        await crowd.depart("ann wants y")
        gate.release(one)

    in_a_crowd(scenario)
