"""A call that waits for an answer outlives its process, and continues in whichever one is there when it is answered."""

import asyncio
import base64
import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest
from starting import begin

from agenttool import Runtime, tool
from agenttool.policy.approvals import Refused, Remember
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource
from agenttool.world import SystemClock


async def _killed(asking, number=1, name="send"):
    with asking(number, name) as (child, approval_id):
        child.kill()
        child.wait()
    return approval_id


@pytest.mark.requirement("AT-ACC-07")
@pytest.mark.requirement("AT-INV-11")
@pytest.mark.parametrize(
    ("answer", "edit", "wrote", "error"),
    [("allow", None, 7, None), ("allow", {"number": 8}, 8, None), ("deny", None, None, "approval_rejected")],
)
async def test_an_answer_after_a_kill_lets_the_call_continue_as_itself(
    asking, survivor, ended, sound, living, tmp_path, answer, edit, wrote, error
):
    approval_id = await _killed(asking, 7)
    async with survivor() as rt:
        (question,) = await rt.approvals.list()
        assert question.approval_id == approval_id
        await rt.approvals.decide(approval_id, answer, input=edit, by="eve")
        (result,) = await ended(rt)
        assert (result.error and result.error.error_class.value) == error
        assert result.invocation_id == question.invocation_id
        assert living.ledger_of(tmp_path) == ([("send", question.invocation_id, wrote)] if wrote else [])
        assert await rt.approvals.list() == ()
        again = await rt.approvals.decide(approval_id, "allow")
        assert isinstance(again, Refused)
        assert again.reason == "answered"
        exported = await sound(rt)
        assert sum(getattr(each, "answers", None) == question.decision_id for each in exported) == 1


async def test_a_question_that_cannot_be_read_hides_no_other(parked, survivor, tmp_path):
    first, second = await parked(2)
    async with survivor(tools=[]) as rt:
        with closing(sqlite3.connect(tmp_path / "state.db")) as file, file:
            file.execute("UPDATE open_calls SET body = x'ff' WHERE approval_id = ?", (first,))
        assert [each.approval_id for each in await rt.approvals.list(limit=1)] == [second]


async def test_a_second_answer_to_an_edited_input_is_refused_as_answered_at_every_moment(tmp_path):
    @tool
    async def pay(number: int) -> str:
        """Pay."""
        return f"paid {number}"

    async def answer_late(rt, question, turns):
        for _ in range(turns):
            await asyncio.sleep(0)
        return (await rt.approvals.decide(question, "deny")).reason

    async with Runtime.open(tools=[pay], store=tmp_path / "calls.db") as rt:
        for number in range(20):
            call = await begin(rt, "pay", {"number": number})
            (question,) = await rt.approvals.list()
            await rt.approvals.decide(question, "allow", input={"number": number + 100})
            late = await asyncio.gather(*(answer_late(rt, question, turns) for turns in range(30)))
            assert set(late) == {"answered"}
            assert (await rt.calls.get(call.invocation_id).result()).text == f"paid {number + 100}"


def _of(number):
    return base64.b64encode(json.dumps({"number": number}).encode()).decode()


EDITS = {
    "what runs": lambda stored: stored.update(call_input=_of(9000)),
    "what was asked for": lambda stored: stored.update(model_input=_of(9000)),
    "who asked for it": lambda stored: stored.update(actor_ref="user:root"),
    "which tool": lambda stored: stored.update(tool_id="tool_local.pay"),
    "what is shown": lambda stored: stored["question"].update(shown={"number": 1}),
    "which digest is answered": lambda stored: stored["question"].update(input_digest="sha256:" + 64 * "0"),
    "which rule is suggested": lambda stored: stored["question"]["suggestions"][0]["rule"].update(tool="*"),
    "why it is asked": lambda stored: stored["question"]["verdict"]["reason"].update(message="a harmless call"),
}


@pytest.mark.parametrize("edit", EDITS)
async def test_what_is_edited_in_the_file_is_neither_answered_nor_run(
    asking, survivor, ended, sound, living, tmp_path, edit, edit_stored
):
    approval_id = await _killed(asking, 7)
    edit_stored(EDITS[edit])
    async with survivor() as rt:
        refused = await rt.approvals.decide(approval_id, "allow")
        assert refused.reason == "other_question"
    with closing(sqlite3.connect(tmp_path / "state.db")) as file, file:  # an answer from a forger
        file.execute(
            "INSERT INTO answers (approval_id, at_ns, body) VALUES (?, 1, ?)",
            (approval_id, b'{"by": "eve", "allow": true}'),
        )
    async with survivor() as rt:
        (result,) = await ended(rt)
        assert result.error.error_code == "checkpoint_changed"
        assert result.error.retry.safe is not False
        assert living.ledger_of(tmp_path) == []
        await sound(rt)


async def test_a_question_does_not_become_a_tool_that_ran_because_the_file_says_so(
    asking, survivor, ended, sound, living, tmp_path
):
    await _killed(asking, 7)
    with closing(sqlite3.connect(tmp_path / "state.db")) as file, file:
        file.execute("UPDATE open_calls SET kind = 'running', approval_id = NULL")
    async with survivor() as rt:
        (result,) = await ended(rt)
        assert result.error.error_code == "checkpoint_changed"
        assert living.ledger_of(tmp_path) == []
        await sound(rt)


