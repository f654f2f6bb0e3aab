"""`agenttool keys`: add, list and revoke keys in the store of a server."""

import json

import pytest


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


def test_a_login_link_has_its_token_in_the_fragment(keys):
    _, (made,) = keys("link", "--url", "http://127.0.0.1:8642")
    assert made["login_url"].startswith("http://127.0.0.1:8642/#login=atl_")
