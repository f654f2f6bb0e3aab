"""Approval requests of any process are listed and answered from the terminal."""

import json
import os
import pwd
import shlex
import signal
import subprocess
import sys
import time

import pytest
from project_settings import write_settings
from terminal_session import at_terminal
from waiting import wait_until

from agenttool.errors import StoreError

TOOLS = '''
from pathlib import Path
from agenttool import tool

@tool(namespace="bank", approval_required=True)
async def transfer(to: str, amount: int) -> str:
    """Transfer money. Not for refunds."""
    with Path("ledger").open("a") as book:
        book.write(f"{amount} to {to}\\n")
    return f"sent {amount} to {to}"
'''
pytestmark = pytest.mark.slow
PROGRAM = [sys.executable, "-m", "agenttool"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "bank.py").write_text(TOOLS)
    write_settings(tmp_path / "agenttool.toml", '[store]\nurl = "sqlite:calls.db"\n')
    return tmp_path


def command(folder, *words):
    return subprocess.run([*PROGRAM, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def asked(folder, amount=5):
    """Make a call that asks while no approver is connected; return its question."""
    done = command(folder, "call", "transfer", "to=ada", f"amount={amount}", "--from", "bank")
    assert done.returncode == 3, done.stderr
    assert "waits for an answer: agenttool approvals" in done.stderr
    return open_questions(folder)[-1]


def answer(folder, question, word, *options):
    """Answer a question as it was listed."""
    seen = ("--shown", question["shown_digest"])
    return command(folder, "approvals", "answer", question["approval_id"], word, *seen, *options)


def open_questions(folder):
    return [json.loads(line) for line in command(folder, "approvals", "--json").stdout.splitlines()]


def ledger(folder):
    file = folder / "ledger"
    return file.read_text().splitlines() if file.exists() else []


def test_a_question_shows_the_input_the_reason_and_a_rule_that_would_allow_it(folder):
    question = asked(folder)
    shown = command(folder, "approvals").stdout
    assert (
        'bank.transfer needs approval to run with this input:\n  {\n    "to": "ada",\n    "amount": 5\n  }\n' in shown
    )
    assert "Reason: the tool requires an approval for each call." in shown
    assert '  [[rules]]\n  behavior = "allow"\n  tool = "bank.transfer"\n' in shown
    assert f"{question['approval_id']} · asked" in shown
    assert "expires in 24 h" in shown
    assert question["input"] == {"to": "ada", "amount": 5}


def test_an_answer_recovers_a_call_whose_process_is_gone_and_prints_its_result(folder):
    question = asked(folder)
    answered = answer(folder, question, "allow", "--from", "bank")
    assert (answered.returncode, answered.stdout) == (0, "sent 5 to ada\n")
    assert ledger(folder) == ["5 to ada"]
    assert command(folder, "approvals").stdout == "nothing waits for an answer\n"


def test_an_answer_without_the_tool_is_stored_until_a_process_has_the_tool(folder):
    question = asked(folder)
    answered = answer(folder, question, "allow")
    assert answered.returncode == 0
    assert "agenttool approvals --from MODULE" in answered.stderr
    assert ledger(folder) == []
    assert "sent 5 to ada" in command(folder, "approvals", "--from", "bank").stdout
    assert ledger(folder) == ["5 to ada"]


def test_an_answer_reaches_the_process_that_waits_for_it(folder):
    program = (
        "import asyncio, bank\nfrom agenttool import Runtime\n"
        "async def main():\n"
        "    async with Runtime.open(config='agenttool.toml', tools=[bank.transfer], approve='wait') as rt:\n"
        "        result = await rt.call('transfer', {'to': 'ada', 'amount': 5}, surface=await rt.surface())\n"
        "        print(result.model_facing_content[0].text)\n"
        "asyncio.run(main())\n"
    )
    waiting = subprocess.Popen([sys.executable, "-c", program], cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        found = wait_until(lambda: (folder / "calls.db").exists() and open_questions(folder))
        answered = answer(folder, found[0], "allow")
        assert (answered.returncode, waiting.communicate(timeout=60)[0]) == (0, "sent 5 to ada\n")
        assert answered.stdout == "sent 5 to ada\n"
    finally:
        waiting.kill()


def test_a_call_can_be_refused_edited_or_remembered_by_a_program(folder):
    first, second, third = (asked(folder, amount) for amount in (1, 2, 3))
    refused = answer(folder, first, "deny", "--message", "too little", "--from", "bank")
    assert refused.returncode == 0
    assert "too little" in refused.stdout
    edited = ["--input", '{"to": "eve", "amount": 9}']
    assert "sent 9 to eve" in answer(folder, second, "allow", *edited, "--from", "bank").stdout
    stored = answer(folder, third, "allow", "--remember", "1", "--from", "bank")
    assert "sent 3 to ada" in stored.stdout
    assert ledger(folder) == ["9 to eve", "3 to ada"]


DENY = (
    '[[rules]]\nbehavior = "deny"\ntool = "bank.transfer"\nargument = { "/amount" = { min = 1000 } }\noptional = true\n'
)


@pytest.mark.parametrize(
    ("edited", "message"),
    [('{"to": "ada", "amount": "much"}', "expected integer"), ('{"to": "ada", "amount": 5000}', "denies this call")],
)
def test_an_edit_that_cannot_run_is_refused_with_status_2_and_the_question_stays_open(folder, edited, message):
    write_settings(folder / "agenttool.toml", '[store]\nurl = "sqlite:calls.db"\n' + DENY)
    question = asked(folder)
    refused = answer(folder, question, "allow", "--input", edited, "--from", "bank")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"{question['approval_id']}: ")
    assert message in refused.stderr
    assert open_questions(folder) == [question]
    assert "sent 5 to ada" in answer(folder, question, "allow", "--from", "bank").stdout


def test_an_edit_at_the_prompt_that_cannot_run_is_asked_about_again(folder):
    question = asked(folder)
    script = [
        ("Run it?", 'e {"to": "ada", "amount": "much"}\n'),
        ("expected", ""),
        ("Run it?", 'e {"to": "ada", "amount": 9}\n'),
    ]
    status, output = at_terminal(folder, ["approvals", "--from", "bank"], script)
    assert status == 0
    assert "sent 9 to ada" in output
    assert ledger(folder) == ["9 to ada"]
    assert question["approval_id"] in output


def test_an_approved_call_whose_tool_is_absent_says_that_it_waits_for_it(folder):
    question = asked(folder)
    answered = answer(folder, question, "allow")
    assert f"{question['invocation_id']} waits for its tool 'transfer'" in answered.stderr
    waits = "waits for a process that has the tool bank.transfer, such as `agenttool approvals --from MODULE"
    shown = command(folder, "show", question["invocation_id"], "--store", "calls.db").stdout
    assert "its answer is recorded; its process (" in shown
    assert waits in shown
    status = " ".join(command(folder, "status").stdout.split())
    assert "Waiting approvals: 0" in status
    assert "Waiting for a tool: 1" in status
    assert waits in status
    listed = command(folder, "approvals")
    assert "nothing waits for an answer" in listed.stdout
    assert f"1 other call {waits}" in listed.stderr
    assert "waits for a process that has its tool" in command(folder, "log", "--open", "--store", "calls.db").stdout
    document = json.loads(command(folder, "status", "--json").stdout)
    assert document["waiting_for_tools"] == [question["invocation_id"]]


def call_again(folder):
    return command(folder, "call", "transfer", "to=ada", "amount=5", "--from", "bank")


def test_a_rule_that_is_remembered_answers_the_next_call_until_it_is_forgotten(folder):
    question = asked(folder)
    answer(folder, question, "allow", "--remember", "1", "--from", "bank")
    assert call_again(folder).stdout == "sent 5 to ada\n"
    listed = command(folder, "policy", "rules", "--json")
    (rule,) = map(json.loads, listed.stdout.splitlines())
    assert rule["rule_ref"] == f"session:{question['approval_id']}"
    assert rule["place"] == f"remembered in {folder}/calls.db"
    assert rule["rule"]["argument"] == {"/to": {"equals": "ada"}, "/amount": {"equals": 5}}
    assert '"ada"' in command(folder, "policy", "rules").stdout
    assert command(folder, "policy", "forget", question["approval_id"]).returncode == 0
    assert call_again(folder).returncode == 3
    again = command(folder, "policy", "forget", question["approval_id"])
    assert (again.returncode, "no rule is remembered for" in again.stderr) == (2, True)


@pytest.mark.parametrize(("place", "file"), [("project", "agenttool.toml"), ("local", "agenttool.local.toml")])
def test_a_rule_can_be_added_to_a_settings_file(folder, place, file):
    question = asked(folder)
    done = answer(folder, question, "allow", "--remember", "1", "--save", place, "--from", "bank")
    assert f"and added a rule to {file}" in done.stderr
    assert f'name = "{question["approval_id"]}"' in (folder / file).read_text()
    assert call_again(folder).stdout == "sent 5 to ada\n"


def test_a_place_for_rules_that_does_not_exist_is_refused_with_a_suggestion(folder):
    done = command(folder, "approvals", "--save", "stor")
    assert (done.returncode, done.stdout) == (2, "")
    assert "rules are not added to 'stor'; did you mean 'store'?" in done.stderr


def test_a_late_or_unknown_answer_is_rejected_with_the_reason(folder):
    question = asked(folder)
    lost = command(folder, "approvals", "answer", "apr_0-1", "allow")
    assert (lost.returncode, "there is no such question; list the open ones" in lost.stderr) == (1, True)
    answer(folder, question, "deny")
    again = answer(folder, question, "allow")
    assert (again.returncode, "has answered it; the first answer stands" in again.stderr) == (1, True)
    command(folder, "approvals", "--from", "bank")
    ended = answer(folder, question, "allow")
    assert (ended.returncode, "the first answer stands; see: agenttool show inv_" in ended.stderr) == (1, True)


def decisions(folder):
    """Return the recorded answers, each with its details."""
    records = map(json.loads, command(folder, "export").stdout.splitlines())
    return [each for each in records if each["record_type"] == "tool_permission_decision" and "decided_by" in each]


def test_an_answer_records_the_operating_system_user_and_the_claimed_name(folder, monkeypatch):
    for name in ("USER", "LOGNAME", "USERNAME"):
        monkeypatch.setenv(name, "mallory")  # only the system decides
    question, user = asked(folder), {"uid": os.getuid(), "name": pwd.getpwuid(os.getuid()).pw_name}
    answer(folder, question, "allow", "--from", "bank")
    answer(folder, asked(folder, 6), "deny", "--by", "pat", "--from", "bank")
    plain, claimed = decisions(folder)
    assert (plain["decided_by"], plain["reason"]["details"]) == (
        user["name"],
        {
            "approval_id": question["approval_id"],
            "approver": {"os_user": user},
            "shown_digest": question["shown_digest"],
        },
    )
    assert (claimed["decided_by"], claimed["reason"]["details"]["approver"]) == (
        user["name"],
        {"claim": "pat", "os_user": user},
    )
    known = f"{user['name']} (operating-system user, uid {user['uid']}), claims to be pat"
    assert known in command(folder, "show", claimed["invocation_id"]).stdout
    assert known in command(folder, "log", "--events").stdout
    assert f"denied by {user['name']} (claims to be pat)" in command(folder, "log").stdout
    for name in ("pat", user["name"]):
        assert claimed["invocation_id"] in command(folder, "log", "--by", name, "--json").stdout


def test_an_answer_needs_the_digest_of_the_question_that_was_shown(folder):
    question, other = asked(folder, 1), asked(folder, 2)
    blind = command(folder, "approvals", "answer", question["approval_id"], "allow", "--from", "bank")
    assert (blind.returncode, ledger(folder)) == (1, [])
    assert '"amount": 1' in blind.stderr
    mark = blind.stderr.partition("answer with --shown ")[2].split()[0]
    assert f"shown {mark}" in command(folder, "approvals").stdout
    mixed = answer(folder, {**question, "shown_digest": other["shown_digest"]}, "allow", "--from", "bank")
    assert (mixed.returncode, "you saw another one" in mixed.stderr) == (1, True)
    short = answer(folder, {**question, "shown_digest": mark[:4]}, "allow", "--from", "bank")
    assert (short.returncode, ledger(folder)) == (1, [])
    assert answer(folder, {**question, "shown_digest": mark}, "allow", "--from", "bank").stdout == "sent 1 to ada\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["answer", "apr_1"], "an answer is `answer APR_ID allow`"),
        (["answer", "apr_1", "maybe"], "an answer is `answer APR_ID allow`"),
        (["--message", "x"], "need an answer"),
        (["answer", "apr_1", "deny", "--remember", "1"], "a deny takes a --message"),
        (["answer", "apr_1", "allow", "--input", "[1]"], "JSON object"),
        (["--store", "gone.db"], "there is no journal at 'gone.db'"),
        (["--store", "memory:"], "the journal is in memory"),
    ],
)
def test_a_wrong_word_is_refused_in_words(folder, words, expected):
    (folder / "calls.db").touch()
    done = command(folder, "approvals", *words)
    assert done.returncode == 2
    assert expected in done.stderr
    assert not (folder / "gone.db").exists()


