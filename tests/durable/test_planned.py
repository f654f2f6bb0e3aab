"""A call of a batch that has not started continues in the next process, if its caller had it stored."""

import asyncio
import base64
import json
import sqlite3
from contextlib import closing

import pytest

from agenttool import Runtime, ToolCall, tool
from agenttool.records import (
    OrderingPolicy,
    SchedulerPolicy,
    SchedulerPolicyId,
    SiblingFailurePolicy,
)

BOUND_S = 60
PIN = "pin-4711-0815"
POLICY = SchedulerPolicy(
    scheduler_policy_id=SchedulerPolicyId("sched_test"),
    ordering_policy=OrderingPolicy.ALLOW_UNORDERED,
    sibling_failure_policy=SiblingFailurePolicy.CANCEL_DEPENDENT,
)
paid: list[tuple[str, str]] = []


@tool(namespace="bank")
async def ask_first(to: str) -> str:
    """Do what must be approved."""
    return f"asked {to}"


@tool(namespace="bank", sensitive=["pin"], should_defer=True)
async def transfer(to: str, pin: str) -> str:
    """Transfer money."""
    if to == "slow":
        await asyncio.sleep(3600)
    paid.append((to, pin))
    return f"to {to}"


def open_runtime(folder, **options):
    rules = [{"behavior": "allow", "tool": "bank.transfer"}]
    given = {"tools": [ask_first, transfer], "rules": rules, "approve": "wait", **options}
    return Runtime.open(store=f"sqlite:{folder}/state.db", **given)


@pytest.fixture
def planned(tmp_path):
    """Let a runtime close over a call that waits for an approval, and calls that depend on it; give the ids."""

    async def planned(*people, policy=POLICY):
        paid.clear()
        async with open_runtime(tmp_path) as rt:
            ids = [rt.calls.new_id() for _ in ("ada", *people)]
            calls = [
                ToolCall("bank.ask_first", {"to": "ada"}, invocation_id=ids[0]),
                *(
                    ToolCall("bank.transfer", {"to": to, "pin": PIN}, depends_on=(0,), invocation_id=each)
                    for to, each in zip(people, ids[1:], strict=True)
                ),
            ]
            idle = asyncio.Event()
            running = asyncio.ensure_future(rt.batch(calls, policy=policy, actor_ref="ci", on_idle=idle.set))
            async with asyncio.timeout(BOUND_S):
                await idle.wait()
            await rt.journal.checkpoint(ids)
        await running
        return ids

    return planned


async def answered(rt, *ids, answer="allow"):
    """Answer the open question; give the results of the calls."""
    (question,) = await rt.approvals.list()
    await rt.approvals.decide(question.approval_id, answer)
    return [await rt.calls.get(each).result(BOUND_S) for each in ids]


async def test_a_planned_call_continues_with_its_hidden_input_which_is_in_no_file_at_the_end(planned, sound, tmp_path):
    ids = await planned("bob")
    async with open_runtime(tmp_path) as rt:
        recorded = await rt.journal.invocation(ids[1])
        assert (recorded.status.value, recorded.actor_ref, recorded.depends_on) == ("planned", "ci", (ids[0],))
        assert PIN not in str([each async for each in rt.journal.export()])
        results = await answered(rt, *ids)
        assert [each.text for each in results] == ["asked ada", "to bob"]
        assert paid == [("bob", PIN)]
        ended = await rt.journal.invocation(ids[1])
        assert ended.model_input == {"to": "bob", "pin": "[redacted]"}
        await sound(rt)
    forms = [PIN, *(base64.b64encode(b"x" * shift + PIN.encode()).decode()[4:-4] for shift in range(3))]
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
    assert not [form for form in forms if form.encode() in stored]


@pytest.mark.parametrize(("ignored", "transfers"), [(True, 1), (False, 0)])
async def test_a_planned_call_runs_after_a_rejection_only_if_its_batch_ignores_failures(
    planned, sound, tmp_path, ignored, transfers
):
    wanted = SiblingFailurePolicy.IGNORE if ignored else SiblingFailurePolicy.CANCEL_DEPENDENT
    policy = SchedulerPolicy(scheduler_policy_id=POLICY.scheduler_policy_id, sibling_failure_policy=wanted)
    ids = await planned("bob", policy=policy)
    async with open_runtime(tmp_path) as rt:
        first, second = await answered(rt, *ids, answer="deny")
        assert first.error.error_class == "approval_rejected"
        assert (second.error and second.error.error_class.value) == (None if ignored else "sibling_canceled")
        assert len(paid) == transfers
        await sound(rt)


def _with_pin(pin):
    return base64.b64encode(json.dumps({"to": "bob", "pin": pin}).encode()).decode()


