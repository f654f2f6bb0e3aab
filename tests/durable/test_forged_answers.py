"""An answer that no approver gave lets nothing run, even if a forger writes it into the file in the right form."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

YES = b'{"answer": {"type": "allow"}, "by": {"claim": "eve"}, "at": "2026-01-01T00:00:00Z", "shown_digest": null, "after": 0, "salt": ""}'


async def _waits(asking):
    with asking(7) as (child, approval_id):
        child.kill()
        child.wait()
    return approval_id


def _forge(folder, approval_id, statement):
    with closing(sqlite3.connect(folder / "state.db")) as file, file:
        assert file.execute(statement, {"id": approval_id, "body": YES}).rowcount == 1


def _verify(folder):
    verify = [sys.executable, "-m", "agenttool", "verify", "--store", f"{folder}/state.db", "--json"]
    said = subprocess.run(verify, capture_output=True, timeout=60, check=False).stdout.splitlines()
    return [(each["what"], each["found"]) for each in map(json.loads, said) if each["type"] == "flaw"]


PUT_IN = "INSERT INTO answers (approval_id, at_ns, body) VALUES (:id, 1, :body)"


async def test_an_answer_that_was_put_into_the_file_is_refused_and_shows(
    asking, survivor, ended, sound, living, tmp_path
):
    _forge(tmp_path, await _waits(asking), PUT_IN)
    assert _verify(tmp_path) == [("checkpoint", "another answer")]
    async with survivor() as rt:
        (result,) = await ended(rt)
        assert result.error.error_class == "approval_rejected"
        assert "the journal records no such answer" in result.model_facing_content[0].text
        assert living.ledger_of(tmp_path) == []
        await sound(rt)


async def test_a_no_that_was_turned_into_a_yes_is_refused(asking, survivor, ended, sound, living, tmp_path):
    approval_id = await _waits(asking)
    async with survivor(tools=[]) as rt:
        await rt.approvals.decide(approval_id, "deny", by="pat")
    assert _verify(tmp_path) == []
    turned = 'UPDATE answers SET body = replace(CAST(body AS TEXT), \'"type":"deny"\', \'"type":"allow"\')'
    _forge(tmp_path, approval_id, turned + " WHERE approval_id = :id AND :body NOT NULL")
    assert _verify(tmp_path) == [("checkpoint", "another answer")]
    async with survivor() as rt:
        (result,) = await ended(rt)
        assert result.error.error_class == "approval_rejected"
        assert living.ledger_of(tmp_path) == []
        await sound(rt)


async def test_an_answer_that_was_emptied_before_it_was_read_shows(asking, survivor, tmp_path):
    approval_id = await _waits(asking)
    async with survivor(tools=[]) as rt:
        await rt.approvals.decide(approval_id, "allow", by="pat")
    _forge(tmp_path, approval_id, "UPDATE answers SET body = NULL WHERE approval_id = :id AND :body NOT NULL")
    assert _verify(tmp_path) == [("checkpoint", "another answer")]


async def test_an_answer_to_one_question_is_no_answer_to_another(parked, survivor, ended, sound, living, tmp_path):
    first, second = await parked(2)
    async with survivor(tools=[]) as rt:
        await rt.approvals.decide(first, "allow", by="pat")
    with closing(sqlite3.connect(tmp_path / "state.db")) as file, file:
        file.execute("UPDATE answers SET approval_id = ?", (second,))
    async with survivor() as rt:
        (result,) = await ended(rt)
        assert result.invocation_id[4:] in second
        assert result.error.error_class == "approval_rejected"
        assert [each.approval_id for each in await rt.approvals.list()] == [first]
        assert living.ledger_of(tmp_path) == []
        await sound(rt)


@pytest.mark.requirement("AT-ACC-07")
async def test_a_forged_answer_does_not_reach_a_process_that_waits(asking, survivor, ended, living, tmp_path):
    with asking(7) as (child, approval_id):
        _forge(tmp_path, approval_id, PUT_IN)
        async with survivor(tools=[]) as rt:
            (result,) = await ended(rt)
            assert result.error.error_class == "approval_rejected"
        child.kill()
    assert living.ledger_of(tmp_path) == []


async def test_the_record_of_an_answer_says_when_it_was_given(asking, survivor, ended, tmp_path):
    approval_id = await _waits(asking)
    async with survivor() as rt:
        (question,) = await rt.approvals.list()
        answered = await rt.approvals.decide(approval_id, "allow", by="pat")
        await ended(rt)
        exported = [record async for record in rt.journal.export()]
    (record,) = [each for each in exported if getattr(each, "answers", None) == question.decision_id]
    assert record.decided_at == answered.at > question.asked_at