def test_an_answer_as_json_contains_the_result(folder):
    question = asked(folder)
    stored = json.loads(answer(folder, question, "allow", "--json").stdout)
    assert stored == {
        "approval_id": question["approval_id"],
        "invocation_id": question["invocation_id"],
        "answer": "allowed",
        "by": pwd.getpwuid(os.getuid()).pw_name,
        "result": None,
    }
    other = asked(folder, 6)
    done = answer(folder, other, "deny", "--json", "--from", "bank")
    expected = json.loads(done.stdout)
    assert (done.returncode, expected["answer"], expected["result"]["status"]) == (0, "refused", "rejected")


def test_questions_are_listed_though_the_store_cannot_be_written(folder, run, monkeypatch):
    question = asked(folder)

    def fail(**_):
        raise StoreError("the disk is full")

    monkeypatch.chdir(folder)
    monkeypatch.setattr("agenttool.runtime.Runtime.open", fail)
    listed = run("approvals", "--json")
    first, error = map(json.loads, listed.stdout.splitlines())
    assert (listed.exit_code, first, error["error"]["message"]) == (2, question, "the disk is full")


def test_one_of_many_questions_is_found_by_its_tool_its_input_and_its_age(folder):
    first, second, third = (asked(folder, amount)["approval_id"] for amount in (5, 60, 61))

    def found(*words):
        lines = command(folder, "approvals", "--json", *words).stdout.splitlines()
        return [json.loads(line)["approval_id"] for line in lines]

    assert found("--containing", '"amount":6') == [second, third]
    assert found("--tool", "bank.*", "--limit", "1") == [first]
    assert found("--tool", "post.*") == []
    assert found("--after", first, "--limit", "1") == [second]
    assert found("--newest", "--limit", "2") == [third, second]
    (counted,) = map(json.loads, command(folder, "approvals", "--count", "--json").stdout.splitlines())
    assert (counted["tool_name"], counted["waiting"], counted["oldest"]) == ("bank.transfer", 3, first)
    assert command(folder, "approvals", "--count").stdout.splitlines()[1].split()[:2] == ["3", "bank.transfer"]
    page = command(folder, "approvals", "--limit", "1")
    assert first in page.stdout
    assert second not in page.stdout
    assert "there may be more: --after APR_ID continues" in page.stderr


