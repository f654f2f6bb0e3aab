"""Commands against a server that runs elsewhere: `--url`, `AGENTTOOL_URL`, and where the key comes from."""

import json

import pytest
from served_runtime import Served


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
            local, _, waits = here.stdout.partition("it waits for an answer: agenttool approvals answer")
            remote, _, _ = there.stdout.partition("it waits for an answer: agenttool approvals --url")
            assert local == remote
            assert bool(waits) == ("awaiting_approval" in local)


def test_people_read_tables_and_the_command_that_answers(run, served, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "math.add" in run("tools", "--url", served.url).stdout
    assert run("call", "math.add", "a=1", "--url", served.url).stdout == "2\n"
    parked = run("call", "mail.send", "to=joe", "--url", served.url)
    assert f"agenttool approvals --url {served.url}" in " ".join(parked.stderr.split())
    approver = served.key("user:amy", "approver")
    shown = run("approvals", "--url", served.url, AGENTTOOL_KEY=approver).stdout
    assert '"to": "joe"' in shown
    assert "--shown" in shown
    assert "mail.send" in run("log", "--url", served.url, AGENTTOOL_KEY=approver, COLUMNS="200").stdout


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
    monkeypatch.setattr("agenttool.cli.remote.MAX_PAGE", 1)
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
