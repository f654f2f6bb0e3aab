"""The official conformance suite of MCP against our server, on both revisions.

It comes from npm, is installed on first use, and runs on Node.js 22.
"""

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from npm_packages import mcp_suite, node_22

ROOT = Path(__file__).resolve().parents[2]
SERVER = ROOT / "tests" / "support" / "mcp_everything.py"

TASKS = {
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-status-notifications",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
}


@pytest.fixture(scope="session")
def suite():
    """Return the program of the suite, installed."""
    return mcp_suite()


@contextmanager
def serving(port, log):
    program = [sys.executable, str(SERVER), str(port), "memory:"]
    with log.open("w") as errors, subprocess.Popen(program, stdout=subprocess.PIPE, stderr=errors, text=True) as child:
        try:
            assert child.stdout.readline() == "ready\n", log.read_text()
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            child.kill()


def run_suite(suite, url, found, *words):
    """Run the suite; return the checks of each scenario, and what it printed."""
    command = [node_22(), suite, "server", "--url", url, *words, "-o", found]
    printed = subprocess.run(command, check=False, capture_output=True, text=True, timeout=1200).stdout
    checks = {
        folder.name.removeprefix("server-").rpartition("-2026-")[0]: json.loads((folder / "checks.json").read_text())
        for folder in found.iterdir()
    }
    return checks, printed


def failed_in(checks):
    return {
        f"{scenario} {each['id']}": each.get("errorMessage")
        for scenario, run in checks.items()
        for each in run
        if each["status"] in ("FAILURE", "WARNING")
    }


@pytest.mark.soak
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_the_server_passes_every_scenario_of_the_official_suite(suite, revision, tmp_path, free_port):
    with serving(free_port(), tmp_path / "server.log") as url:
        checks, printed = run_suite(suite, url, tmp_path / "all", "--requirements", revision)
    assert failed_in(checks) == {}, printed[-3000:]
    assert len(checks) == {"2025-11-25": 33, "2026-07-28": 50}[revision]
    # Some scenarios pass without a check; those that matter must have some that succeeded.
    vacuous = {name for name, run in checks.items() if not any(each["status"] == "SUCCESS" for each in run)}
    assert vacuous <= {"tasks-status-notifications"}
    assert {name for name in checks if name.startswith("tasks-")} == (TASKS if revision == "2026-07-28" else set())