def test_the_default_file_is_found_without_settings(folder):
    (folder / "agenttool.toml").unlink()
    command(folder, "call", "transfer", "to=ada", "amount=5", "--from", "bank", "--store", "agenttool.db")
    listed = command(folder, "approvals")
    assert listed.returncode == 0
    answer = listed.stderr.partition("to answer: agenttool ")[2].strip()
    named = command(folder, "approvals", "--store", "agenttool.db")
    assert f"to answer: agenttool {answer} --store agenttool.db\n" in named.stderr
    assert command(folder, *answer.split()).returncode == 0


def test_every_suggested_command_finds_the_same_calls(folder):
    settings = folder / "agenttool.toml"
    settings.rename(folder / "the bank.toml")
    named = ("--settings", "the bank.toml")
    parked = command(folder, "call", "transfer", "to=ada", "amount=5", "--from", "bank", *named)
    listing = shlex.split(parked.stderr.partition("agenttool ")[2])
    question = json.loads(command(folder, *listing, "--json").stdout)
    shown = command(folder, "approvals", *named).stderr.partition("to answer: agenttool ")[2]
    answer = shlex.split(shown.replace("APR_ID", question["approval_id"]).replace("DIGEST", question["shown_digest"]))
    ended = command(folder, *answer, "--from", "bank")
    assert (ended.returncode, "sent 5 to ada" in ended.stdout) == (0, True)
    again = command(folder, *answer)
    look = shlex.split(again.stderr.partition("see: agenttool ")[2])
    assert command(folder, *look).stdout.startswith("bank.transfer  succeeded")
    called = command(folder, "call", "transfer", "to=x", "--from", "bank", *named)  # it does not fit, and so it ends
    assert command(folder, *shlex.split(called.stderr.partition("agenttool ")[2])).stdout.startswith("bank.transfer")


