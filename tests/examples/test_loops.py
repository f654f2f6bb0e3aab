"""The agent loops of the examples, run with the providers' own SDKs against a provider of our own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agenttool.testing.replies import ModelCall, reply

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
LOOPS = {
    "openai_chat_loop.py": "openai",
    "openai_responses_loop.py": "openai_responses",
    "anthropic_loop.py": "anthropic",
    "gemini_loop.py": "gemini",
}
ADDRESSES = ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL")
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")


def results_in(provider, request):
    """List the ids and the words of the results that a request brings back."""
    match provider:
        case "openai":
            return [(each["tool_call_id"], each["content"]) for each in request["messages"] if each["role"] == "tool"]
        case "openai_responses":
            outputs = [each for each in request["input"] if each.get("type") == "function_call_output"]
            return [(each["call_id"], each["output"]) for each in outputs]
        case "anthropic":
            return [(each["tool_use_id"], each["content"][0]["text"]) for each in request["messages"][2]["content"]]
        case "gemini":
            parts = [part["functionResponse"] for part in request["contents"][2]["parts"]]
            return [(each["id"], each["response"]["output"]) for each in parts]


@pytest.mark.parametrize("example", LOOPS)
def test_a_loop_runs_what_the_model_asks_for_and_brings_it_back(example, provider):
    asked = [
        ModelCall(name="stock", arguments={"article": "soap", "place": "south"}, call_id="call_1"),
        ModelCall(name="stock", arguments={"article": "salt"}, call_id="call_2"),
    ]
    script = [reply(LOOPS[example], *asked), reply(LOOPS[example], text="There is enough.")]
    with provider(script) as server:
        address = server.url + ("/v1" if "openai" in example else "")
        environment = {**os.environ, **dict.fromkeys(ADDRESSES, address), **dict.fromkeys(KEYS, "none")}
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / example)], env=environment, capture_output=True, text=True, timeout=120, check=False
        )  # fmt: skip
        assert (done.stdout, done.returncode) == ("There is enough.\n", 0), done.stderr
        first, second = server.requests
    assert "stock" in str(first["tools"])
    assert results_in(LOOPS[example], second) == [("call_1", "4 soap in the south"), ("call_2", "4 salt in the north")]


@pytest.mark.parametrize("example", LOOPS)
def test_a_loop_is_short_enough_to_be_read_at_a_glance(example):
    assert len((EXAMPLES / example).read_text(encoding="utf-8").splitlines()) <= 40


def test_every_loop_is_run():
    assert {path.name for path in EXAMPLES.glob("*_loop.py")} == set(LOOPS)
