"""Scheduling: who may run beside whom for which input, what an interruption does, and what is recorded of it."""

import asyncio
import dataclasses

import pytest

from agenttool import RecordError, Runtime, ToolCall
from agenttool.codec import from_json
from agenttool.records import ResourceLock, SchedulerPolicy, YieldPolicy
from agenttool.testing.fakes import scripted_tool


class Room:
    """A place where tools run, and a list records which run together."""

    def __init__(self):
        self.inside, self.met = [], []

    async def work(self, job):
        who = job.call_input.get("on", job.tool_id)
        self.inside.append(who)
        self.met.append(sorted(self.inside))
        for _ in range(3):
            await asyncio.sleep(0)
        self.inside.remove(who)
        return who

    @property
    def most(self):
        return max(map(len, self.met))


async def run_together(runtime, name, inputs):
    surface = await runtime.surface()
    return await runtime.batch([ToolCall(name=name, arguments=each) for each in inputs], surface=surface)


@pytest.mark.requirement("AT-SCHED-21")
async def test_two_safe_calls_that_claim_one_resource_do_not_meet(allow):
    room = Room()
    probe = dataclasses.replace(
        scripted_tool("edit", room.work, is_concurrency_safe=True),
        locks=lambda arguments: [ResourceLock(resource=arguments["on"], mode="exclusive")],
    )
    async with Runtime.open(tools=[probe], rules=allow) as rt:
        await run_together(rt, "edit", [{"on": each} for each in "aabab"])
    assert ["a", "b"] in room.met
    assert all(len(set(each)) == len(each) for each in room.met)


@pytest.mark.requirement("AT-SCHED-08")
async def test_one_tool_is_safe_for_one_input_and_exclusive_for_another(allow):
    together, apart = Room(), Room()

    def shell(room):
        return dataclasses.replace(
            scripted_tool("sh", room.work, is_concurrency_safe="classifier:reads", classifier_input="input.on"),
            classifiers={"reads": lambda command: command.startswith("cat")},
        )

    for room, commands in ((together, ["cat a", "cat b"]), (apart, ["cat a", "rm a", "cat b"])):
        async with Runtime.open(tools=[shell(room)], rules=allow) as rt:
            await run_together(rt, "sh", [{"on": each} for each in commands])
    assert together.most == 2
    assert apart.most == 1


@pytest.mark.requirement("AT-SCHED-09")
async def test_a_tool_that_only_reads_and_says_no_more_runs_alone(allow):
    room = Room()
    async with Runtime.open(tools=[scripted_tool("read", room.work, is_read_only=True)], rules=allow) as rt:
        await run_together(rt, "read", [{"on": each} for each in "abc"])
    assert room.most == 1


@pytest.mark.requirement("AT-SCHED-04")
@pytest.mark.parametrize("member", ["interrupt_behavior", "sibling_failure_policy", "ordering_policy", "yield_policy"])
def test_a_policy_with_an_unlisted_word_is_refused(member):
    plain = {"schema_version": "0.2.0", "record_type": "tool_scheduler_policy", "scheduler_policy_id": "s"}
    assert from_json(plain, SchedulerPolicy).scheduler_policy_id == "s"
    with pytest.raises(RecordError, match=member):
        from_json({**plain, member: "whatever"}, SchedulerPolicy)


async def interrupted(begun, rules, **facts):
    """Interrupt a call that would end by itself a little later."""
    release = asyncio.Event()

    async def work(job):
        await release.wait()
        return "finished"

    async with Runtime.open(tools=[scripted_tool("probe", work, **facts)], rules=rules) as rt:
        surface = await rt.surface()
        calling = asyncio.ensure_future(rt.call("probe", {}, surface=surface))
        await begun(rt)
        rt.calls.interrupt()
        for _ in range(5):
            await asyncio.sleep(0)
        release.set()
        return await calling


