"""`agenttool show`: one call, in eighty columns, and without a secret."""

import asyncio
import json
import os
import pwd
import sqlite3
import tomllib
from contextlib import closing

import pytest
from starting import begin

from agenttool import Runtime, tool
from agenttool.records import EventType

USER = pwd.getpwuid(os.getuid()).pw_name


def section(drawn, title):
    """Give the lines of one section."""
    return drawn.partition(f"\n{title}\n")[2].partition("\n\n")[0]


@pytest.mark.usefixtures("journal")
def test_the_newest_call_is_shown_by_default(run):
    drawn = run("show")
    assert drawn.exit_code == 0
    assert drawn.stdout.startswith("kitchen.wait  canceled after ")


def test_a_call_is_found_by_the_end_of_its_id_and_by_the_ids_of_its_records(run, journal):
    call = journal["edited"]
    whole = run("show", call).stdout
    unique = call.removeprefix("inv_")
    for part in (unique, unique[-8:], f"dec_{unique}-2", f"res_{unique}", f"evt_{unique}-0001"):
        assert run("show", part).stdout == whole


def test_a_call_is_found_by_the_beginning_of_its_id(run, journal):
    call = journal["edited"]
    whole = run("show", call).stdout
    # Calls that began in one millisecond differ in their last letters only.
    alone = next(
        length
        for length in range(len(call) + 1)
        if [each for each in journal.values() if each[:length] == call[:length]] == [call]
    )
    assert run("show", call[:alone]).stdout == whole
    assert run("show", call[: alone - 1]).exit_code == 2


def test_a_beginning_that_several_calls_share_lists_them(run, journal):
    printed = run("show", "inv_")
    assert printed.exit_code == 2
    assert printed.stdout == ""
    assert all(call in printed.stderr for call in journal.values())


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("part", ["inv_ff", "zz", "%", "dec_zz-1"])
def test_an_unknown_id_is_rejected(run, part):
    printed = run("show", part)
    assert printed.exit_code == 2
    assert "agenttool.db" in printed.stderr
    assert part in printed.stderr


def test_what_a_hook_changed_is_marked_with_its_name(run, journal):
    drawn = run("show", journal["hooked"]).stdout
    assert [line.split() for line in section(drawn, "Inputs").splitlines()[1:]] == [
        ["model_input", '{"loaves":7}'],
        ["observable_input", "as", "above"],
        ["permission_input", "~", "/loaves", "7", "→", "2", "hook", "say-less"],
        ["call_input", "as", "above"],
    ]
    assert "say-less  pre_tool_use" in section(drawn, "Hooks")
    assert "loaf 2 is done  (100 %)" in section(drawn, "Timeline")


def test_an_approver_s_change_is_marked_with_their_name(run, journal):
    drawn = run("show", journal["edited"]).stdout
    assert '~ /to  "mallory" → "ada"' in drawn
    assert "~ /amount  9000 → 90" in drawn
    assert f"permission prompt {USER}" in drawn
    assert f"{USER} (claims to be pat) approved the call with edits" in section(drawn, "Decisions")


def test_a_decision_names_its_rules_and_the_overridden_rules(run, journal):
    printed = section(run("show", journal["denied"]).stdout, "Decisions")
    assert "rules       project_settings:keep-keys" in printed
    assert "overridden  project_settings:tidy" in printed
    assert "keys stay here" in printed


def test_an_input_that_a_call_did_not_reach_is_not_shown_as_equal(run, journal):
    lines = section(run("show", journal["denied"]).stdout, "Inputs").splitlines()
    assert "as above" in lines[3]
    assert "the call ended before this input" in lines[4]


def test_calls_name_those_they_made_and_those_that_made_them(run, journal):
    child = json.loads(run("show", journal["parent"], "--json").stdout)["children"][0]
    assert f"made      {child}" in run("show", journal["parent"]).stdout
    assert f"made by   {journal['parent']}" in run("show", child).stdout


def test_a_cancellation_shows_its_members(run, journal):
    printed = section(run("show", journal["canceled"]).stdout, "Cancellation")
    assert [line.split()[0] for line in printed.splitlines()] == [
        "cancel_requested",
        "cancel_acknowledged",
        "abort_reason",
        "outcome",
    ]


def test_the_persistence_of_a_result_is_shown(run, journal):
    drawn = run("show", journal["large"]).stdout
    assert "this is a preview" in section(drawn, "Result")
    printed = section(drawn, "Persistence")
    assert "preview_and_persist" in printed
    assert "2,789 bytes" in printed


def test_a_secret_is_shown_nowhere(run, journal, pin):
    for words in (("show", journal["edited"]), ("show", journal["edited"], "--json")):
        printed = run(*words)
        assert pin not in printed.stdout
        assert printed.exit_code == 0


@pytest.mark.parametrize("columns", [80, 120])
def test_every_call_fits_the_columns_there_are(run, journal, columns):
    for call in journal.values():
        shown = run("show", call, COLUMNS=str(columns)).stdout.splitlines()
        lines = [line for line in shown if not line.startswith('      {"')]  # a suggested rule, which is not wrapped
        assert max(map(len, lines)) <= columns
        assert all(line == line.rstrip() for line in lines)