COLUMNS = {
    "asked about by another name": "approval_id = approval_id || '9'",
    "asked about by none": "approval_id = NULL",
    "for longer": "expires_at_ns = expires_at_ns + 1000000000",
    "for ever": "expires_at_ns = NULL",
    "approved by nobody": "kind = 'approved', approval_id = NULL, expires_at_ns = NULL",
    "held by nobody": "kind = 'no_checkpoint'",
}


@pytest.mark.parametrize("edit", COLUMNS)
def test_what_is_edited_beside_a_stored_call_shows(asking, tmp_path, edit):
    with asking(7) as (child, _):
        child.kill()
    verify = [sys.executable, "-m", "agenttool", "verify", "--store", f"{tmp_path}/state.db"]
    assert subprocess.run(verify, capture_output=True, timeout=60, check=False).returncode == 0
    with closing(sqlite3.connect(tmp_path / "state.db")) as file, file:
        assert file.execute(f"UPDATE open_calls SET {COLUMNS[edit]}").rowcount == 1
    assert subprocess.run(verify, capture_output=True, timeout=60, check=False).returncode == 1


def _flaws(folder):
    verify = [sys.executable, "-m", "agenttool", "verify", "--store", f"{folder}/state.db", "--json"]
    done = subprocess.run(verify, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    return done.stdout


@pytest.mark.requirement("AT-INV-13")
@pytest.mark.parametrize("kind", ["asked", "approved", "running"])
async def test_a_call_that_has_ended_and_is_put_back_is_not_recovered_again(
    parked, survivor, ended, sound, living, tmp_path, kind
):
    (approval_id,) = await parked(1)
    with closing(sqlite3.connect(tmp_path / "state.db")) as file:
        (stored,) = file.execute("SELECT invocation_id, body FROM open_calls").fetchall()
    async with survivor() as rt:
        await rt.approvals.decide(approval_id, "allow", by="pat")
        await ended(rt)
    with closing(sqlite3.connect(tmp_path / "state.db")) as file, file:
        file.execute("INSERT INTO open_calls (invocation_id, body, kind) VALUES (?, ?, ?)", (*stored, kind))
    async with survivor() as rt:
        assert await rt.calls.recover() == 0
        await sound(rt)
    assert [number for _, _, number in living.ledger_of(tmp_path)] == [7]
    assert "another end" in _flaws(tmp_path)


@pytest.mark.slow
async def test_an_answer_reaches_a_call_in_another_process_that_lives(asking, survivor, ended, sound, living, tmp_path):
    with asking(3, lease_s=living.LONG_LEASE_S) as (child, approval_id):
        async with survivor() as rt:
            await rt.approvals.decide(approval_id, "allow")
            while child.poll() is None:  # its tool writes, and kills it
                await asyncio.sleep(0.01)
            (result,) = await ended(rt)
            assert result.error.error_code == "unknown_after_crash"
            assert living.ledger_of(tmp_path) == [("send", result.invocation_id, 3)]
            await sound(rt)


async def test_a_call_that_continues_elsewhere_reaches_no_tool_that_its_role_may_not_use(
    asking, survivor, ended, living, tmp_path
):
    approval_id = await _killed(asking, 7, "relay")
    async with survivor() as rt:
        await rt.approvals.decide(approval_id, "allow")
        inner, outer = sorted(await ended(rt, 2), key=lambda result: result.error is None)
        assert (inner.error.error_class, outer.model_facing_content[0].text) == ("blocked_tool", "denied")
        assert living.ledger_of(tmp_path) == []


async def test_an_answer_that_is_remembered_holds_where_the_call_continues(asking, survivor, ended, living, tmp_path):
    approval_id = await _killed(asking)
    async with survivor() as rt:
        (question,) = await rt.approvals.list()
        await rt.approvals.decide(approval_id, Remember(rule=question.suggested_updates[0].rule))
        await ended(rt)
        result = await rt.call("send", {"number": 1}, surface=await rt.surface())
        assert result.error is None
        assert [number for _, _, number in living.ledger_of(tmp_path)] == [1, 1]


async def test_a_runtime_that_closes_leaves_its_questions_to_the_next(survivor, ended, sound, living, tmp_path):
    async with survivor() as first:
        calling = asyncio.ensure_future(first.call("send", {"number": 5}, surface=await first.surface()))
        while not (asked := await first.approvals.list()):
            await asyncio.sleep(0.01)
    left = await calling
    assert (left.error.error_class, left.error.error_code) == ("canceled", "waits_for_answer")
    assert left.error.retry.safe is False  # an approver may allow both
    assert "Next: do not repeat the call" in left.model_facing_content[0].text
    assert "taken effect" not in left.model_facing_content[0].text, "it only waited for an approval"
    async with survivor() as second:
        assert await second.journal.result(left.invocation_id) is None
        await second.approvals.decide(asked[0].approval_id, "allow")
        (result,) = await ended(second)
        assert result.error is None
        assert living.ledger_of(tmp_path) == [("send", left.invocation_id, 5)]
        await sound(second)


@pytest.mark.requirement("AT-PERM-28")
async def test_a_question_that_expires_while_no_process_runs_is_a_deny(
    survivor, ended, sound, living, tmp_path, monkeypatch
):
    async with survivor() as first:
        first._core.questions.ttl_s = 3600
        calling = asyncio.ensure_future(first.call("send", {"number": 5}, surface=await first.surface()))
        while not await first.approvals.list():
            await asyncio.sleep(0.01)
    await calling
    monkeypatch.setattr(SystemClock, "now_ns", staticmethod(lambda: time.time_ns() + 3601 * 10**9))
    async with survivor() as second:
        (result,) = await ended(second)
        assert (result.error.error_class, result.error.error_code) == ("permission_denied", "approval_expired")
        assert living.ledger_of(tmp_path) == []
        await sound(second)


async def test_an_answer_does_not_cover_a_tool_that_changed(asking, survivor, ended, sound, living, tmp_path):
    approval_id = await _killed(asking)
    *others, send, relay = living.tools_of(tmp_path)
    changed = tool(description="Send to everybody.")(send.function)
    async with survivor(tools=[*others, changed, relay]) as rt:
        await rt.approvals.decide(approval_id, "allow")
        (result,) = await ended(rt)
        assert result.error.error_code == "declaration_changed"
        assert living.ledger_of(tmp_path) == []
        await sound(rt)


async def test_a_call_that_was_approved_and_never_started_is_judged_by_the_rules_of_now(
    approved, survivor, ended, sound, living, tmp_path
):
    deny = Rule(ref="no", behavior=Behavior.DENY, source=RuleSource.PROJECT_SETTINGS, tools=("local.send",))
    approved(1)
    async with survivor(rules=[deny, *living.RULES]) as rt:
        (result,) = await ended(rt)
        assert result.error.error_class == "permission_denied"
        assert living.ledger_of(tmp_path) == []
        await sound(rt)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("send", 1), ("courier", 2)], ids=["a call", "a nested call"])
