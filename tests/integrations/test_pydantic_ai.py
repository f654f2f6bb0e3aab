"""Governed tools in an agent of Pydantic AI, with the real package in an environment of its own."""

import pytest

pytestmark = pytest.mark.soak


def test_an_agent_of_pydantic_ai_calls_governed_tools(run_agent):
    done = run_agent("pydantic_ai")
    text, reason, misfit = done["outputs"]
    assert (text, done["text"]) == ("7 soap left", "There is enough.")
    assert reason.startswith("permission_denied")
    assert misfit.startswith("schema_validation_failed")
    assert [state for _, state in done["calls"]] == ["denied", "schema_parse_failed", "succeeded"]
