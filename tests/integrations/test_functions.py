"""The programs of the page about providers that use a framework, run with the real packages."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from agenttool.testing import ModelCall, reply, serve_model

pytestmark = pytest.mark.soak

PAGE = (Path(__file__).parents[2] / "docs/how-to/providers.md").read_text(encoding="utf-8")
PROGRAMS = dict(re.findall(r"<!-- example:([^>]+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))
STOCK = ModelCall(name="stock", arguments={"article": "soap"}, call_id="call_1")


@pytest.mark.parametrize(
    ("framework", "api"), [("langchain", "openai"), ("pydantic_ai", "openai"), ("openai_agents", "openai_responses")]
)
def test_the_program_of_each_framework_runs(framework, api, interpreter, tmp_path):
    (tmp_path / "depot.py").write_text(PROGRAMS["file depot.py"])
    (tmp_path / "program.py").write_text(PROGRAMS[framework])
    with serve_model([reply(api, STOCK), reply(api, text="There is enough.")]) as server:
        own = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "none", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
        done = subprocess.run(
            [interpreter(framework), "program.py"], cwd=tmp_path, env={**os.environ, **own}, capture_output=True,
            text=True, timeout=120, check=False,
        )  # fmt: skip
    assert (done.stdout, done.returncode) == ("There is enough.\n", 0), done.stderr
    assert "7 soap in the north" in str(server.requests[1])