@pytest.mark.requirement("AT-SCHED-13")
async def test_an_interrupted_tool_that_may_be_canceled_stops_with_a_result(allow, begun):
    result = await interrupted(begun, allow, interrupt_behavior="cancel")
    assert (result.status.value, result.abort_reason) == ("canceled", "user_interruption")


@pytest.mark.requirement("AT-SCHED-14", "AT-IFACE-24")
@pytest.mark.parametrize("facts", [{"interrupt_behavior": "block"}, {}], ids=["block", "unsaid"])
async def test_an_interrupted_tool_that_blocks_ends_before_the_next_turn_and_dependent_calls_start(allow, begun, facts):
    release, steps = asyncio.Event(), []

    async def work(job):
        steps.append(f"{job.call_input['on']} starts")
        await release.wait()
        steps.append(f"{job.call_input['on']} ends")
        return "finished"

    async with Runtime.open(tools=[scripted_tool("probe", work, **facts)], rules=allow) as rt:
        surface = await rt.surface()
        blocking, dependent = (
            ToolCall(name="probe", arguments={"on": "blocking"}),
            ToolCall(name="probe", arguments={"on": "dependent"}, depends_on=(0,)),
        )
        turn = asyncio.ensure_future(rt.batch([blocking, dependent], surface=surface))
        await begun(rt)
        rt.calls.interrupt()
        next_turn = asyncio.ensure_future(rt.call("probe", {"on": "next"}, surface=surface))
        for _ in range(20):
            await asyncio.sleep(0)
        assert steps == ["blocking starts"]
        release.set()
        first, _ = await turn
        assert (first.status, (await next_turn).status) == ("succeeded", "succeeded")
    assert steps[:2] == ["blocking starts", "blocking ends"]
    assert steps[-2:] == ["next starts", "next ends"]


@pytest.mark.requirement("AT-SCHED-07", "AT-IFACE-19", "AT-IFACE-10")
async def test_every_invocation_states_the_seven_facts_of_its_call(allow, call, call_records):
    async def work(job):
        return "done"

    probe = dataclasses.replace(
        scripted_tool("sh", work, is_read_only="classifier:reads", classifier_input="input.command"),
        classifiers={"reads": lambda command: command.startswith("cat")},
        locks=lambda _: [ResourceLock(resource="a", mode="shared")],
    )
    async with Runtime.open(tools=[probe, scripted_tool("silent")], rules=allow) as rt:
        read, wrote = [(await call_records(rt, await call(rt, "sh", {"command": each}))) for each in ("cat a", "rm a")]
        silent = await call_records(rt, await call(rt, "silent", {}))
    facts = read.invocation["scheduler"]
    assert facts.keys() >= {
        "is_concurrency_safe",
        "is_read_only",
        "is_destructive",
        "is_open_world",
        "requires_exclusive_context",
        "context_modifier_policy",
        "resource_locks",
    }
    assert (facts["is_read_only"], wrote.invocation["scheduler"]["is_read_only"]) == (True, False)
    assert silent.invocation["scheduler"]["is_read_only"] is False


@pytest.mark.requirement("AT-SCHED-06", "AT-PIPE-28")
async def test_the_policy_of_a_batch_is_exported_and_its_calls_name_it(allow, records):
    policy = SchedulerPolicy(scheduler_policy_id="sched_mine", max_parallel=2, context_modifier_policy="forbid")
    async with Runtime.open(tools=[scripted_tool("probe")], rules=allow) as rt:
        surface = await rt.surface()
        await rt.batch([ToolCall(name="probe", arguments={})], surface=surface, policy=policy)
        (invocation,) = await records(rt, "tool_invocation")
        (exported,) = await records(rt, "tool_scheduler_policy")
    assert invocation["scheduler_policy_ref"] == exported["scheduler_policy_id"] == "sched_mine"
    assert exported["context_modifier_policy"] == "forbid"


