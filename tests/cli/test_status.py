"""`agenttool status`: open calls, approvals, sources, processes and the size of the store."""

import json
import subprocess
import sys

import pytest
from project_settings import write_settings
from waiting import wait_until

TOOLS = '''
import asyncio
from pathlib import Path
from agenttool import tool

@tool(namespace="bank", approval_required=True)
async def transfer(to: str) -> str:
    """Transfer money. Not for refunds."""
    return "sent"

@tool(namespace="bank", read_only=True)
async def audit() -> str:
    """Read the books for an hour. Not for refunds."""
    Path("started").touch()
    await asyncio.sleep(3600)
    return "done"
'''
pytestmark = pytest.mark.slow
PROGRAM = [sys.executable, "-m", "agenttool"]


@pytest.fixture
def folder(tmp_path, free_port):
    (tmp_path / "bank.py").write_text(TOOLS)
    write_settings(
        tmp_path / "agenttool.toml",
        '[store]\nurl = "sqlite:calls.db"\n[sources.bank]\nkind = "python"\nmodule = "bank"\n'
        f'[sources.garden]\nkind = "rap"\nurl = "http://127.0.0.1:{free_port()}"\nallow = ["127.0.0.0/8"]\n',
    )
    return tmp_path


def command(folder, *words):
    return subprocess.run([*PROGRAM, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def test_an_operator_sees_open_calls_their_processes_approvals_and_a_dead_server(folder):
    command(folder, "call", "transfer", "to=ada")
    with subprocess.Popen([*PROGRAM, "call", "audit"], cwd=folder, stdout=subprocess.DEVNULL) as running:
        try:
            wait_until((folder / "started").exists)
            found = json.loads(command(folder, "status", "--json").stdout)
            text = command(folder, "status").stdout
        finally:
            running.kill()
    waiting, audit = found["open_calls"]
    assert (waiting["tool"], waiting["status"], audit["tool"], audit["status"]) == (
        "bank.transfer", "awaiting_approval", "bank.audit", "running",
    )  # fmt: skip
    assert found["approvals"] == [waiting["approval_id"]]
    assert audit["process"] in found["processes"]
    assert int(audit["process"].partition("@")[0]) == running.pid
    bank, garden = found["sources"]
    assert (bank["name"], bank["fault"], garden["name"], garden["state"]) == ("bank", None, "garden", "connecting")
    assert (garden["next_try_at_ns"] > garden["since_ns"], found["store"]["calls"]) == (True, 2)
    assert found["store"]["size_bytes"] > 0
    for line in (
        "Processes: 1",
        "Open calls: 2",
        "Waiting approvals: 1",
        "agenttool approvals",
        "agenttool cancel inv_",
    ):
        assert line in text
    assert "garden rap has not answered since" in text


def test_a_store_that_does_not_exist_is_named(folder):
    done = command(folder, "status")
    assert (done.returncode, "there is no journal at" in done.stderr) == (2, True)
