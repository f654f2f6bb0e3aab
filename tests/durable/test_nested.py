"""A call that made others when its process died: it finds their results when it is resumed, or ends together with them."""

import asyncio

import pytest
from starting import begin

from agenttool import Context, Runtime, tool
from agenttool.policy.approvals import Answered, Refused

BOUND_S = 60


@pytest.fixture
def tools_used(living, tmp_path):
    """The tools that wrote into the ledger, with their numbers."""
    return lambda: [(name, number) for name, _, number in living.ledger_of(tmp_path)]


async def _question(rt):
    async with asyncio.timeout(BOUND_S):
        while not (asked := await rt.approvals.list()):
            await asyncio.sleep(0.01)
    return asked[0]


async def _results(rt, ended, count):
    return {each.invocation_id: each for each in await ended(rt, count)}


async def test_a_resumed_call_gets_the_results_of_the_calls_that_it_made(dies, survivor, ended, sound, tools_used):
    dies("twice", 4)
    assert tools_used() == [("mark", 4)]
    async with survivor() as rt:
        results = await ended(rt, 3)
        assert [each.error for each in results] == [None, None, None]
        (whole,) = [each for each in results if each.content[0].text == "succeeded succeeded"]
        assert tools_used() == [("mark", 4), ("mark", 5)]
        assert (await rt.journal.invocation(whole.invocation_id)).status == "succeeded"
        await sound(rt)


@pytest.mark.requirement("AT-EXEC-08")
async def test_a_call_that_acts_only_by_nested_calls_continues_with_their_results(
    dies, survivor, ended, sound, tools_used
):
    dies("trip", 4)
    assert tools_used() == [("mark", 4)]
    async with survivor() as rt:
        results = await ended(rt, 5)
        codes = sorted("" if each.error is None else each.error.error_code for each in results)
        assert codes == ["", "", "", "", "process_died"]  # the first look was interrupted, and made again
        assert [each.text for each in results if each.text == "succeeded succeeded"] == ["succeeded succeeded"]
        assert tools_used() == [("mark", 4), ("mark", 5)]
        await sound(rt)


async def test_an_approval_of_a_nested_call_is_used_by_the_resumed_parent(asking, survivor, ended, sound, tools_used):
    with asking(4, "courier") as (child, approval_id):
        child.kill()
    async with survivor() as rt:
        assert (await _question(rt)).approval_id == approval_id
        assert isinstance(await rt.approvals.decide(approval_id, "allow"), Answered)
        results = await ended(rt, 2)
        assert [each.error for each in results] == [None, None]
        assert tools_used() == [("send", 4)]
        await sound(rt)


async def test_an_answer_from_the_time_without_any_process_is_used(asking, survivor, ended, sound, tools_used):
    with asking(4, "courier") as (child, approval_id):
        child.kill()
    async with survivor(tools=[]) as without_tools:
        assert isinstance(await without_tools.approvals.decide(approval_id, "allow"), Answered)
    async with survivor() as rt:
        assert [each.error for each in await ended(rt, 2)] == [None, None]
        assert tools_used() == [("send", 4)]
        await sound(rt)


async def test_an_answer_is_recorded_although_the_parent_ended_before_it_was_used(
    asking, survivor, ended, sound, tools_used
):
    with asking(4, "courier") as (child, approval_id):
        child.kill()
    async with survivor(tools=[]) as without_tools:
        nested = await without_tools.journal.invocation((await _question(without_tools)).invocation_id)
        assert isinstance(await without_tools.approvals.decide(approval_id, "allow", by="ada"), Answered)
        assert await without_tools.cancel(nested.parent_invocation_id)
    async with survivor() as rt:
        results = await _results(rt, ended, 2)
        assert results[nested.invocation_id].error.error_class == "canceled"
        assert tools_used() == []
        exported = await sound(rt)
        answers = [each for each in exported if getattr(each, "answers", None) is not None]
        assert [(each.invocation_id, each.behavior) for each in answers] == [(nested.invocation_id, "allow")]


async def test_a_question_of_a_call_that_cannot_be_resumed_is_withdrawn(asking, survivor, ended, sound, tools_used):
    with asking(4, "errand") as (child, _):
        child.kill()
    async with survivor() as rt:
        results = await ended(rt, 2)
        assert {each.error.error_class for each in results} == {"canceled", "execution_failed"}
        assert await rt.approvals.list() == ()
        assert tools_used() == []
        await sound(rt)


async def test_a_question_that_no_one_needs_is_withdrawn_before_it_can_be_answered(
    asking, survivor, tools_used, living
):
    with asking(4, "errand") as (child, approval_id):
        child.kill()
    async with survivor(tools=[], lease_s=living.LONG_LEASE_S) as rt:
        rt._agent.recovery._task.cancel()  # nothing but the answer looks at the call
        await asyncio.sleep(2 * living.LEASE_S)
        refused = await rt.approvals.decide(approval_id, "allow")
        assert isinstance(refused, Refused)
        assert await rt.approvals.list() == ()
        assert tools_used() == []


@tool(namespace="shop")
async def pay(article: str) -> str:
    """Pay for an article."""
    return f"paid {article}"


@tool(namespace="shop")
async def buy(article: str, context: Context) -> str:
    """Buy articles: each is paid for with an approval."""
    paid = await asyncio.gather(*(context.call("shop.pay", {"article": f"{article} {each}"}) for each in (1, 2)))
    return " and ".join(each.text for each in paid)


@tool(namespace="shop")
async def deliver(article: str, context: Context) -> str:
    """Buy and deliver."""
    return f"delivered: {(await context.call('shop.buy', {'article': article})).text}"


async def test_closing_a_runtime_withdraws_no_question_of_a_nested_call_whose_parent_can_continue(tmp_path):
    rules = [{"behavior": "allow", "tool": ["shop.buy", "shop.deliver"]}]

    def opened():
        return Runtime.open(store=tmp_path / "calls.db", tools=[pay, buy, deliver], rules=rules)

    async def recovered(rt):
        async with asyncio.timeout(BOUND_S):
            while call.invocation_id not in rt.calls.open_ids():
                await rt.calls.recover()
        return {each.shown["article"]: each for each in await rt.approvals.list()}

    async with opened() as rt:
        call = await begin(rt, "deliver", {"article": "soap"})
    async with opened() as rt:
        assert {*await recovered(rt)} == {"soap 1", "soap 2"}
    async with opened() as rt:
        asked = await recovered(rt)
        await rt.approvals.decide(asked["soap 1"], "allow")
        await rt.approvals.decide(asked["soap 2"], "deny")
        result = await rt.calls.get(call.invocation_id).result()
    assert result.text.startswith("delivered: paid soap 1 and approval_rejected")
