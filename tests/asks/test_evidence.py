"""Asks about what is left behind: no secrets, every refusal, and who allowed what."""

import hashlib
import io
import json
import logging
import os
import pwd
from typing import Annotated

import pytest
import rfc8785
from project_settings import write_settings

from agenttool import Context, Progress, Runtime, Sensitive, tool
from agenttool.codec import write

USER = pwd.getpwuid(os.getuid()).pw_name
"""The operating-system user of the tests."""

SECRET = "correct-horse-battery-staple"  # noqa: S105 -- a marker to look for


async def test_ask_19_a_secret_argument_reaches_no_record_event_log_or_message(allow, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    seen = []

    @tool
    async def login(user: str, password: Annotated[str, Sensitive], context: Context):
        """Log in. Not for services."""
        seen.append(password)
        context.progress(f"trying {password}")
        yield Progress(f"with {password}")
        if user == "eve":
            raise PermissionError(f"{password} is not the password of {user}")
        yield {"welcome": user, "echo": f"you said {password}"}

    async with Runtime.open(tools=[login], rules=allow, approve="wait") as rt:
        surface = await rt.surface()
        results = [
            await rt.call("login", {"user": user, "password": SECRET}, surface=surface) for user in ("ada", "eve")
        ]
        results.append(await rt.call("login", {"user": 5, "password": SECRET}, surface=surface))
        results.append(await rt.call("logon", {"user": "ada", "password": SECRET}, surface=surface))
        exported = [write(record) async for record in rt.journal.export()]
    assert seen == [SECRET, SECRET]
    assert [each.is_error for each in results] == [False, True, True, True]
    out, err = capfd.readouterr()
    everything = repr(results) + b"".join(exported).decode() + caplog.text + out + err
    assert SECRET not in everything
    assert "[redacted]" in everything


VAULT = '''
from typing import Annotated
from agenttool import Sensitive, tool

@tool(read_only=True, open_world=False)
async def unlock(pin: Annotated[str, Sensitive]) -> str:
    """Unlock. Not for locking."""
    raise ValueError(f"{pin} is wrong")
'''


@pytest.mark.slow
def test_ask_19_the_terminal_does_not_print_it_either(terminal):
    (terminal.folder / "vault.py").write_text(VAULT)
    (terminal.folder / "pin.json").write_text(json.dumps({"pin": SECRET}))
    for more in ([], ["--json"]):
        done = terminal("call", "unlock", "--args-file", "pin.json", "--from", "vault", *more)
        assert done.returncode == 1
        assert SECRET not in done.stdout + done.stderr


RULES = """
[[rules]]
name = "no-drops"
behavior = "deny"
tool = "local.drop"
because = "tables stay"

[[rules]]
name = "small-payments"
behavior = "allow"
tool = "local.pay"
argument = { "/amount" = { max = 100 } }
"""


@tool
async def drop(table: str) -> str:
    """Drop a table. Not for rows."""
    return "dropped"


@tool
async def pay(amount: int) -> str:
    """Pay. Not for refunds."""
    return "paid"


def digest(value):
    """Take a digest as a third party would: by the published rules, with tools of its own."""
    return "sha256:" + hashlib.sha256(rfc8785.dumps(value)).hexdigest()


@pytest.mark.slow
async def test_ask_26_who_allowed_what_and_by_which_rule_can_be_checked_by_a_third_party(terminal, asked):
    write_settings(terminal.folder / "agenttool.toml", RULES)
    async with Runtime.open(tools=[drop, pay], rules=terminal.folder / "agenttool.toml", approve="wait") as rt:
        await rt.call("pay", {"amount": 5}, surface=await rt.surface())
        waiting, question = await asked(rt, "pay", {"amount": 500})
        await rt.approvals.decide(question.approval_id, "allow", by="pat@example.com")
        await waiting
        exported = b"\n".join([write(record) async for record in rt.journal.export()])
    (terminal.folder / "audit.jsonl").write_bytes(exported)
    assert terminal("validate", "audit.jsonl").returncode == 0
    lines = [json.loads(line) for line in io.BytesIO(exported)]
    calls = {each["invocation_id"]: each for each in lines if each["record_type"] == "tool_invocation"}
    decisions = [each for each in lines if each["record_type"] == "tool_permission_decision"]
    assert [(each["behavior"], each.get("decided_by")) for each in decisions] == [
        ("allow", None),
        ("ask", None),
        ("allow", USER),
    ]
    assert decisions[2]["reason"]["details"]["approver"]["claim"] == "pat@example.com"
    assert decisions[0]["rule_refs"] == ["project_settings:small-payments"]
    for each in decisions:
        assert each["input_digest"] == digest(calls[each["invocation_id"]]["permission_input"])


async def test_ask_27_a_denied_call_is_on_the_record_like_any_other(tmp_path, records):
    write_settings(tmp_path / "agenttool.toml", RULES)
    async with Runtime.open(tools=[drop, pay], rules=tmp_path / "agenttool.toml", approve="wait") as rt:
        result = await rt.call("drop", {"table": "users"}, surface=await rt.surface(), native_call_id="call_1")
        (call,) = await records(rt, "tool_invocation")
        (decision,) = await records(rt, "tool_permission_decision")
        events = [each for each in await records(rt, "tool_event") if each.get("invocation_id")]
    assert (result.status, result.error.error_class) == ("denied", "permission_denied")
    assert "tables stay" in result.model_facing_content[0].text
    assert (call["status"], call["native_call_id"], call["tool_id"]) == ("denied", "call_1", "tool_local.drop")
    assert call["permission_decision_refs"] == [decision["decision_id"]]
    assert (decision["behavior"], decision["rule_refs"]) == ("deny", ["project_settings:no-drops"])
    assert [each["event_type"].removeprefix("tool.") for each in events][-1] == "invocation.failed"
    assert "tool.permission.decided" in [each["event_type"] for each in events]


async def test_ask_20_each_call_runs_with_the_credential_of_its_own_user():
    used = []

    @tool(read_only=True, credentials=["crm"])
    async def contacts(ctx: Context) -> str:
        """List contacts. Not for companies."""
        used.append(ctx.credentials["crm"].value)
        return "listed"

    tokens = {"user:ada": "token-of-ada", "user:eve": "token-of-eve"}
    async with Runtime.open(tools=[contacts], credentials={"crm": tokens.get}) as rt:
        calls = [rt.call("contacts", {}, actor_ref=actor) for actor in ("user:ada", "user:eve", "user:ada", "user:bob")]
        results = [await each for each in calls]
    assert used == ["token-of-ada", "token-of-eve", "token-of-ada"]
    assert [each.error and each.error.error_class for each in results] == [None, None, None, "credential_missing"]
