"""The programs of the page about providers, run with the SDKs against a provider on this machine."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agenttool.testing import ModelCall, reply, serve_model, stream

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs/how-to/providers.md").read_text(encoding="utf-8")
PROGRAMS = dict(re.findall(r"<!-- example:([^>]+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))
STOCK = ModelCall(name="stock", arguments={"article": "soap"}, call_id="call_1")
ORDER = ModelCall(name="order", arguments={"article": "soap"}, call_id="call_1")
FINAL = "There is enough."


def run(program, url, folder):
    """Run a program of the page; return what it printed."""
    (folder / "depot.py").write_text(PROGRAMS["file depot.py"])
    (folder / "program.py").write_text(PROGRAMS[program])
    urls = {"OPENAI_BASE_URL": f"{url}/v1", "ANTHROPIC_BASE_URL": url, "GOOGLE_GEMINI_BASE_URL": url}
    keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), "none")
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=folder, env={**os.environ, **urls, **keys}, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("program", ["openai", "openai_responses", "anthropic", "gemini"])
def test_the_loop_of_each_sdk_runs(program, tmp_path):
    with serve_model([reply(program, STOCK), reply(program, text=FINAL)]) as server:
        assert run(program, server.url, tmp_path) == f"{FINAL}\n"
    assert "7 soap in the north" in str(server.requests[1])


@pytest.mark.parametrize("program", ["openai stream", "anthropic loop"])
def test_the_streaming_loops_run(program, tmp_path):
    provider = program.partition(" ")[0]
    with serve_model([stream(provider, STOCK, text="Let me look. "), stream(provider, text=FINAL)]) as server:
        assert run(program, server.url, tmp_path) == f"Let me look. {FINAL}"
    assert server.requests[0]["stream"] is True


def test_the_turn_that_waits_is_continued_by_another_program(tmp_path):
    with serve_model([reply("anthropic", ORDER), reply("anthropic", text="It is ordered.")]) as server:
        assert "order waits for apr_" in run("anthropic ask", server.url, tmp_path)
        assert run("anthropic continue", server.url, tmp_path) == "It is ordered.\n"
    assert "soap is ordered" in str(server.requests[1])


def test_every_program_of_the_page_is_run():
    run_here = {"openai", "openai_responses", "anthropic", "gemini", "openai stream", "anthropic loop"}
    run_with_frameworks = {"langchain", "pydantic_ai", "openai_agents"}
    others = {"file depot.py", "anthropic ask", "anthropic continue"}
    assert PROGRAMS.keys() == run_here | run_with_frameworks | others
