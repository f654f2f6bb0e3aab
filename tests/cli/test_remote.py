"""Commands against a server that runs elsewhere: `--url`, `AGENTTOOL_URL`, and where the key comes from."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from served_runtime import Served
from terminal_session import at_terminal

BOUND_S = 60


@pytest.fixture(scope="module")
def served(serve_app):
    with Served(serve_app) as found:
        yield found


@pytest.fixture
def remote(run, served, tmp_path, monkeypatch):
    """Run a command in an empty folder against the server; give its exit code and the JSON that it printed."""
    monkeypatch.chdir(tmp_path)

    def remote(*words, key=""):
        done = run(*words, "--json", AGENTTOOL_URL=served.url, AGENTTOOL_KEY=key)
        return done.exit_code, [json.loads(line) for line in done.stdout.splitlines()]

    return remote


def test_a_call_is_made_and_listed_there(remote, served):
    key = served.key("agent:ci", "caller")
    status, (result,) = remote("call", "math.add", "a=19", "b=23", key=key)
    assert (status, result["structured_content"]) == (0, 42)
    status, (listed,) = remote("log", "--tool", "math.*", key=key)
    assert (status, listed["invocation_id"], listed["actor"]) == (0, result["invocation_id"], "agent:ci")
    status, (detail,) = remote("show", result["invocation_id"], key=key)
    assert (status, detail["invocation"]["model_input"]) == (0, {"a": 19, "b": 23})
    assert remote("call", "math.add", "a=x", key=key)[0] == 1


def test_a_command_with_the_same_idempotency_key_makes_no_second_call(remote, served):
    key = served.key("agent:once", "caller")
    made = [remote("call", "math.add", "a=1", "--idempotency-key", "k1", key=key) for _ in range(2)]
    assert made[0] == made[1]
    assert len(remote("log", key=key)[1]) == 1


def test_an_approver_answers_there_what_it_saw(remote, served):
    approver = served.key("user:bob", "approver")
    status, (waiting,) = remote("call", "mail.send", "to=ada", key=served.key("agent:post", "caller"))
    assert status == 3
    _, found = remote("approvals", key=approver)
    (asked,) = [each for each in found if each["invocation_id"] == waiting["invocation_id"]]
    answer = ("approvals", "answer", asked["approval_id"], "allow")
    assert remote(*answer, key=approver)[1][0]["error"]["error_code"] == "not_shown"
    status, (done,) = remote(*answer, "--shown", asked["shown_digest"], key=approver)
    assert (status, done["by"]) == (0, "user:bob")
    status, (refused,) = remote(*answer, "--shown", asked["shown_digest"])
    assert (status, refused["error"]["message"][:3]) == (2, "403")


def test_tools_search_status_and_cancel_use_the_server(remote):
    assert {each["name"] for each in remote("tools")[1]} >= {"math.add", "mail.send"}
    assert remote("search", "add", "numbers")[1][0]["matches"][0]["name"] == "math.add"
    assert remote("status")[1][0]["is_healthy"] is True
    _, (waiting,) = remote("call", "mail.send", "to=eve")
    status, (ended,) = remote("cancel", waiting["invocation_id"])
    assert (status, ended["status"]) == (0, "canceled")


def test_show_prints_the_same_from_a_server_as_from_its_journal(run, serve_app, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Served(serve_app, tmp_path / "calls.db") as served:
        for words in (("math.add", "a=1"), ("mail.send", "to=ada")):
            run("call", *words, "--url", served.url)
        key = served.key("user:ida", "auditor")
        listed = run("log", "--json", "--url", served.url, AGENTTOOL_KEY=key).stdout.splitlines()
        ids = [json.loads(each)["invocation_id"] for each in listed]
        for each in ids:
            here = run("show", each, "--store", "calls.db")
            there = run("show", each, "--url", served.url, AGENTTOOL_KEY=key)
            assert (here.exit_code, there.exit_code) == (0, 0), there.stderr
            assert there.stdout == here.stdout.replace("--store calls.db", f"--url {served.url}")
            waits = "it waits for an answer: agenttool approvals answer apr_" in there.stdout
            assert waits == ("awaiting_approval" in there.stdout)


def test_the_log_of_a_server_has_the_lines_of_its_journal(run, serve_app, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Served(serve_app, tmp_path / "calls.db") as served:
        for words in (("math.add", "a=1"), ("math.add", f"b={'x' * 150}")):
            run("call", *words, "--url", served.url)
        there = run("log", "--url", served.url, AGENTTOOL_KEY=served.key("user:ida", "auditor"))
        here = run("log", "--store", "calls.db")
        assert (here.exit_code, there.exit_code) == (0, 0), there.stderr
        assert there.stdout == here.stdout
        assert len(there.stdout.splitlines()) == 3, "the date, and a line for each call"


def test_people_read_tables_and_the_command_that_answers(run, served, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "math.add" in run("tools", "--url", served.url).stdout
    assert run("call", "math.add", "a=1", "--url", served.url).stdout == "2\n"
    parked = run("call", "mail.send", "to=joe", "--url", served.url)
    assert f"agenttool approvals --url {served.url}" in " ".join(parked.stderr.split())
    approver = served.key("user:amy", "approver")
    shown = run("approvals", "--url", served.url, AGENTTOOL_KEY=approver)
    assert '"to": "joe"' in shown.stdout
    assert "to answer: agenttool approvals answer " in shown.stderr
    assert f" --url {served.url}" in shown.stderr
    assert "mail.send" in run("log", "--url", served.url, AGENTTOOL_KEY=approver).stdout


def test_a_part_of_an_id_names_a_call_or_an_approval_there(remote, served):
    caller, approver = served.key("agent:short", "caller"), served.key("user:short", "approver")
    _, (waiting,) = remote("call", "mail.send", "to=ann", key=caller)
    whole = waiting["invocation_id"]
    for words in (["show"], ["show", whole[-8:]], ["show", whole[4:30]], ["show", whole]):
        assert remote(*words, key=caller)[1][0]["invocation_id"] == whole
    (asked,) = [each for each in remote("approvals", key=approver)[1] if each["invocation_id"] == whole]
    answer = ("approvals", "answer", asked["approval_id"][-10:], "deny", "--shown", asked["shown_digest"])
    assert remote(*answer, key=approver)[1][0]["approval_id"] == asked["approval_id"]


def test_a_part_of_an_id_is_searched_among_all_open_approvals(remote, served, monkeypatch):
    monkeypatch.setattr("agenttool.client.client.MAX_PAGE", 1)
    caller, approver = served.key("agent:many", "caller"), served.key("user:many", "approver")
    wholes = [remote("call", "mail.send", f"to={name}", key=caller)[1][0]["invocation_id"] for name in "abc"]
    newest = f"{wholes[-1].removeprefix('inv_')}-1"
    assert remote("approvals", "answer", newest[8:], "deny", key=approver)[1][0]["error"]["error_code"] == "not_shown"
    status, (refused,) = remote("approvals", "answer", "apr_0", "deny", key=approver)
    assert (status, [f"apr_{each[4:]}-1" in json.dumps(refused) for each in wholes]) == (2, [True, True, True])


def test_people_read_the_status_of_a_server_as_a_table(run, served, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    auditor = served.key("user:aud", "auditor")
    shown = run("status", "--url", served.url, AGENTTOOL_KEY=auditor).stdout.split("\n")
    assert ["is_healthy", "true"] in [line.split() for line in shown]
    assert ["store_fault", "none"] in [line.split() for line in shown]


def test_a_key_file_must_be_private(run, served, tmp_path):
    file = tmp_path / "key"
    file.write_text(served.key("agent:file", "caller") + "\n")
    file.chmod(0o640)
    refused = run("call", "math.add", "a=1", "--url", served.url, AGENTTOOL_KEY_FILE=str(file))
    assert (refused.exit_code, "chmod 600" in refused.stderr) == (2, True)
    file.chmod(0o600)
    done = run("log", "--url", served.url, "--json", AGENTTOOL_KEY_FILE=str(file))
    assert (done.exit_code, done.stdout) == (0, "")


def test_local_options_and_an_address_exclude_each_other(run, served):
    done = run("log", "--url", served.url, "--store", "calls.db", "--json")
    assert "--store does not work with --url" in json.loads(done.stdout)["error"]["message"]


@pytest.mark.parametrize("words", [("--sizes",), ("--events",), ("--events", "--after", "0")])
def test_what_only_a_store_has_is_refused_when_the_environment_names_a_server(remote, words):
    status, (refused,) = remote("log", *words)
    message = refused["error"]["message"]
    assert (status, message) == (
        2,
        f"{words[0]} does not work with the server in AGENTTOOL_URL; leave it out, or unset AGENTTOOL_URL",
    )


def test_approvals_of_a_server_are_counted_and_filtered_there(remote, served):
    caller, approver = served.key("agent:many", "caller"), served.key("user:counts", "approver")
    made = [remote("call", "mail.send", f"to=counted-{each}", key=caller)[1][0] for each in range(3)]
    only = ("approvals", "--containing", "COUNTED-")
    status, (counted,) = remote(*only, "--count", key=approver)
    assert (status, counted["tool_name"], counted["waiting"]) == (0, "mail.send", 3)
    oldest = remote(*only, key=approver)[1]
    assert [each["invocation_id"] for each in oldest] == [each["invocation_id"] for each in made]
    assert remote(*only, "--newest", "--limit", "2", key=approver)[1] == oldest[:0:-1]
    assert remote(*only, "--after", oldest[0]["approval_id"], key=approver)[1] == oldest[1:]


def test_the_log_of_a_server_has_all_calls_that_match_not_only_a_page(remote, served, monkeypatch):
    monkeypatch.setattr("agenttool.client.client.MAX_PAGE", 2)
    key = served.key("agent:pages", "caller")
    made = [remote("call", "math.add", f"a={each}", "b=1", key=key)[1][0]["invocation_id"] for each in range(5)]
    assert [each["invocation_id"] for each in remote("log", key=key)[1]] == made
    assert [each["invocation_id"] for each in remote("log", "--limit", "3", key=key)[1]] == made[2:]
    assert remote("show", key=key)[1][0]["invocation_id"] == made[-1]


@pytest.mark.slow
def test_a_follower_prints_the_calls_of_a_server_as_they_end(served, remote, tmp_path):
    key = served.key("agent:followed", "caller")
    first = remote("call", "math.add", "a=1", key=key)[1][0]["invocation_id"]
    words = [sys.executable, "-m", "agenttool", "log", "--follow", "--json", "--url", served.url]
    env = os.environ | {"AGENTTOOL_KEY": key}
    with subprocess.Popen(words, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as follower:
        stuck = threading.Timer(BOUND_S, follower.kill)
        stuck.start()
        assert json.loads(follower.stdout.readline())["invocation_id"] == first
        second = remote("call", "math.add", "a=2", key=key)[1][0]["invocation_id"]
        line = json.loads(follower.stdout.readline())
        os.kill(follower.pid, signal.SIGINT)
        rest, _ = follower.communicate(timeout=BOUND_S)
        stuck.cancel()
    assert (line["invocation_id"], line["status"], rest, follower.returncode) == (second, "succeeded", "", 0)


@pytest.mark.slow
def test_a_user_at_a_terminal_is_asked_about_the_questions_of_a_server(remote, served, tmp_path):
    caller, approver = served.key("agent:asks", "caller"), served.key("user:asked", "approver")
    _, (waiting,) = remote("call", "mail.send", "to=terminal", key=caller)
    words = ["approvals", "--containing", "terminal", "--url", served.url]
    status, shown = at_terminal(tmp_path, words, [("Run it?", "n not today\n")], AGENTTOOL_KEY=approver)
    assert (status, "not today" in shown) == (0, True)
    _, (detail,) = remote("show", waiting["invocation_id"], key=caller)
    assert (detail["status"], detail["invocation"]["actor_ref"]) == ("denied", "agent:asks")


def test_the_output_of_a_call_on_a_server_is_written_to_a_file(run, served, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("call", "math.add", "a=41", "--out", "sum.json", "--url", served.url)
    assert (done.exit_code, done.stdout, (tmp_path / "sum.json").read_text()) == (0, "", "42")
