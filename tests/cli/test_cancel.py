"""A call of any process is canceled from the terminal."""

import asyncio
import json
import os
import pwd
import subprocess
import sys
from contextlib import nullcontext

import pytest
from project_settings import write_settings
from starting import begin
from waiting import wait_until

TOOLS = '''
import asyncio
from pathlib import Path
from agenttool import tool

@tool(namespace="bank", approval_required=True)
async def transfer(to: str) -> str:
    """Transfer money. Not for refunds."""
    Path("ledger").write_text(to)
    return "sent"

@tool(namespace="bank", read_only=True)
async def audit() -> str:
    """Read the books for an hour. Not for refunds."""
    Path("started").touch()
    await asyncio.sleep(3600)
    return "done"
'''
pytestmark = pytest.mark.slow
USER = {"uid": os.getuid(), "name": pwd.getpwuid(os.getuid()).pw_name}
PROGRAM = [sys.executable, "-m", "agenttool"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "bank.py").write_text(TOOLS)
    write_settings(
        tmp_path / "agenttool.toml",
        '[store]\nurl = "sqlite:calls.db"\n[[rules]]\nbehavior = "allow"\ntool = "bank.audit"\n',
    )
    return tmp_path


def command(folder, *words):
    return subprocess.run([*PROGRAM, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def open_question(folder):
    command(folder, "call", "transfer", "to=ada", "--from", "bank")
    return json.loads(command(folder, "approvals", "--json").stdout)


def test_a_waiting_call_whose_process_is_gone_is_ended_without_its_tool(folder):
    question = open_question(folder)
    call = question["invocation_id"]
    done = command(folder, "cancel", call)
    assert (done.returncode, f"canceled {call}" in done.stderr) == (0, True)
    assert command(folder, "approvals").stdout == "nothing waits for an answer\n"
    shown = json.loads(command(folder, "show", call, "--json").stdout)
    assert (shown["invocation"]["status"], shown["invocation"]["cancellation"]["outcome"]) == ("canceled", "canceled")
    assert shown["invocation"]["cancellation"]["requested_by"] == {"os_user": USER}
    assert not (folder / "ledger").exists()
    again = command(folder, "cancel", call)
    assert (again.returncode, "it had ended before (canceled)" in again.stderr) == (1, True)
    assert command(folder, "verify").returncode == 0


def test_a_running_call_is_canceled_by_the_process_that_runs_it(folder):
    with subprocess.Popen(
        [*PROGRAM, "call", "audit", "--from", "bank", "--json"], cwd=folder, stdout=subprocess.PIPE, text=True
    ) as running:
        try:
            wait_until((folder / "started").exists)
            events = [json.loads(each) for each in command(folder, "log", "--events", "--json").stdout.splitlines()]
            (call,) = {each["event"]["invocation_id"] for each in events if "invocation_id" in each["event"]}
            done = command(folder, "cancel", call, "--by", "pat", "--json")
            assert (done.returncode, json.loads(done.stdout)["status"]) == (0, "canceled")
            assert json.loads(running.communicate(timeout=60)[0])["status"] == "canceled"
            shown = json.loads(command(folder, "show", call, "--json").stdout)
            assert shown["invocation"]["cancellation"]["requested_by"] == {"claim": "pat", "os_user": USER}
            who = f"{USER['name']} (operating-system user, uid {USER['uid']}), claims to be pat"
            assert f"by {who}" in command(folder, "log", "--events").stdout
            assert f"requested_by         {who}" in command(folder, "show", call).stdout
            (line,) = command(folder, "log", "--by", "pat").stdout.splitlines()[1:]
            assert "canceled by pat" in line
            (found,) = command(folder, "log", "--by", USER["name"], "--json").stdout.splitlines()
            assert json.loads(found)["canceled_by"] == "pat"
        finally:
            running.kill()


def test_an_unknown_call_cannot_be_canceled(folder):
    open_question(folder)
    done = command(folder, "cancel", "inv_f")
    assert (done.returncode, "has an id like 'inv_f'" in done.stderr) == (2, True)


def test_a_call_is_canceled_by_the_short_id_that_the_log_prints(folder):
    call = open_question(folder)["invocation_id"]
    (line,) = command(folder, "log").stdout.splitlines()[1:]
    (short,) = [word for word in line.split() if len(word) > 4 and call.endswith(word)]
    done = command(folder, "cancel", short)
    assert (done.returncode, f"canceled {call}" in done.stderr) == (0, True)


def test_an_ambiguous_id_is_an_error_that_lists_the_calls_and_cancels_none(folder):
    command(folder, "call", "transfer", "to=bob", "--from", "bank")
    open_question_of = command(folder, "call", "transfer", "to=ada", "--from", "bank")
    questions = [json.loads(each) for each in command(folder, "approvals", "--json").stdout.splitlines()]
    done = command(folder, "cancel", "inv_")
    assert (done.returncode, open_question_of.returncode) == (2, 3)
    assert "several calls have an id like 'inv_'" in done.stderr
    assert all(each["invocation_id"] in done.stderr for each in questions)
    assert len(command(folder, "approvals", "--json").stdout.splitlines()) == len(questions) == 2


@pytest.mark.parametrize("is_served", [True, False])
async def test_a_deferred_call_is_withdrawn_from_its_server_and_ended(garden, is_served):
    with garden.served() if is_served else nullcontext():
        async with garden.caller() as rt:
            call = await begin(rt, "greenhouse.grow", {}, surface=await rt.surface())
            await asyncio.to_thread(wait_until, (garden.folder / "ran.txt").exists)
        done = garden.run("cancel", call.invocation_id, "--by", "pat")
    assert (done.returncode, f"canceled {call.invocation_id}" in done.stderr) == (0, True), done.stderr
    wait_until((garden.folder / "withered.txt").exists)
    shown = json.loads(garden.run("show", call.invocation_id, "--json").stdout)["invocation"]
    assert (shown["status"], shown["cancellation"]["outcome"]) == ("canceled", "canceled")
    assert shown["cancellation"]["requested_by"] == {"claim": "pat", "os_user": USER}
    assert garden.run("verify").returncode == 0
