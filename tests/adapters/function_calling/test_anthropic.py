"""Conversations hold nothing that the Messages API rejects."""

import pytest

from agenttool import Runtime
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource
from agenttool.testing.fakes import scripted_tool

ALLOW = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]


def texts(value):
    """Yield all texts of blocks at any depth."""
    if isinstance(value, dict):
        yield from (value["text"],) if value.get("type") == "text" else ()
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts(inner)


@pytest.mark.parametrize("blank", ["", " ", "\n"])
async def test_a_conversation_with_anthropic_holds_no_blank_text(blank):
    """The API rejects a whole request for one, even if its model wrote it."""

    async def no_output(job):
        return blank

    message = {
        "role": "assistant",
        "stop_reason": "tool_use",
        "content": [
            {"type": "text", "text": blank},
            {"type": "tool_use", "id": "call_1", "name": "quiet", "input": {}},
        ],
    }
    async with Runtime.open(tools=[scripted_tool("quiet", no_output)], rules=ALLOW) as rt:
        model = await rt.tools_for("anthropic")
        turn = await model.answer(message)
        last = await model.answer({"role": "assistant", "stop_reason": "end_turn", "content": message["content"][:1]})
    assert [each.status for each in turn.results] == ["succeeded"]
    assert [each["type"] for each in turn.messages[0]["content"]] == ["tool_use"]
    (text,) = texts(turn.messages)
    assert "no output" in text
    assert (last.messages, last.is_final) == ([], True)
