"""What a framework is given as functions, and the programs of the page about providers, run with the real packages."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from agenttool import Runtime, SurfacePolicy, sync, tool
from agenttool.integrations.functions import FrameworkTools
from agenttool.testing import ModelCall, reply, serve_model

PAGE = (Path(__file__).parents[2] / "docs/how-to/providers.md").read_text(encoding="utf-8")
PROGRAMS = dict(re.findall(r"<!-- example:([^>]+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))
STOCK = ModelCall(name="stock", arguments={"article": "soap"}, call_id="call_1")
functions = FrameworkTools(lambda governed: governed)


@tool(read_only=True, should_defer=True)
async def weather(city: str) -> str:
    """Forecast the weather."""
    return f"rain in {city}"


@tool(read_only=True)
async def call_tool(number: str) -> str:
    """Dial a number."""
    return number


async def test_a_model_finds_a_deferred_tool_and_calls_it_by_its_name():
    async with Runtime.open(tools=[weather]) as rt:
        search, call = await functions(rt)
        assert [search.name, call.name] == ["tool_search", "call_tool"]
        found = (await search.call({"query": "weather forecast"})).value["loaded"]
        assert [each["name"] for each in found] == ["local.weather"]
        done = await call.call({"name": "local.weather", "arguments": {"city": "Bonn"}}, "call_1")
        assert (done.text, (await rt.journal.invocation(done.invocation_id)).native_call_id) == (
            "rain in Bonn",
            "call_1",
        )


@pytest.mark.parametrize("given", ["not json", {"arguments": {}}, {"name": "local.whether"}, '{"name": 7}'])
async def test_a_call_that_names_no_tool_of_the_surface_is_a_failed_result(given):
    async with Runtime.open(tools=[weather]) as rt:
        _, call = await functions(rt)
        assert (await call.call(given)).error.error_class == "unknown_tool"


def test_the_functions_of_a_synchronous_runtime_are_called_from_any_thread():
    with sync.open(tools=[weather, call_tool], surface=SurfacePolicy(max_tools=1)) as rt:
        *_, call = functions(rt)
        assert call.name == "call_tool_"
        rt.call("agenttool.tool_search", {"query": "weather"})
        assert call.call_blocking({"name": "call_tool", "arguments": {"number": "110"}}).text == "110"


async def test_a_surface_that_defers_nothing_has_no_function_to_call_tools_by_name():
    async with Runtime.open(tools=[call_tool]) as rt:
        assert [each.name for each in await functions(rt)] == ["call_tool"]


@pytest.mark.soak
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
