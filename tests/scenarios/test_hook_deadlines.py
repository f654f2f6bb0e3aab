"""Hooks that do not answer: the call continues without them, and says so."""

import asyncio
from typing import Annotated

import pytest

from agenttool import Runtime, Sensitive, ToolCall, tool
from agenttool.codec import to_json
from agenttool.hooks.definition import Hook
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, HookEvent, RuleSource, SchedulerPolicy

PRE, POST = HookEvent.PRE_TOOL_USE, HookEvent.POST_TOOL_USE
FITTING = {"a": 1}
ALLOW = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]


@tool(read_only=True, concurrency_safe=True, open_world=False)
async def add(a: int, b: int = 1) -> int:
    """Add two whole numbers. Not for text."""
    return a + b


class Stubborn:
    """Ignores every cancellation until the test lets it go."""

    def __init__(self, answer=None):
        self.inside = asyncio.Event()
        self.released = asyncio.Event()
        self.answer = answer

    async def run(self, question):
        self.inside.set()
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                if self.answer is not None:
                    return self.answer
        return None


class Patient:
    def __init__(self):
        self.inside = asyncio.Event()

    async def run(self, question):
        self.inside.set()
        await asyncio.Event().wait()


class Noter:
    async def run(self, question):
        return {"message": "seen"}


async def call(rt, name="add", arguments=FITTING):
    return await rt.call(name, arguments, surface=await rt.surface())


async def records(rt, kind):
    return [found async for record in rt.journal.export() if (found := to_json(record))["record_type"] == kind]


def impatient(rt):
    rt._core.timing.grace_period = rt._core.timing.grace_period._replace(after_stop=0.01)


@pytest.mark.parametrize(("event", "error_class"), [(PRE, "hook_failed"), (POST, "post_hook_failed")])
async def test_a_hook_that_ignores_its_deadline_is_left_behind_and_its_failure_is_recorded(event, error_class):
    stubborn = Stubborn()
    hooks = [
        Hook(name="noter", event=event, runner=Noter()),
        Hook(name="stubborn", event=event, runner=stubborn, timeout_s=0.01),
    ]
    async with Runtime.open(tools=[add], hooks=hooks, approve="wait") as rt:
        impatient(rt)
        result = await call(rt)
        runs = await records(rt, "tool_hook")
    assert not stubborn.released.is_set()
    assert (result.status, result.error.error_class) == ("failed", error_class)
    assert "hook 'stubborn' failed: TimeoutError: no answer within 0.01 s" in result.error.message
    assert "left behind" in result.error.message
    assert [run["name"] for run in runs] == ["noter", "stubborn"]
    assert asyncio.current_task().cancelling() == 0


@pytest.mark.parametrize("answer", [{"permission_result": "allow"}, {"stop": "late"}, {"updated_input": {"a": 9}}])
async def test_an_answer_that_comes_after_the_deadline_does_not_count(answer):
    hook = Hook(name="late", event=PRE, runner=Stubborn(answer), timeout_s=0.01)
    async with Runtime.open(tools=[add], hooks=[hook], approve="wait") as rt:
        result = await call(rt)
    assert result.error.error_class == "hook_failed"
    assert "no answer within 0.01 s" in result.error.message


@pytest.mark.parametrize("kind", [Patient, Stubborn])
async def test_canceling_a_call_ends_the_hook_that_holds_it(kind):
    runner = kind()
    async with Runtime.open(tools=[add], hooks=[Hook(name="slow", event=PRE, runner=runner)], approve="wait") as rt:
        impatient(rt)
        running = asyncio.ensure_future(call(rt))
        await runner.inside.wait()
        (invocation_id,) = rt._core.registry.calls
        assert await rt.cancel(invocation_id)
        result = await running
        runs = await records(rt, "tool_hook")
    assert (result.status, result.abort_reason) == ("canceled", "user_interruption")
    assert [run["name"] for run in runs] == ["slow"]


