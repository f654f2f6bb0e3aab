"""`agenttool keys`: add, list and revoke keys in the store of a server."""

import json
import shutil

import pytest
from served_process import ask, serving


@pytest.fixture
def keys(run, tmp_path, monkeypatch):
    """Run a command of `agenttool keys` in an empty folder; return its exit code and the JSON that it printed."""
    monkeypatch.chdir(tmp_path)

    def keys(*words):
        done = run("keys", *words, "--json")
        return done.exit_code, [json.loads(line) for line in done.stdout.splitlines()]

    return keys


def test_a_key_is_added_listed_and_revoked_and_its_secret_is_stored_nowhere(keys, tmp_path):
    status, (added,) = keys("add", "user:ada", "--role", "approver", "--tenant", "acme", "--expires", "30d")
    assert (status, added["roles"], added["tenant"]) == (0, ["approver"], "acme")
    assert added["key"].startswith(f"atk_{added['key_id']}_")
    _, (listed,) = keys("list")
    assert (listed["subject"], "key" in listed) == ("user:ada", False)
    secret = added["key"].rpartition("_")[2].encode()
    assert not any(secret in each.read_bytes() for each in tmp_path.glob("agenttool.db*") if each.is_file())
    assert keys("revoke", added["key_id"])[0] == 0
    assert keys("list")[1][0]["state"] == "revoked"
    assert keys("revoke", added["key_id"])[0] != 0


def test_keys_of_a_store_that_does_not_exist_are_an_error_and_no_store_is_made(keys, tmp_path):
    assert keys("list")[0] == keys("revoke", "0")[0] == 2
    assert [*tmp_path.iterdir()] == []


def test_a_login_link_has_its_token_in_the_fragment(keys):
    _, (made,) = keys("link", "--url", "http://127.0.0.1:8642")
    assert made["login_url"].startswith("http://127.0.0.1:8642/#login=atl_")


@pytest.mark.slow
def test_a_restored_copy_brings_no_revoked_key_and_no_used_login_link_back(keys, run, tmp_path):
    revoked, used, valid = (
        keys(*words)[1][0] for words in (["add", "a", "--role", "operator"], ["link"], ["add", "b"])
    )
    assert run("backup", "copy.db").exit_code == 0
    (tmp_path / "agenttool.db-withdrawn").write_text('["access_grant","atk_00')  # as a crash leaves it
    assert keys("revoke", revoked["key_id"])[0] == 0

    def statuses(url):
        heads = [{"authorization": f"Bearer {each['key']}"} for each in (revoked, valid)]
        login = json.dumps({"token": used["login_url"].partition("#login=")[2]}).encode()
        json_head = {"content-type": "application/json", "origin": url}
        return [
            *(ask(f"{url}/v1/status", headers=each)[0] for each in heads),
            ask(f"{url}/v1/login", login, json_head)[0],
        ]

    with serving(tmp_path) as (_, url):
        assert statuses(url) == [401, 200, 200]
    for each in ("agenttool.db-wal", "agenttool.db-shm"):
        (tmp_path / each).unlink(missing_ok=True)
    shutil.move(shutil.copy("copy.db", "restored.db"), "agenttool.db")
    with serving(tmp_path) as (_, url):
        assert statuses(url) == [401, 200, 401]
    assert [each["subject"] for each in keys("list")[1]] == ["b"]
