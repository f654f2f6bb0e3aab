"""Governed tools in an agent of the OpenAI Agents SDK, with the real package in an environment of its own."""

import pytest

from agenttool.testing import ModelCall, reply, serve_model

pytestmark = pytest.mark.soak


def test_an_agent_of_the_openai_agents_sdk_calls_governed_tools(run_agent):
    asked = [
        ModelCall(name="stock", arguments={"article": "soap", "config": " left"}, call_id="call_1"),
        ModelCall(name="order", arguments={"article": "salt"}, call_id="call_2"),
    ]
    wrong = ModelCall(name="stock", arguments={"article": 7}, call_id="call_3")
    script = [reply("openai", *asked), reply("openai", wrong), reply("openai", text="There is enough.")]
    with serve_model(script) as server:
        done = run_agent("openai_agents", f"{server.url}/v1")
    text, reason, misfit = done["outputs"]
    assert (text, done["text"]) == ("7 soap left", "There is enough.")
    assert reason.startswith("permission_denied")
    assert misfit.startswith("schema_validation_failed")
    assert [state for _, state in done["calls"]] == ["denied", "schema_parse_failed", "succeeded"]
    assert [each["function"]["name"] for each in server.requests[0]["tools"]] == ["stock", "order"]
