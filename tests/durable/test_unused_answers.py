"""An answer that was accepted is recorded, also if its call was canceled before it could use the answer."""

import asyncio

import pytest

from agenttool import tool
from agenttool.durable import recovery
from agenttool.policy.approvals import Answered, Refused
from agenttool.stores.sqlite.open_calls import SqliteOpenCalls

BOUND_S = 60
LEASE_S = 600.0


@pytest.fixture
def answers(sound):
    """Return the decisions of approvers in a sound journal."""

    async def answers(rt):
        exported = await sound(rt)
        return [
            (each.invocation_id, each.behavior.value) for each in exported if getattr(each, "answers", None) is not None
        ]

    return answers


async def _question(rt):
    async with asyncio.timeout(BOUND_S):
        while not (asked := await rt.approvals.list()):
            await asyncio.sleep(0.01)
    return asked[0]


@pytest.mark.parametrize(("word", "code"), [("allow", "canceled"), ("deny", "rejected")])
async def test_an_answer_in_another_process_is_recorded_although_the_call_is_canceled_before_it_arrives(
    survivor, answers, living, tmp_path, monkeypatch, word, code
):
    monkeypatch.setattr(recovery, "POLL_S", LEASE_S)  # answers of other processes do not arrive
    async with survivor(lease_s=LEASE_S) as rt, survivor(lease_s=LEASE_S, tools=[]) as other:
        calling = asyncio.ensure_future(rt.call("send", {"number": 4}, surface=await rt.surface()))
        question = await _question(other)
        assert isinstance(await other.approvals.decide(question.approval_id, word, by="ada"), Answered)
        assert await rt.cancel(question.invocation_id)
        assert (await calling).error.error_code == code
        assert await answers(rt) == [(question.invocation_id, word)]
        assert living.ledger_of(tmp_path) == []


async def test_no_answer_is_accepted_once_the_call_is_being_canceled(survivor, answers, monkeypatch):
    monkeypatch.setattr(recovery, "POLL_S", LEASE_S)
    async with survivor(lease_s=LEASE_S) as rt, survivor(lease_s=LEASE_S, tools=[]) as other:
        calling = asyncio.ensure_future(rt.call("send", {"number": 4}, surface=await rt.surface()))
        question = await _question(other)
        outcomes, remove = [], SqliteOpenCalls.remove

        def answer_first(self, invocation_id, **options):
            outcomes.append(asyncio.ensure_future(other.approvals.decide(question.approval_id, "allow")))
            remove(self, invocation_id, **options)

        monkeypatch.setattr(SqliteOpenCalls, "remove", answer_first)
        assert await rt.cancel(question.invocation_id)
        assert (await calling).error.error_code == "canceled"
        assert [type(await each) for each in outcomes] == [Refused]
        assert await answers(rt) == []


async def test_the_answer_to_a_call_of_a_dead_process_is_recorded_when_the_call_is_canceled(
    asking, survivor, ended, answers, living, tmp_path
):
    with asking(4) as (child, approval_id):
        child.kill()
    async with survivor(tools=[]) as rt:
        invocation_id = (await _question(rt)).invocation_id
        assert isinstance(await rt.approvals.decide(approval_id, "allow", by="ada"), Answered)
        assert await rt.cancel(invocation_id)
        assert [each.error.error_code for each in await ended(rt)] == ["canceled"]
    async with survivor() as rt:
        assert await answers(rt) == [(invocation_id, "allow")]
        assert living.ledger_of(tmp_path) == []


@pytest.mark.parametrize("word", ["allow", "deny"])
async def test_an_answer_that_arrives_while_a_nested_call_is_ended_for_want_of_its_parent_is_recorded(
    asking, survivor, ended, answers, living, tmp_path, monkeypatch, word
):
    with asking(4, "errand") as (child, approval_id):
        child.kill()
    outcomes, claim_one = [], SqliteOpenCalls.claim_one

    async def claim_before_the_answer(self, invocation_id, **options):
        claimed = await claim_one(self, invocation_id, **options)
        if claimed is not None and claimed.approval_id == approval_id:
            outcomes.append(await other.approvals.decide(approval_id, word, by="ada"))
        return claimed

    async with survivor(tools=[], lease_s=LEASE_S) as other:
        other._agent.recovery._task.cancel()  # it answers, and ends no calls
        monkeypatch.setattr(SqliteOpenCalls, "claim_one", claim_before_the_answer)
        async with survivor() as rt:
            results = await ended(rt, 2)
            assert {each.error.error_class for each in results} == {"canceled", "execution_failed"}
            assert [type(each) for each in outcomes] == [Answered]
            assert [behavior for _, behavior in await answers(rt)] == [word]
            assert living.ledger_of(tmp_path) == []


async def test_the_answer_to_a_call_whose_tool_has_changed_since_is_recorded(asking, survivor, ended):
    with asking(4) as (child, approval_id):
        child.kill()
    async with survivor(tools=[]) as rt:
        invocation_id = (await _question(rt)).invocation_id
        assert isinstance(await rt.approvals.decide(approval_id, "allow", by="ada"), Answered)

    @tool
    async def send(number: int, copies: int = 1) -> str:
        """Send. Not for letters."""
        raise AssertionError(number, copies)

    async with survivor(tools=[send]) as rt:
        assert [each.error.error_class for each in await ended(rt)] == ["permission_denied"]
        answers = [each async for each in rt.journal.export() if getattr(each, "answers", None) is not None]
        assert [(each.invocation_id, each.behavior) for each in answers] == [(invocation_id, "allow")]