async def test_rules_decide_about_a_question_whose_process_died_after_they_changed(
    asking, survivor, ended, sound, living, tmp_path, name, count
):
    with asking(7, name, living.LONG_LEASE_S) as (child, approval_id):
        async with survivor(rules=living.RULES[1:]) as rt:
            await rt.calls.recover()
            assert [each.approval_id for each in await rt.approvals.list()] == [approval_id]
            child.kill()
            child.wait()
            results = await ended(rt, count)
            assert [each.error for each in results] == [None] * count
            assert [(tool, number) for tool, _, number in living.ledger_of(tmp_path)] == [("send", 7)]
            assert await rt.approvals.list() == ()
            await sound(rt)


@pytest.mark.parametrize("changed", [{"mode": "read_only"}, {"rules": [{"behavior": "deny", "tool": "local.send"}]}])
async def test_an_answer_to_a_call_that_the_rules_deny_by_now_runs_nothing(
    asking, survivor, ended, sound, living, tmp_path, changed
):
    approval_id = await _killed(asking)
    async with survivor(**changed) as rt:
        await rt.approvals.decide(approval_id, "allow")
        (result,) = await ended(rt)
        assert result.error.error_class == "permission_denied"
        assert living.ledger_of(tmp_path) == []
        await sound(rt)


async def test_a_call_that_was_approved_and_never_started_starts_with_what_was_approved(
    approved, survivor, ended, sound, living, tmp_path
):
    approved(1)
    async with survivor() as rt:
        (result,) = await ended(rt)
        assert living.ledger_of(tmp_path) == [("send", result.invocation_id, 9)]
        exported = await sound(rt)
        assert sum(bool(getattr(each, "answers", None)) for each in exported) == 1


@pytest.mark.parametrize("body", ['{"of": "tomorrow"}', 5])
async def test_a_question_that_another_version_asks_is_left_to_it(asking, survivor, living, tmp_path, body):
    approval_id = await _killed(asking)
    with closing(sqlite3.connect(tmp_path / "state.db")) as file, file:
        file.execute("UPDATE open_calls SET body = ?", (body,))
    async with survivor() as rt:
        assert await rt.approvals.list() == ()
        refused = await rt.approvals.decide(approval_id, "allow")
        assert refused.reason == "unknown"
        assert await rt.calls.recover() == 0
    assert living.ledger_of(tmp_path) == []


async def test_a_call_at_an_unknown_point_holds_up_no_other(asking, survivor, ended, living, tmp_path):
    await _killed(asking, 1)
    with closing(sqlite3.connect(tmp_path / "state.db")) as file, file:
        file.execute("UPDATE open_calls SET kind = 'of tomorrow', approval_id = NULL")
    approval_id = await _killed(asking, 2)
    async with survivor() as rt:
        await rt.calls.recover()
        await rt.approvals.decide(approval_id, "allow")
        (result,) = await ended(rt)
        assert living.ledger_of(tmp_path) == [("send", result.invocation_id, 2)]
