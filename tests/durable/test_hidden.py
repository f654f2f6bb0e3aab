"""The hidden part of a waiting call: it is what runs, and no reader of the store can change or guess it."""

import asyncio
import base64
import json
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from agenttool.codec import write

EVIL = 1234


def _pin(part):
    def change(stored):
        given = json.loads(base64.b64decode(stored[part]))
        stored[part] = base64.b64encode(json.dumps({**given, "pin": EVIL}).encode()).decode()

    return change


EDITS = {
    "what runs": _pin("call_input"),
    "what was asked for": _pin("model_input"),
    "the salt": lambda stored: stored.update(salt=base64.b64encode(bytes(32)).decode()),
    "a longer salt": lambda stored: stored.update(
        salt=base64.b64encode(base64.b64decode(stored["salt"]) + b"0").decode()
    ),
    "no salt": lambda stored: stored.pop("salt"),
}


def _verify(folder):
    program = [sys.executable, "-m", "agenttool", "verify", "--store", f"{folder}/state.db"]
    return subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)


async def _killed(asking):
    with asking(7, "unlock") as (child, approval_id):
        child.kill()
    return approval_id


@pytest.mark.parametrize("edit", [None, {"number": 9, "pin": "[redacted]"}, {"number": 7, "pin": 99}])
async def test_what_no_approver_was_shown_is_what_runs_after_a_kill(
    asking, survivor, ended, sound, living, tmp_path, edit
):
    approval_id = await _killed(asking)
    async with survivor() as rt:
        await rt.approvals.decide(approval_id, "allow", input=edit)
        (result,) = await ended(rt)
        pin = 99 if edit is not None and edit["pin"] == 99 else living.PIN
        assert living.ledger_of(tmp_path) == [("unlock", result.invocation_id, pin)]
        await sound(rt)


@pytest.mark.slow
async def test_what_no_approver_was_shown_is_what_is_run_again(asking, survivor, ended, sound, living, tmp_path):
    with asking(7, "unlock", living.LONG_LEASE_S) as (child, approval_id):
        async with survivor() as rt:
            await rt.approvals.decide(approval_id, "allow")
            while child.poll() is None:  # its tool writes, and kills it
                await asyncio.sleep(0.01)
            (result,) = await ended(rt)
            assert result.error is None
            assert living.ledger_of(tmp_path) == [("unlock", result.invocation_id, living.PIN)] * 2
            await sound(rt)


@pytest.mark.parametrize("edit", EDITS)
async def test_a_secret_that_is_edited_in_the_file_is_neither_answered_nor_run(
    asking, survivor, ended, sound, living, tmp_path, edit, edit_stored
):
    approval_id = await _killed(asking)
    assert _verify(tmp_path).returncode == 0
    edit_stored(EDITS[edit])
    verified = _verify(tmp_path)
    assert (verified.returncode, "another hidden input" in verified.stdout) == (1, True)
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
        assert living.ledger_of(tmp_path) == []
        await sound(rt)


@pytest.mark.parametrize("edit", [None, *EDITS])
async def test_a_secret_of_a_call_that_was_approved_runs_as_it_was_or_not_at_all(
    dies, survivor, ended, sound, living, tmp_path, edit, edit_stored
):
    dies("unlocked", 7)
    if edit is not None:
        edit_stored(EDITS[edit])
    async with survivor() as rt:
        (result,) = await ended(rt)
        ran = [("unlock", result.invocation_id, living.PIN)] if edit is None else []
        assert living.ledger_of(tmp_path) == ran
        assert (result.error and result.error.error_code) == (None if edit is None else "checkpoint_changed")
        await sound(rt)


async def test_a_call_that_an_earlier_version_stored_continues(asking, survivor, ended, living, tmp_path, edit_stored):
    """It had nothing that could show whether its secret was edited, and the log does not say that it had."""
    approval_id = await _killed(asking)
    edit_stored(EDITS["no salt"])
    with closing(sqlite3.connect(tmp_path / "state.db")) as file, file:
        file.execute("UPDATE facts SET lines = replace(lines, ?, ?)", (b',"salted":true', b""))
    async with survivor() as rt:
        await rt.approvals.decide(approval_id, "allow")
        (result,) = await ended(rt)
        assert living.ledger_of(tmp_path) == [("unlock", result.invocation_id, living.PIN)]


async def test_no_reader_of_the_records_can_see_that_two_calls_have_the_same_secret(survivor, tmp_path):
    async with survivor() as rt:
        surface = await rt.surface()
        given = {"number": 1, "pin": 4711}
        calling = [asyncio.ensure_future(rt.call("unlock", given, surface=surface)) for _ in range(2)]
        async with asyncio.timeout(60):
            while len(questions := await rt.approvals.list()) < len(calling):
                await asyncio.sleep(0.01)
        assert len({each.input_digest for each in questions}) == len(questions)
        exported = b"\n".join([write(record) async for record in rt.journal.export()])
        with closing(sqlite3.connect(tmp_path / "state.db")) as file:
            bodies = [json.loads(body) for (body,) in file.execute("SELECT body FROM open_calls")]
            log_lines = b"".join(lines for (lines,) in file.execute("SELECT CAST(lines AS BLOB) FROM facts"))
    salts = [base64.b64decode(body["salt"]) for body in bodies]
    assert [len(salt) for salt in salts] == [32, 32]
    for salt in salts:
        for spelled in (salt, salt.hex().encode(), base64.b64encode(salt)):
            assert spelled not in exported + log_lines
    await asyncio.gather(*calling)
