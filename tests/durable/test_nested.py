"""A call that made others when its process died: it finds their results when it is resumed, or ends together with them."""

import asyncio

import pytest

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
    async with survivor(tools=[]) as rt:
        rt._agent.recovery._task.cancel()  # nothing but the answer looks at the call
        await asyncio.sleep(2 * living.LEASE_S)
        refused = await rt.approvals.decide(approval_id, "allow")
        assert isinstance(refused, Refused)
        assert await rt.approvals.list() == ()
        assert tools_used() == []