@pytest.mark.parametrize(("event", "expected"), [(PRE, "canceled"), (POST, "post_hook_failed")])
async def test_a_caller_who_leaves_while_a_hook_runs_leaves_a_true_result_behind(event, expected):
    runner = Patient()
    async with Runtime.open(tools=[add], hooks=[Hook(name="slow", event=event, runner=runner)], approve="wait") as rt:
        running = asyncio.ensure_future(call(rt))
        await runner.inside.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        (result,) = await records(rt, "tool_result")
    assert result["error"]["error_class"] == expected


@pytest.mark.parametrize("reason", ["sibling", "user"])
async def test_a_hook_after_the_tool_ends_by_itself_or_by_its_time_and_not_by_a_cancellation(reason):
    inside, proceed = asyncio.Event(), asyncio.Event()

    class Slow:
        async def run(self, question):
            inside.set()
            await proceed.wait()

    @tool
    async def fail() -> str:
        """Fail once the other is in its hook. Not for success."""
        await inside.wait()
        raise RuntimeError("no")

    hook = Hook(name="slow", event=POST, runner=Slow(), tools=("*.add",), timeout_s=60 if reason == "sibling" else 0.2)
    policy = SchedulerPolicy(scheduler_policy_id="sched_1", sibling_failure_policy="cancel_siblings")
    async with Runtime.open(tools=[add, fail], hooks=[hook], rules=ALLOW, approve="wait") as rt:
        surface = await rt.surface()
        calls = [ToolCall(name="add", arguments=FITTING), ToolCall(name="fail", arguments={})]
        running = asyncio.ensure_future(rt.batch(calls, surface=surface, policy=policy))
        async for _, event in rt.journal.events():
            if event.event_type == "tool.invocation.cancel_failed":
                break
        if reason == "user":
            rt.calls.interrupt()
        else:
            proceed.set()
        added, failed = await running
    assert failed.error.error_class == "execution_failed"
    if reason == "sibling":
        assert added.error is None
    else:
        assert added.error.error_class == "post_hook_failed"
        assert "no answer within 0.2 s" in added.error.message


async def test_a_failure_hook_that_is_late_after_a_tool_that_was_late_says_so():
    @tool(timeout_s=0.01)
    async def sleep() -> str:
        """Sleep. Not for work."""
        await asyncio.Event().wait()
        return "never"

    hook = Hook(name="slow", event=HookEvent.POST_TOOL_USE_FAILURE, runner=Patient(), timeout_s=0.01)
    async with Runtime.open(tools=[sleep], hooks=[hook], rules=ALLOW, approve="wait") as rt:
        result = await call(rt, "sleep", {})
    assert result.error.error_class == "post_hook_failed"
    assert "no answer within 0.01 s" in result.error.message


async def test_what_a_hook_says_of_a_secret_is_in_no_record_and_an_untrusted_one_does_not_even_see_it():
    ran, seen = [], {}

    @tool
    async def pay(to: str, pin: Annotated[str, Sensitive]) -> str:
        """Pay. Not for refunds."""
        ran.append((to, pin))
        return "paid"

    class Curious:
        async def run(self, question):
            seen[question.hook_event, len(seen)] = question.input["pin"]
            if question.hook_event is POST:
                return {"message": f"it was {question.input['pin']}"}
            reason = f"looks like {question.input['pin']}"
            return {
                "updated_input": {**question.input, "to": "ada"},
                "permission_result": "allow",
                "permission_reason": reason,
            }

    hooks = [
        Hook(name=f"{event}-{is_trusted}", event=event, runner=Curious(), is_trusted=is_trusted)
        for event in (PRE, POST)
        for is_trusted in (False, True)
    ]
    async with Runtime.open(tools=[pay], hooks=hooks, approve="wait") as rt:
        asked = asyncio.ensure_future(call(rt, "pay", {"to": "eve", "pin": "4711-0815"}))
        async for _, event in rt.journal.events():
            if event.event_type == "tool.permission.requested":
                break
        for question in await rt.approvals.list():
            await rt.approvals.decide(question.approval_id, "allow")
        result = await asked
        everything = repr([to_json(record) async for record in rt.journal.export()])
    assert result.status == "succeeded"
    assert ran == [("ada", "4711-0815")]
    assert [*seen.values()] == ["[redacted]", "4711-0815"] * 2
    assert "4711-0815" not in everything