@pytest.mark.requirement("AT-INV-06")
async def test_an_approved_call_names_its_decisions_hook_runs_question_and_policy(hook, rule, records):
    questions = []
    policy = SchedulerPolicy(scheduler_policy_id="sched_mine", max_parallel=2)
    async with Runtime.open(
        tools=[scripted_tool("probe")],
        rules=[rule("ask", "*")],
        hooks=[hook()],
        approve=lambda question: questions.append(question.approval_id) or True,
    ) as rt:
        await rt.batch([ToolCall(name="probe", arguments={})], surface=await rt.surface(), policy=policy)
        (invocation,) = await records(rt, "tool_invocation")
        decisions = await records(rt, "tool_permission_decision")
        hooks = await records(rt, "tool_hook")
        (exported,) = await records(rt, "tool_scheduler_policy")
    assert invocation["permission_decision_refs"] == [each["decision_id"] for each in decisions]
    assert [each["behavior"] for each in decisions] == ["ask", "allow"]
    assert invocation["hook_refs"] == [each["hook_id"] for each in hooks]
    assert len(hooks) == 1
    assert [invocation["approval_request_ref"]] == questions
    assert invocation["scheduler_policy_ref"] == exported["scheduler_policy_id"]


@pytest.mark.requirement("AT-SCHED-06", "AT-PIPE-28")
async def test_the_policy_of_a_batch_without_one_leaves_no_question_open_and_is_reported_once(
    allow, call_records, sound_export
):
    async with Runtime.open(tools=[scripted_tool("probe", is_concurrency_safe=True)], rules=allow) as rt:
        surface = await rt.surface()
        calls = [ToolCall(name="probe", arguments={}), ToolCall(name="probe", arguments={}, depends_on=(0,))]
        results, _ = [await rt.batch(calls, surface=surface) for _ in range(2)]
        first, second = [await call_records(rt, result) for result in results]
        (policy,) = [each for each in await sound_export(rt) if each["record_type"] == "tool_scheduler_policy"]
    assert first.invocation["scheduler"]["is_concurrency_safe"] is True
    assert first.invocation["scheduler_policy_ref"] == policy["scheduler_policy_id"]
    assert second.invocation["depends_on"] == [first.invocation["invocation_id"]]
    assert policy["parallel_classes"] == dict.fromkeys(("read_only", "write", "destructive", "open_world"), True)
    assert policy["ordering_policy"] == "preserve_terminal_order"
    assert policy["yield_policy"] == "progress_immediate_results_ordered"
    assert policy["sibling_failure_policy"] == "ignore"
    assert policy["synthetic_results"]["sibling_error"] == "synthetic_error"
    assert {"interrupt_behavior", "context_modifier_policy"} <= policy.keys()


@pytest.mark.requirement("AT-SCHED-03")
@pytest.mark.parametrize("policy", list(YieldPolicy), ids=str)
async def test_progress_leaves_a_batch_when_the_yield_policy_says(allow, policy):
    release = asyncio.Event()

    async def slow(job):
        await release.wait()

    async def quick(job):
        job.report("on my way")
        release.set()

    tools = [
        scripted_tool("slow", slow, is_concurrency_safe=True),
        scripted_tool("quick", quick, is_concurrency_safe=True),
    ]
    words = SchedulerPolicy(scheduler_policy_id="s", yield_policy=policy)
    async with Runtime.open(tools=tools, rules=allow) as rt:
        surface = await rt.surface()
        calls = [ToolCall(name=name, arguments={}) for name in ("slow", "quick")]
        left = [
            (item.index, item.result is None) async for item in rt.stream_batch(calls, surface=surface, policy=words)
        ]
    assert (
        left
        == {
            YieldPolicy.PROGRESS_IMMEDIATE_RESULTS_ORDERED: [(1, True), (0, False), (1, False)],
            YieldPolicy.ALL_ORDERED: [(0, False), (1, True), (1, False)],
            YieldPolicy.UNORDERED_STREAMING: [(1, True), (1, False), (0, False)],
        }[policy]
    )
