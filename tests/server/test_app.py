"""`agenttool serve` as a process: callbacks, health and status on one port, and a stop that loses nothing."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from project_settings import auditor_key, write_settings
from served_process import ask, serving


@pytest.mark.slow
def test_one_port_serves_callbacks_health_and_status(tmp_path):
    write_settings(
        tmp_path / "agenttool.toml",
        '[store]\nurl = "sqlite:state.db"\n\n[sources.gh]\nkind = "rap"\nurl = "http://127.0.0.1:9"\nallow = ["127.0.0.0/8"]\n',
    )
    with serving(tmp_path) as (child, url):
        assert ask(url + "/healthz") == (200, b"ok")
        assert json.loads(ask(url + "/v1/status")[1]) == {"is_healthy": True, "open_calls": 0, "approvals": 0}
        status, page = ask(url + "/v1/status", headers=auditor_key(tmp_path))
        reported = json.loads(page)
        assert (status, reported["waiting"], reported["subscriptions"], reported["views"]) == (200, [], [], [])
        assert ask(url + "/")[0] == 200
        assert "cannot load the manifest" in reported["faults"][0]
        (source,) = reported["sources"]
        assert (source["name"], source["state"], source["last_error"]) == ("gh", "connecting", reported["faults"][0])
        assert source["since_ns"] < source["next_try_at_ns"]
        listed = [json.loads(ask(url + "/v1/sources", headers=each)[1]) for each in (None, auditor_key(tmp_path))]
        assert [each["items"][0]["last_error"] for each in listed] == [None, reported["faults"][0]]
        assert ask(url + "/v1/status", headers={"X-Forwarded-For": "203.0.113.9"})[0] == 401
        assert ask(url + "/rap/callbacks/" + "0" * 80, b"{}")[0] == 404
        assert ask(url + "/rap/callbacks/x")[0] == 405
        assert ask(url + "/nowhere")[0] == 404
        os.kill(child.pid, signal.SIGTERM)
        assert child.wait(timeout=60) == 0


@pytest.mark.slow
def test_a_callback_for_a_tenant_arrives_after_a_restart_and_creates_no_tenant(tmp_path):
    source = '[sources.gh]\nkind = "rap"\nurl = "http://127.0.0.1:9"\nallow = ["127.0.0.0/8"]\n'
    write_settings(tmp_path / "agenttool.toml", f'[store]\nurl = "sqlite:state.db"\n\n{source}')
    add = [sys.executable, "-m", "agenttool", "keys", "add", "agent:t", "--tenant", "acme", "--json"]
    added = subprocess.run(add, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    with serving(tmp_path) as (_, url):
        assert ask(url + "/t/acme/rap/callbacks/x")[0] == 404
        assert ask(url + "/v1/tools", headers={"authorization": f"Bearer {json.loads(added)['key']}"})[0] == 200
    with serving(tmp_path) as (_, url):
        assert ask(url + "/t/acme/rap/callbacks/x")[0] == 405
        assert ask(url + "/t/other/rap/callbacks/x")[0] == 404
    assert sorted(each.name for each in tmp_path.glob("state*.db")) == ["state.acme.db", "state.db"]


PROVIDER = """
from agenttool.rap import Provider

provider = Provider("greenhouse")

@provider.tool
async def read_probe(bed: int) -> str:
    "Read a soil probe."
    return "wet"
"""


def until(look):
    """Look again for a while, until there is something to see."""
    for _ in range(1200):
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it never came")


@pytest.mark.slow
def test_a_server_that_starts_after_the_runtime_is_found_by_itself(tmp_path, free_port):
    (tmp_path / "late.py").write_text(PROVIDER)
    port = free_port()
    write_settings(
        tmp_path / "agenttool.toml",
        f'[sources.gh]\nkind = "rap"\nurl = "http://127.0.0.1:{port}"\nallow = ["127.0.0.0/8"]\n',
    )
    query = json.dumps({"query": "select:gh.read_probe"}).encode()
    with serving(tmp_path) as (_, url):

        def search():
            return json.loads(ask(url + "/v1/search", query, headers={"Content-Type": "application/json"})[1])

        assert (search()["pending_providers"], search()["matches"]) == (["gh"], [])
        words = ["-m", "agenttool", "rap", "serve", "late:provider", "--port", str(port)]
        with subprocess.Popen([sys.executable, *words], cwd=tmp_path, stderr=subprocess.PIPE) as provider:
            try:
                assert until(lambda: search()["matches"])[0]["tool_id"] == "tool_gh.read_probe"
                assert (
                    json.loads(ask(url + "/v1/status", headers=auditor_key(tmp_path))[1])["sources"][0]["state"]
                    == "ready"
                )
                assert search()["pending_providers"] == []
            finally:
                provider.kill()


def test_a_port_in_use_is_reported(tmp_path):
    with serving(tmp_path) as (_, url):
        port = url.rpartition(":")[2]
        program = [sys.executable, "-m", "agenttool", "serve", "--port", port]
        done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2
        assert "use another --port" in done.stderr


def test_waiting_calls_are_stored_on_disk_by_default(tmp_path):
    with serving(tmp_path) as (_, url):
        assert ask(url + "/healthz") == (200, b"ok")
        assert (tmp_path / "agenttool.db").exists()


def test_the_store_of_the_settings_is_used(tmp_path):
    write_settings(tmp_path / "agenttool.toml", '[store]\nurl = "sqlite:own.db"\n')
    with serving(tmp_path) as (_, url):
        assert ask(url + "/healthz") == (200, b"ok")
        assert (tmp_path / "own.db").exists()
        assert not (tmp_path / "agenttool.db").exists()
