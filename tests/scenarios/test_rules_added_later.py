"""A question that waits is judged again when rules change: withdrawn and run, or denied by the rule."""

import asyncio

import pytest
from starting import begin

from agenttool import Runtime, tool
from agenttool.policy.approvals import RefusalReason, Refused
from agenttool.records import PermissionDecision

BOUND_S = 60


@tool(namespace="x")
def pay(to: str) -> str:
    """Pay somebody. Not for invoices."""
    return f"paid {to}"


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    return "memory:" if request.param == "memory" else tmp_path / "calls.db"


async def asked(rt, count=1):
    while True:
        if len(found := await rt.approvals.list()) == count:
            return found
        await asyncio.sleep(0.01)


def settings(path, *rules):
    lines = [f'[[rules]]\nname = "late"\nbehavior = "{behavior}"\ntool = "{name}"\n' for behavior, name in rules]
    path.write_text("".join(lines))
    return path


async def decisions_of(rt, invocation_id):
    records = [each async for each in rt.journal.export()]
    return [each for each in records if isinstance(each, PermissionDecision) and each.invocation_id == invocation_id]


@pytest.mark.parametrize("behavior", ["allow", "deny"])
async def test_a_rule_of_changed_settings_decides_about_a_call_that_waits(tmp_path, store, behavior):
    config = settings(tmp_path / "agenttool.toml")
    async with Runtime.open(config=config, tools=[pay], approve="wait", store=store) as rt, asyncio.timeout(BOUND_S):
        calling = asyncio.create_task(rt.call("pay", {"to": "ada"}))
        (question,) = await asked(rt)
        settings(config, (behavior, "x.pay"))
        await rt.reload(config)
        result = await calling
        assert await rt.approvals.list() == ()
        late = await rt.approvals.decide(question, "allow")
        first, last = await decisions_of(rt, question.invocation_id)
    assert (first.behavior, last.behavior, last.answers) == ("ask", behavior, first.decision_id)
    assert last.rule_refs == ("project_settings:late",)
    assert (result.text if result.ok else result.error.error_class) == (
        "paid ada" if behavior == "allow" else "permission_denied"
    )
    assert isinstance(late, Refused)
    assert late.reason is RefusalReason.WITHDRAWN
    assert "a rule that was added later" in late.message


async def test_a_rule_of_changed_surfaces_decides_about_a_call_that_waits(store):
    async with Runtime.open(tools=[pay], approve="wait", store=store) as rt, asyncio.timeout(BOUND_S):
        calling = asyncio.create_task(rt.call("pay", {"to": "ada"}))
        await asked(rt)
        await rt.surfaces.change(rules=[{"name": "late", "behavior": "deny", "tool": "x.pay"}])
        result = await calling
        assert await rt.approvals.list() == ()
    assert result.error.error_class == "permission_denied"


async def test_a_rule_that_an_answer_adds_decides_about_other_calls_that_wait(store):
    async with Runtime.open(tools=[pay], approve="wait", store=store) as rt, asyncio.timeout(BOUND_S):
        calls = [asyncio.create_task(rt.call("pay", {"to": "ada"})) for _ in range(3)]
        first, *others = await asked(rt, 3)
        await rt.approvals.decide(first, "allow", remember={"behavior": "allow", "tool": "x.pay"})
        assert [(await each).text for each in calls] == ["paid ada"] * 3
        for other in others:
            *_, last = await decisions_of(rt, other.invocation_id)
            assert last.rule_refs == (f"session:{first.approval_id}",)


async def test_a_rule_of_another_process_decides_about_a_call_that_waits_here(tmp_path):
    store = tmp_path / "calls.db"
    async with (
        Runtime.open(tools=[pay], approve="wait", store=store) as here,
        Runtime.open(tools=[pay], approve="wait", store=store) as there,
        asyncio.timeout(BOUND_S),
    ):
        calling = asyncio.create_task(here.call("pay", {"to": "ada"}))
        await asked(there)
        other = asyncio.create_task(there.call("pay", {"to": "eve"}))
        question = next(each for each in await asked(there, 2) if each.shown == {"to": "eve"})
        await there.approvals.decide(question, "allow", remember={"behavior": "allow", "tool": "x.pay"})
        assert [(await each).text for each in (other, calling)] == ["paid eve", "paid ada"]


@pytest.mark.parametrize("behavior", ["allow", "deny"])
async def test_a_question_that_waits_without_a_process_is_judged_when_it_is_shown(tmp_path, behavior):
    store = tmp_path / "calls.db"
    async with Runtime.open(tools=[pay], approve="wait", store=store) as rt:
        started = await begin(rt, "pay", {"to": "ada"})
        (question,) = await asked(rt)
    rules = [{"behavior": behavior, "tool": "x.pay", "name": "late"}]
    async with Runtime.open(tools=[pay], approve="wait", store=store, rules=rules) as rt, asyncio.timeout(BOUND_S):
        assert await rt.approvals.list() == ()
        result = await rt.calls.get(started.invocation_id).result()
        late = await rt.approvals.decide(question, "allow")
    assert (result.text if result.ok else result.error.error_class) == (
        "paid ada" if behavior == "allow" else "permission_denied"
    )
    assert f"a rule that was added later {'allows' if behavior == 'allow' else 'denies'} the call" in late.message