def test_settings_without_a_store_lead_to_the_default_file_in_suggested_commands(folder):
    settings = folder / "agenttool.toml"
    (folder / "quiet.toml").write_text(settings.read_text().partition("[store]")[0])
    named = ("--settings", "quiet.toml")
    command(folder, "call", "transfer", "to=ada", "amount=5", "--from", "bank", *named, "--store", "agenttool.db")
    question = json.loads(command(folder, "approvals", "--json", *named).stdout)
    answer(folder, question, "deny", *named, "--from", "bank")
    again = answer(folder, question, "deny", *named)
    look = shlex.split(again.stderr.partition("see: agenttool ")[2])
    assert command(folder, *look).stdout.startswith("bank.transfer  denied")


def test_a_suggestion_that_is_not_there_cannot_be_remembered(folder):
    question = asked(folder)
    done = answer(folder, question, "allow", "--remember", "7")
    assert (done.returncode, "there is no suggestion 7; use a number from 1 to 1" in done.stderr) == (2, True)
    assert len(open_questions(folder)) == 1


def test_a_user_is_asked_one_question_after_the_other(folder):
    asked(folder, 1)
    asked(folder, 2)
    script = [("Run it?", "what?\n"), ("n denies", "n not today\n"), ("not today", ""), ("Run it?", "e\n"),
              ("as JSON", '{"to": "eve", "amount": 7}\n')]  # fmt: skip
    status, shown = at_terminal(folder, ["approvals", "--from", "bank"], script)
    assert status == 0
    assert "not today" in shown
    assert "sent 7 to eve" in shown
    assert ledger(folder) == ["7 to eve"]


