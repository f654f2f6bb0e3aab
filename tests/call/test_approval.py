import asyncio
import shutil
import sqlite3
from datetime import timedelta

import pytest
from starting import begin

from agenttool import Runtime, tool
from agenttool.policy.approvals import Allow, Remember, RememberScope


@tool(namespace="bank")
def pay(to: str, amount: int) -> str:
    """Pay a person. Not for refunds."""
    return f"paid {to}"


ADA, KIM = {"to": "ada", "amount": 1}, {"to": "kim", "amount": 1}


async def call(rt, arguments):
    return await rt.call("pay", arguments, surface=await rt.surface())


async def asked(rt, arguments):
    """Start a call, and return it and its question."""
    started = await begin(rt, "pay", arguments, surface=await rt.surface())
    question = next(each for each in await rt.approvals.list() if each.invocation_id == started.invocation_id)
    return started, question


async def answer(rt, arguments, scope=RememberScope.STORE):
    """Allow a call, and remember the suggested rule."""
    started, question = await asked(rt, arguments)
    await rt.approvals.decide(question, Remember(rule=question.suggested_updates[0].rule, scope=scope))
    assert (await rt.calls.get(started.invocation_id).result()).error is None
    return question.approval_id


@pytest.fixture
def store(tmp_path):
    return f"sqlite:{tmp_path}/calls.db"


async def test_a_remembered_rule_is_in_force_after_a_restart(store):
    async with Runtime.open(tools=[pay], store=store, approve="wait") as rt:
        approval_id = await answer(rt, ADA)
    async with Runtime.open(tools=[pay], store=store, approve="wait") as rt:
        assert (await call(rt, ADA)).error is None
        assert [rule.ref for rule in await rt.approvals.rules()] == [f"session:{approval_id}"]
        _, question = await asked(rt, KIM)
        assert question.shown == KIM


async def test_a_rule_that_another_process_remembered_answers_the_next_question(store):
    async with (
        Runtime.open(tools=[pay], store=store, approve="wait") as first,
        Runtime.open(tools=[pay], store=store, approve="wait") as second,
    ):
        await answer(first, ADA)
        assert (await call(second, ADA)).error is None


async def test_a_rule_for_the_session_ends_with_it(store):
    async with Runtime.open(tools=[pay], store=store, approve="wait") as rt:
        await answer(rt, ADA, RememberScope.SESSION)
        assert (await call(rt, ADA)).error is None
    async with Runtime.open(tools=[pay], store=store, approve="wait") as rt:
        _, question = await asked(rt, ADA)
        assert question.shown == ADA


async def test_a_rule_that_is_forgotten_is_revoked_in_every_process(store):
    async with (
        Runtime.open(tools=[pay], store=store, approve="wait") as first,
        Runtime.open(tools=[pay], store=store, approve="wait") as second,
    ):
        approval_id = await answer(first, ADA)
        assert (await call(second, ADA)).error is None
        assert await first.approvals.forget(approval_id)
        assert not await first.approvals.forget(approval_id)
        assert await second.approvals.rules() == ()
        for rt in (first, second):
            started, question = await asked(rt, ADA)
            await rt.approvals.decide(question, Allow())
            await rt.calls.get(started.invocation_id).result()


async def test_a_restored_copy_of_the_store_brings_no_forgotten_rule_back(store, tmp_path):
    async with Runtime.open(tools=[pay], store=store, approve="wait") as rt:
        forgotten, remembered = await answer(rt, ADA), await answer(rt, KIM)
    shutil.copy(tmp_path / "calls.db", tmp_path / "copy.db")
    async with Runtime.open(tools=[pay], store=store, approve="wait") as rt:
        assert await rt.approvals.forget(forgotten)
    shutil.move(tmp_path / "copy.db", tmp_path / "calls.db")
    async with Runtime.open(tools=[pay], store=store, approve="wait") as rt:
        assert [rule.ref for rule in await rt.approvals.rules()] == [f"session:{remembered}"]
        _, question = await asked(rt, ADA)
        assert question.shown == ADA


async def test_a_rule_that_the_journal_does_not_have_allows_nothing(store, tmp_path, caplog):
    async with Runtime.open(tools=[pay], store=store, approve="wait") as rt:
        started, question = await asked(rt, KIM)
        await rt.approvals.decide(question, "allow")
        await rt.calls.get(started.invocation_id).result()
    with sqlite3.connect(tmp_path / "calls.db") as db:
        body = str(question.invocation_id).encode()
        db.execute("INSERT INTO documents VALUES ('remembered_rule', ?, ?)", (question.approval_id, body))
    db.close()
    async with Runtime.open(tools=[pay], store=store, approve="wait") as rt:
        _, again = await asked(rt, KIM)
        assert again.shown == KIM
    assert "is ignored: the journal has no such answer" in caplog.text


async def test_a_rule_ends_with_its_call_and_the_log_says_once_that_retention_deleted_it(store, caplog):
    async with Runtime.open(tools=[pay], store=store, approve="wait") as rt:
        await answer(rt, ADA)
        await rt.journal.retain(journal=timedelta(0))
    for message in ("has ended: retention deleted its call from the journal", ""):
        caplog.clear()
        async with Runtime.open(tools=[pay], store=store, approve="wait") as rt:
            assert await asyncio.gather(rt.approvals.rules(), rt.approvals.rules()) == [(), ()]
            started, question = await asked(rt, ADA)
            await rt.approvals.decide(question, "deny")
            await rt.calls.get(started.invocation_id).result()
        logged = [record.message for record in caplog.records if record.name == "agenttool.rules"]
        assert [message in each for each in logged] == [True] * bool(message)
