"""A decision carries the facts that explain it: its rule, its path, its policy, and what an approver changed."""

import asyncio
from pathlib import Path

import pytest

from agenttool import Runtime, tool
from agenttool.ports.advice import Advice, Adviser
from agenttool.records import Behavior, RuleSource


@tool(read_only=True, concurrency_safe=True, open_world=False)
async def add(a: int) -> int:
    """Add one. Not for text."""
    return a + 1


@tool(approval_required=True)
async def pay(amount: int) -> str:
    """Pay. Not for refunds."""
    return f"paid {amount}"


async def decisions_of(runtime, records, calling):
    await calling
    return await records(runtime, "tool_permission_decision")


@pytest.mark.requirement("AT-PERM-14")
async def test_a_decision_by_rule_names_the_rule_its_source_and_its_reason(call, records, rule):
    async with Runtime.open(tools=[add], rules=[rule("deny", "local.add", ref="no-add")], approve="wait") as rt:
        (decision,) = await decisions_of(rt, records, call(rt, "add", {"a": 1}))
    assert (decision["behavior"], decision["mode"], decision["source"]) == ("deny", "default", "project_settings")
    assert decision["rule_refs"] == ["no-add"]
    assert (decision["reason"]["type"], decision["reason"]["rule_ref"]) == ("rule", "no-add")
    assert {"decision_id", "invocation_id", "decided_at", "input_digest"} <= decision.keys()


@pytest.mark.requirement("AT-PERM-14", "AT-PERM-22", "AT-PERM-26")
async def test_a_decision_by_an_approver_carries_the_edit_and_when_the_question_expires(asked_questions, call, records):
    async with Runtime.open(tools=[pay], approve="wait") as rt:
        calling = asyncio.ensure_future(call(rt, "pay", {"amount": 5}))
        (question,) = await asked_questions(rt)
        await rt.approvals.decide(question.approval_id, "allow", input={"amount": 3}, by="pat", message="less")
        ask, answer = await decisions_of(rt, records, calling)
    assert (ask["behavior"], answer["behavior"], answer["answers"]) == ("ask", "allow", ask["decision_id"])
    assert ask["suggested_updates"][0]["rule"]["tool"] == "local.pay"
    assert answer["expires_at"] > answer["decided_at"]
    assert answer["user_modified"] is True
    assert answer["updated_input"] == {"amount": 3}
    assert answer["accept_feedback"] == "less"


@pytest.mark.requirement("AT-PERM-14")
async def test_a_decision_by_the_policy_layer_names_the_policy(call, hook, records, rule):
    grant = rule("allow", "local.add", ref="release-day", source=RuleSource.POLICY_SETTINGS, hook="release")
    waiving = hook({"permission_result": "allow"}, name="release")
    async with Runtime.open(tools=[add], rules=[rule("deny", "*"), grant], hooks=[waiving], approve="wait") as rt:
        (decision,) = await decisions_of(rt, records, call(rt, "add", {"a": 1}))
    assert (decision["behavior"], decision["policy_refs"]) == ("allow", ["release-day"])


@pytest.mark.requirement("AT-PERM-14")
async def test_a_decision_by_a_classifier_carries_what_the_classifier_said(call, records):
    class Judge:
        async def advise(self, question):
            return Advice(behavior=Behavior.DENY, confidence=0.9, reason="too much")

    async with Runtime.open(
        tools=[pay], advisers=[Adviser(ref="advisers/amounts", judge=Judge())], approve="wait"
    ) as rt:
        (decision,) = await decisions_of(rt, records, call(rt, "pay", {"amount": 5}))
    check = decision["pending_classifier_check"]
    assert (check["classifier_ref"], check["confidence"]) == ("advisers/amounts", 0.9)
    assert check["classifier_reason"] == "too much"


@pytest.mark.requirement("AT-PERM-14")
async def test_a_rejection_carries_the_words_of_the_approver(asked_questions, call, records):
    async with Runtime.open(tools=[pay], approve="wait") as rt:
        calling = asyncio.ensure_future(call(rt, "pay", {"amount": 5}))
        (question,) = await asked_questions(rt)
        await rt.approvals.decide(question.approval_id, "deny", by="pat", message="not today")
        _, answer = await decisions_of(rt, records, calling)
    assert [block["text"] for block in answer["content_blocks"]] == ["not today"]


@pytest.mark.requirement("AT-PERM-14", "AT-PERM-21")
async def test_a_decision_about_a_path_names_the_path_and_the_rule(call, records, tmp_path):
    @tool(read_only=True, open_world=False)
    async def show(path: Path) -> str:
        """Show a file. Not for folders."""
        return str(path)

    settings = tmp_path / "agenttool.toml"
    settings.write_text('[[rules]]\nname = "no-etc"\nbehavior = "deny"\ntool = "*"\npath = "/etc"\nbecause = "keys"\n')
    async with Runtime.open(tools=[show], config=settings, approve="wait") as rt:
        (decision,) = await decisions_of(rt, records, call(rt, "show", {"path": "/etc/../etc/passwd"}))
    assert (decision["behavior"], decision["source"]) == ("deny", "project_settings")
    assert decision["blocked_path"] == "/etc/passwd"
    assert [ref.rsplit(":")[-1] for ref in decision["rule_refs"]] == ["no-etc"]
