"""The official conformance suite of MCP against our server, on both revisions.

It comes from npm, is installed on first use, and runs on Node.js 22.
"""

import json
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from npm_packages import mcp_suite, node_22
from real_mcp_servers import sdk_everything
from waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
SERVER = ROOT / "tests" / "support" / "mcp_everything.py"
_TIME = re.compile(r"-\d{4}-\d\d-\d\dT[^/]*$")

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
        _TIME.sub("", folder.name.removeprefix("server-")): json.loads((folder / "checks.json").read_text())
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


SETTINGS = """
[sources.everything]
kind = "mcp"
url = "{url}"
sampling = true
roots = "client"
parallel = true

[[rules]]
behavior = "allow"
tool = "everything.*"
"""
OWN_WAY = {
    "2025-11-25": set(),
    "2026-07-28": {"tasks-required-task-error sep-2663-server-returns-missing-capability-when-required"},
}
"""A tool that only runs as a task can be called by any client: the gateway follows the task for those that cannot."""


@contextmanager
def running(module, folder, log, ready):
    """Run a module with its arguments until the end of the block, which begins once the log has a text."""
    with (
        log.open("w") as output,
        subprocess.Popen([sys.executable, "-m", *module], cwd=folder, stdout=output, stderr=output) as child,
    ):
        try:
            wait_until(lambda: ready in log.read_text())
            yield
        finally:
            child.kill()


@contextmanager
def gateway_to(url, port, folder):
    settings, printed = folder / "gateway.toml", folder / "gateway.log"
    settings.write_text(SETTINGS.format(url=url))
    serve = ["agenttool", "serve", "--store", "memory:", "--settings", str(settings), "--port", str(port)]
    with running(serve, folder, printed, "serving at"):
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.mark.soak
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_server_behind_the_gateway_fails_nothing_that_it_passes_alone(suite, revision, tmp_path, free_port):
    with (
        serving(free_port(), tmp_path / "server.log") as bare,
        gateway_to(bare, free_port(), tmp_path) as url,
    ):
        checks, printed = run_suite(suite, url, tmp_path / "all", "--requirements", revision)
    assert failed_in(checks).keys() == OWN_WAY[revision], printed[-3000:]


@contextmanager
def serving_sdk(port, log):
    """Serve what the SDK's own server has for this suite."""
    with running(["mcp_everything_server", "--port", str(port)], sdk_everything(), log, "Uvicorn running"):
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.mark.soak
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_the_server_of_the_sdk_fails_nothing_behind_the_gateway_that_it_passes_alone(
    suite, revision, tmp_path, free_port
):
    with serving_sdk(free_port(), tmp_path / "server.log") as bare:
        alone, _ = run_suite(suite, bare, tmp_path / "alone", "--requirements", revision)
    with (
        serving_sdk(free_port(), tmp_path / "governed.log") as bare,
        gateway_to(bare, free_port(), tmp_path) as url,
    ):
        governed, printed = run_suite(suite, url, tmp_path / "governed", "--requirements", revision)
    assert governed.keys() == alone.keys()
    assert len(alone) == {"2025-11-25": 33, "2026-07-28": 50}[revision]
    assert failed_in(governed).keys() <= failed_in(alone).keys(), printed[-3000:]