def test_a_skipped_question_stays_open_for_other_processes(folder):
    words = ["call", "transfer", "to=ada", "amount=4", "--from", "bank"]
    status, shown = at_terminal(folder, words, [("Run it?", "s\n")])
    assert (status, "waits for an answer" in shown) == (3, True)
    assert at_terminal(folder, words, [("Run it?", "y\n")])[0] == 0
    assert len(open_questions(folder)) == 1
    assert ledger(folder) == ["4 to ada"]


@pytest.mark.parametrize("store", ["sqlite:calls.db", "memory:"])
def test_ctrl_c_at_the_prompt_cancels_the_call_before_the_tool_starts(folder, store):
    words = ["call", "transfer", "to=ada", "amount=4", "--from", "bank", "--store", store]
    status, shown = at_terminal(folder, words, [("Run it?", signal.SIGINT)])
    assert status == 130
    assert "canceled before the tool started" in shown
    assert [each for each in open_questions(folder) if "error" not in each] == []  # in memory there is no approver


def test_a_question_is_answered_by_a_part_of_its_id_or_the_end_of_that_of_its_call(folder):
    first, second, third = asked(folder, 5), asked(folder, 6), asked(folder, 7)
    seen = ("--shown", first["shown_digest"])
    several = command(folder, "approvals", "answer", "apr_", "allow", *seen)
    assert several.returncode == 2
    assert "several questions have an id like 'apr_'; write more of it:\n" in several.stderr
    assert f"  {second['approval_id']}  bank.transfer" in several.stderr
    assert "there is no such question" in command(folder, "approvals", "answer", "zzz", "allow", *seen).stderr
    done = command(folder, "approvals", "answer", first["approval_id"][-8:], "allow", *seen, "--from", "bank")
    assert (done.returncode, ledger(folder)) == (0, ["5 to ada"])
    other = ("--shown", second["shown_digest"])
    part = second["approval_id"].removeprefix("apr_")[:-4]
    assert command(folder, "approvals", "answer", part, "deny", *other).returncode == 0
    call = third["invocation_id"][-8:]  # as `agenttool log` prints it
    assert command(folder, "approvals", "answer", call, "deny", "--shown", third["shown_digest"]).returncode == 0


def test_a_rule_for_the_project_is_added_to_the_settings_file_that_was_named(folder):
    (folder / "other.toml").write_text('[store]\nurl = "sqlite:calls.db"\n')
    question, before = asked(folder), (folder / "agenttool.toml").read_text()
    refused = answer(folder, question, "allow", "--remember", "1", "--save", "local", "--settings", "other.toml")
    assert refused.returncode == 2
    assert "rules are not added to 'local'; use one of session, store, project" in refused.stderr
    done = answer(folder, question, "allow", "--remember", "1", "--save", "project", "--settings", "other.toml")
    assert "and added a rule to other.toml" in done.stderr + done.stdout
    assert "bank.transfer" in (folder / "other.toml").read_text()
    assert (folder / "agenttool.toml").read_text() == before


def test_an_answer_to_an_expired_question_says_so(folder, run, monkeypatch):
    question = asked(folder)
    monkeypatch.chdir(folder)
    later = int(time.time() + 25 * 3600) * 10**9
    monkeypatch.setattr("agenttool.world.SystemClock.now_ns", staticmethod(lambda: later))
    done = run("approvals", "answer", question["approval_id"], "allow", "--shown", question["shown_digest"])
    assert done.exit_code == 1
    assert f"{question['approval_id']}: it has expired; call the tool again to be asked again" in done.stderr
    assert ledger(folder) == []
