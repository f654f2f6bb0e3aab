"""Governed tools in an agent of LangChain and LangGraph, with the real packages in an environment of their own."""

import pytest

from agenttool import ConfigError, Runtime
from agenttool.integrations import langchain, openai_agents, pydantic_ai
from agenttool.testing.fakes import scripted_tool


@pytest.mark.soak
@pytest.mark.parametrize("arguments", [(), ("sync",)])
def test_an_agent_of_langchain_calls_governed_tools(run_agent, arguments):
    done = run_agent("langchain", *arguments)
    (ok, text, first), (denied, reason, second), (failed, misfit, third) = done["outputs"]
    assert (ok, text, done["text"]) == ("success", "7 soap left", "There is enough.")
    assert (denied, failed) == ("error", "error")
    assert [first, second, third] == ["succeeded", "denied", "failed"]  # the record, also of a failed call
    assert reason.startswith("permission_denied")
    assert misfit.startswith("schema_validation_failed")
    assert [state for _, state in done["calls"]] == ["denied", "schema_parse_failed", "succeeded"]


@pytest.mark.parametrize(
    ("framework", "package"),
    [(langchain, "langchain-core"), (pydantic_ai, "pydantic-ai-slim"), (openai_agents, "openai-agents")],
)
async def test_a_framework_that_is_not_installed_is_named_with_its_package(framework, package):
    async with Runtime.open(tools=[scripted_tool("probe")]) as rt:
        with pytest.raises(ConfigError, match=f"install it with `pip install {package}`"):
            await framework.tools(rt)