async def test_a_suggested_rule_is_not_wrapped_so_that_it_can_be_pasted(run, tmp_path):
    @tool(namespace="mail")
    def send(text: str) -> str:
        """Send a letter."""
        return text

    async with Runtime.open(store=tmp_path / "calls.db", tools=[send], approve="wait") as rt:
        await begin(rt, "mail.send", {"text": "word " * 40})
    shown = await asyncio.to_thread(run, "show", "--store", tmp_path / "calls.db", COLUMNS="80")
    rule = section(shown.stdout, "Decisions").partition("with this rule:\n")[2]
    assert tomllib.loads(rule) == {
        "rules": [{"behavior": "allow", "tool": "mail.send", "argument": {"/text": {"equals": "word " * 40}}}]
    }


def test_json_contains_every_record_of_the_call(run, journal):
    printed = json.loads(run("show", journal["hooked"], "--json").stdout)
    assert printed["invocation"]["invocation_id"] == journal["hooked"]
    assert {each["record_type"] for each in printed["records"]} == {
        "tool_hook",
        "tool_input_mutation",
        "tool_permission_decision",
        "tool_progress",
        "tool_result",
    }
    assert [event["data"]["sequence"] for event in printed["events"]] == list(range(1, len(printed["events"]) + 1))


@tool(namespace="bank", approval_required=True)
async def transfer(amount: int) -> str:
    """Transfer money. Not for refunds."""
    return f"sent {amount}"


@tool(namespace="bank", read_only=True, open_world=False)
async def look_up(account: int) -> str:
    """Look an account up. Not for transfers."""
    await asyncio.sleep(60)
    return f"account {account}"


async def _come_to(rt, step, name, arguments):
    """Make a call, and wait until it is on disk that it has come so far."""
    calling = asyncio.ensure_future(rt.call(name, arguments, surface=await rt.surface()))
    async with asyncio.timeout(30):
        async for _, event in rt.journal.events(0):
            if event.event_type is step:
                break
    return calling


async def test_the_owner_of_a_call_is_shown_until_it_ends(run, tmp_path):
    file = tmp_path / "calls.db"

    async def shown():
        drawn = await asyncio.to_thread(run, "show", "--store", file)
        detail = json.loads((await asyncio.to_thread(run, "show", "--json", "--store", file)).stdout)
        return section(drawn.stdout, "Result").splitlines()[-1].strip(), detail

    async with Runtime.open(store=f"sqlite:{file}", tools=[transfer], approve="wait") as rt:
        calling = await _come_to(rt, EventType.PERMISSION_REQUESTED, "transfer", {"amount": 5})
        (question,) = await rt.approvals.list()
        printed, detail = await shown()
        assert (
            printed == f"it waits for an answer: agenttool approvals answer {question.approval_id} allow --store {file}"
        )
        assert (detail["approval_id"], detail["is_open"], detail["notice"]) == (question.approval_id, True, None)
        assert detail["process"] == f"{os.getpid()}@{os.uname().nodename}"
    await calling
    async with Runtime.open(store=f"sqlite:{file}", approve="wait") as rt:  # without the tool
        await rt.approvals.decide(question.approval_id, "allow")
    printed, detail = await shown()
    assert printed.startswith("its answer is recorded; its process (")
    assert (
        f"waits for a process that has the tool bank.transfer, such as `agenttool approvals --from MODULE --store {file}`"
        in printed
    )
    assert (detail["is_open"], detail["notice"]) == (True, printed)
    assert detail["process"].endswith(" (gone)")
    async with Runtime.open(store=f"sqlite:{file}", tools=[transfer], approve="wait") as rt:
        await rt.calls.get(question.invocation_id).result()
    assert (await shown())[1]["process"] is None


async def test_a_call_shows_that_its_process_is_gone_or_runs_without_a_lease(run, tmp_path):
    file = tmp_path / "calls.db"
    async with Runtime.open(store=f"sqlite:{file}", tools=[look_up], approve="wait") as rt:
        calling = await _come_to(rt, EventType.STARTED, "look_up", {"account": 5})
        shown = await asyncio.to_thread(run, "show", "--store", file)
        assert f"the process {os.getpid()}@{os.uname().nodename} runs it" in shown.stdout
        name = f"{os.getpid()}@{os.uname().nodename}"
        with closing(sqlite3.connect(file, isolation_level=None)) as other:  # as after a while on a full disk
            other.execute("UPDATE processes SET alive_until_ns = 0, steady_until_ns = 0")
        shown = await asyncio.to_thread(run, "show", "--store", file)
        assert f"its process ({name}) runs, but has not renewed its lease" in " ".join(shown.stdout.split())
        listed = await asyncio.to_thread(run, "log", "--open", "--store", file)
        assert f"{name} (runs without a lease)" in " ".join(listed.stdout.split())
        with closing(sqlite3.connect(file, isolation_level=None)) as other:  # as after its end, or its claim by another
            other.execute("DELETE FROM processes")
        shown = await asyncio.to_thread(run, "show", "--store", file)
        assert f"its process ({name}) is gone, so it waits for a process" in " ".join(shown.stdout.split())
        calling.cancel()
