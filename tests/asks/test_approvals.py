"""Asks about approvals: of what, by whom, for how long."""

import asyncio
import os
import pwd
import threading

import pytest
from starting import begin

from agenttool import Context, Runtime, sync, tool
from agenttool.codec import digest_of
from agenttool.hooks.definition import Hook
from agenttool.policy.approvals import Allow
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, HookEvent, RuleSource

USER = pwd.getpwuid(os.getuid()).pw_name
"""The operating-system user of the tests."""


class Bank:
    """A tool that asks, and remembers what really ran."""

    def __init__(self):
        self.ran = []

        @tool(approval_required=True)
        async def transfer(to: str, amount: int, note: str = "") -> str:
            """Transfer money. Not for refunds."""
            self.ran.append({"to": to, "amount": amount, "note": note})
            return "done"

        self.tool = transfer


@pytest.fixture
def bank():
    return Bank()


OUTER = [Rule(ref="outer", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*.outer",))]
SHOWN = {"to": "ada", "amount": 5, "note": ""}


async def test_ask_07_what_runs_is_what_was_shown_whatever_happens_to_it_meanwhile(bank, asked, records):
    sent = {"to": "ada", "amount": 5}
    async with Runtime.open(tools=[bank.tool], approve="wait") as rt:
        waiting, question = await asked(rt, "transfer", sent)
        assert question.shown == SHOWN
        sent["amount"] = 5000
        question.shown["to"] = "mallory"
        await rt.approvals.decide(question.approval_id, "allow")
        await waiting
        ask, answer = await records(rt, "tool_permission_decision")
    assert bank.ran == [SHOWN]
    assert ask["input_digest"] == answer["input_digest"] == digest_of(SHOWN)


@pytest.mark.parametrize(("late_answer", "runs"), [({}, [10]), ({"input": {"to": "ada", "amount": 10_000}}, [])])
async def test_ask_07_a_hook_changes_the_call_before_it_is_shown_and_never_after(bank, asked, late_answer, runs):
    class Rounder:
        async def run(self, question):
            return {"updated_input": {**question.input, "amount": 10}}

    class Meddler:
        async def run(self, question):
            question.input["amount"] = 10_000
            return late_answer

    hooks = [
        Hook(name="rounder", event=HookEvent.PRE_TOOL_USE, runner=Rounder()),
        Hook(name="meddler", event=HookEvent.PERMISSION_DECISION, runner=Meddler()),
    ]
    async with Runtime.open(tools=[bank.tool], hooks=hooks, approve="wait") as rt:
        waiting, question = await asked(rt, "transfer", {"to": "ada", "amount": 9})
        await rt.approvals.decide(question.approval_id, "allow")
        await waiting
    assert question.shown["amount"] == 10
    assert [each["amount"] for each in bank.ran] == runs


async def test_ask_08_an_approval_is_good_for_one_call_and_a_late_one_for_none(bank, asked):
    async with Runtime.open(tools=[bank.tool], approve="wait") as rt:
        waiting, question = await asked(rt, "transfer", {"to": "ada", "amount": 5})
        await rt.approvals.decide(question.approval_id, Allow())
        assert (await waiting).status == "succeeded"
        waiting, second = await asked(rt, "transfer", {"to": "ada", "amount": 5})
        assert second.approval_id != question.approval_id
        assert (await rt.approvals.decide(question.approval_id, Allow())).reason == "answered"
        await rt.approvals.decide(second.approval_id, "deny")
        assert (await waiting).status == "rejected"
        rt._core.questions.ttl_s = 0.02
        stale = await rt.call("transfer", {"to": "ada", "amount": 5}, surface=await rt.surface())
        third = (await rt.journal.invocation(stale.invocation_id)).approval_request_ref
        late = await rt.approvals.decide(third, Allow())
    assert len(bank.ran) == 1
    assert (stale.error.error_code, late.reason) == ("approval_expired", "expired")


async def test_ask_09_proposed_decided_and_executed_stay_apart_after_an_edit(bank, asked, records):
    async with Runtime.open(tools=[bank.tool], approve="wait") as rt:
        waiting, question = await asked(rt, "transfer", {"to": "mallory", "amount": 5})
        edited = {**question.shown, "to": "ada"}
        await rt.approvals.decide(question.approval_id, "allow", input=edited, by="pat", message="wrong person")
        result = await waiting
        (call,) = await records(rt, "tool_invocation")
        *_, mutation = await records(rt, "tool_input_mutation")
        ask, answer = await records(rt, "tool_permission_decision")
    assert bank.ran == [edited]
    assert call["model_input"] == {"to": "mallory", "amount": 5}
    assert call["permission_input"] == {**SHOWN, "to": "mallory"}
    assert call["call_input"] == edited
    assert (mutation["source_type"], mutation["changed_fields"]) == ("permission_prompt", ["/to"])
    assert (answer["user_modified"], answer["accept_feedback"]) == (True, "wrong person")
    details = answer["reason"]["details"]
    assert (answer["decided_by"], details["approver"]["claim"], details["shown_digest"]) == (USER, "pat", None)
    assert (answer["answers"], answer["input_digest"]) == (ask["decision_id"], digest_of(edited))
    assert not result.is_error


@pytest.mark.parametrize("depth", [1, 2])
async def test_a_start_returns_while_a_nested_call_waits_so_that_one_task_may_answer(bank, depth):
    @tool
    async def outer(n: int, context: Context) -> str:
        """Call the next one. Not for refunds."""
        name, arguments = ("outer", {"n": n - 1}) if n > 1 else ("transfer", {"to": "ada", "amount": 5})
        return (await context.call(name, arguments)).status.value

    async with Runtime.open(tools=[bank.tool, outer], approve="wait", rules=OUTER) as rt:
        async with asyncio.timeout(60):
            started = await begin(rt, "outer", {"n": depth}, surface=await rt.surface())
        assert started.status == "running"
        (question,) = await rt.approvals.list()
        await rt.approvals.decide(question, "allow")
        assert (await rt.calls.get(started.invocation_id).result()).text == "succeeded"
    assert bank.ran == [SHOWN]


def test_ask_10_a_person_outside_the_agents_loop_answers_and_the_agent_only_waits(bank):
    with sync.open(tools=[bank.tool], approve="wait") as rt:
        results = []

        def agent():
            results.append(rt.call("transfer", {"to": "ada", "amount": 5}, surface=rt.surface()))

        thread = threading.Thread(target=agent)
        thread.start()
        gave_up = threading.Event()
        while not (questions := rt.approvals.list()) and not gave_up.wait(0.005):
            assert thread.is_alive()
        answered = rt.approvals.decide(questions[0], "allow", by="desk")
        assert (answered.by.claim, answered.shown_digest) == ("desk", questions[0].shown_digest)
        thread.join(30)
    assert [each.status for each in results] == ["succeeded"]
    assert bank.ran == [SHOWN]
