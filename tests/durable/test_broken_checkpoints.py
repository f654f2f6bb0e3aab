"""A checkpoint that cannot be used runs nothing, ends with a reason, and keeps no other call from being resumed."""

import asyncio
import base64
import json
import sqlite3
from contextlib import closing

import pytest

NOT_JSON = base64.b64encode(b'{"number": ').decode()
A_LIST = base64.b64encode(b"[7]").decode()


def question_with(**members):
    return lambda stored: {"question": stored["question"] | members}


FORGERIES = {
    "an input that is no JSON": lambda _: {"call_input": NOT_JSON},
    "an input that is a list": lambda _: {"call_input": A_LIST},
    "a request that is no JSON": lambda _: {"model_input": NOT_JSON},
    "both": lambda _: {"call_input": NOT_JSON, "model_input": NOT_JSON},
    "a deadline that is no time": question_with(expires_at="soon"),
    "a time of asking that is none": question_with(asked_at="soon"),
    "a digest that is none": lambda _: {"declaration_digest": "x"},
    "a caller that is unknown": lambda _: {"parent_invocation_id": "x", "parent_resumes": True},
    "a call before it that is unknown": lambda _: {"depends_on": ["x"]},
    "secrets": lambda _: {"secrets": ["", "7"], "salt": ""},
    "very many attempts": lambda _: {"attempts": 2**62, "started_ns": -(2**62)},
    "nothing": dict.fromkeys,
}


def forge(folder, approval_id, change):
    with closing(sqlite3.connect(folder / "state.db")) as file, file:
        (body,) = file.execute("SELECT body FROM open_calls WHERE approval_id = ?", (approval_id,)).fetchone()
        stored = json.loads(body)
        changed = json.dumps(stored | change(stored)).encode()
        file.execute("UPDATE open_calls SET body = ? WHERE approval_id = ?", (changed, approval_id))


@pytest.mark.parametrize("name", FORGERIES)
@pytest.mark.parametrize("decides", ["approver", "rules"])
async def test_a_forged_checkpoint_keeps_no_other_call_from_being_resumed(
    parked, survivor, ended, sound, living, tmp_path, name, decides
):
    first, second = await parked(2)
    forge(tmp_path, first, FORGERIES[name])
    options = {"approve": lambda _: "allow"} if decides == "approver" else {"rules": living.RULES[1:]}
    async with survivor(**options) as rt:
        await rt.calls.recover()
        while not any(each.invocation_id[4:] in second and each.ok for each in await ended(rt)):
            await asyncio.sleep(0.02)
        await sound(rt)


@pytest.mark.parametrize("change", [{"call_input": NOT_JSON}, {"call_input": A_LIST}, {"model_input": NOT_JSON}])
async def test_a_call_whose_stored_input_is_no_json_object_ends_with_the_reason_and_does_not_run(
    parked, survivor, ended, sound, living, tmp_path, change
):
    (asked,) = await parked(1)
    forge(tmp_path, asked, lambda _: change)
    async with survivor(approve=lambda _: "allow") as rt:
        await rt.calls.recover()
        (result,) = await ended(rt)
        assert result.error.error_code == "checkpoint_changed"
        assert living.ledger_of(tmp_path) == []
        await sound(rt)