@pytest.mark.parametrize(
    "change",
    [{"model_input": _with_pin("pin-0000-0000")}, {"actor_ref": "root"}, {"depends_on": None}],
    ids=["input", "caller", "dependencies"],
)
async def test_a_planned_call_does_not_run_if_its_checkpoint_was_edited(planned, tmp_path, change):
    ids = await planned("bob")
    with closing(sqlite3.connect(tmp_path / "state.db")) as file, file:
        (body,) = file.execute("SELECT body FROM open_calls WHERE kind = 'planned'").fetchone()
        edited = json.dumps({**json.loads(body), **change}).encode()
        file.execute("UPDATE open_calls SET body = ? WHERE kind = 'planned'", (edited,))
    async with open_runtime(tmp_path) as rt:
        _, result = await answered(rt, *ids)
        assert result.error.error_code == "checkpoint_changed"
    assert paid == []


async def test_a_planned_call_whose_tool_is_gone_waits_for_a_process_that_has_it(planned, tmp_path):
    ids = await planned("bob")
    async with open_runtime(tmp_path, tools=[ask_first], rules=[]) as rt:
        await answered(rt, ids[0])
        assert (await rt.journal.invocation(ids[1])).status == "planned"
    async with open_runtime(tmp_path) as rt:
        assert (await rt.calls.get(ids[1]).result(BOUND_S)).text == "to bob"


async def test_a_planned_call_that_waits_for_its_turn_in_the_next_process_runs_in_the_one_after(
    planned, sound, tmp_path, monkeypatch
):
    monkeypatch.setattr("agenttool.call.failures.FINISH_S", 0.01)
    ids = await planned("slow", "bob")
    async with open_runtime(tmp_path) as rt, asyncio.timeout(BOUND_S):
        await answered(rt, ids[0])
        while (await rt.journal.invocation(ids[2])).status != "queued":
            await asyncio.sleep(0.01)
    async with open_runtime(tmp_path) as rt:
        assert (await rt.calls.get(ids[1]).result(BOUND_S)).error.error_code == "runtime_shutdown"
        assert (await rt.calls.get(ids[2]).result(BOUND_S)).text == "to bob"
        assert paid == [("bob", PIN)]
        await sound(rt)


async def test_stored_calls_of_a_runtime_that_stays_open_run_once(sound, tmp_path):
    paid.clear()
    async with open_runtime(tmp_path) as rt:
        ids = [rt.calls.new_id(), rt.calls.new_id()]
        calls = [
            ToolCall("bank.ask_first", {"to": "ada"}, invocation_id=ids[0]),
            ToolCall("bank.transfer", {"to": "bob", "pin": PIN}, depends_on=(0,), invocation_id=ids[1]),
        ]
        idle = asyncio.Event()
        running = asyncio.ensure_future(rt.batch(calls, policy=POLICY, on_idle=idle.set))
        await idle.wait()
        await rt.journal.checkpoint(ids)
        await rt.journal.checkpoint(ids)
        await answered(rt)
        assert [each.text for each in await running] == ["asked ada", "to bob"]
        assert paid == [("bob", PIN)]
        await sound(rt)


async def test_a_planned_call_that_could_start_while_a_runtime_closes_runs_in_the_next_one(sound, tmp_path):
    paid.clear()
    going, started = asyncio.Event(), set[str]()

    @tool(namespace="bank", concurrency_safe=True)
    async def finish(to: str) -> str:
        """End while the runtime closes, at once or slowly."""
        started.add(to)
        await going.wait()
        await asyncio.sleep(0 if to == "ada" else 1)
        return f"finished {to}"

    def open_bank():
        return open_runtime(tmp_path, tools=[finish, transfer])

    async with open_bank() as rt, asyncio.timeout(BOUND_S):
        ids = [rt.calls.new_id() for _ in range(3)]
        calls = [
            ToolCall("bank.finish", {"to": "ada"}, invocation_id=ids[0]),
            ToolCall("bank.finish", {"to": "slow"}, invocation_id=ids[1]),
            ToolCall("bank.transfer", {"to": "bob", "pin": PIN}, depends_on=(0,), invocation_id=ids[2]),
        ]
        idle = asyncio.Event()
        running = asyncio.ensure_future(rt.batch(calls, policy=POLICY, on_idle=idle.set))
        await idle.wait()
        await rt.journal.checkpoint(ids)
    await running
    async with open_bank() as rt, asyncio.timeout(BOUND_S):
        for question in await rt.approvals.list():
            await rt.approvals.decide(question.approval_id, "allow")
        while started != {"ada", "slow"}:
            await asyncio.sleep(0.01)
        closing = asyncio.ensure_future(rt.close())
        await asyncio.sleep(0)
        going.set()
        await closing
    async with open_bank() as rt:
        results = [await rt.calls.get(each).result(BOUND_S) for each in ids]
        assert [each.text for each in results] == ["finished ada", "finished slow", "to bob"]
        assert paid == [("bob", PIN)]
        await sound(rt)
