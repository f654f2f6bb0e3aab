"""What the Messages API refuses is not in a conversation with it, though a model or a tool said it."""

import pytest

from agenttool import Runtime
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource
from agenttool.testing.fakes import scripted_tool

ALLOW = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]


def texts(value):
    """Go through all texts of blocks, however deep."""
    if isinstance(value, dict):
        yield from (value["text"],) if value.get("type") == "text" else ()
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts(inner)


@pytest.mark.parametrize("blank", ["", " ", "\n"])
async def test_a_conversation_with_anthropic_holds_no_blank_text(blank):
    """The API refuses a whole request for one, be it the model's own."""

    async def say_nothing(job):
        return blank

    said = {
        "role": "assistant",
        "stop_reason": "tool_use",
        "content": [
            {"type": "text", "text": blank},
            {"type": "tool_use", "id": "call_1", "name": "quiet", "input": {}},
        ],
    }
    async with Runtime.open(tools=[scripted_tool("quiet", say_nothing)], rules=ALLOW) as rt:
        model = await rt.tools_for("anthropic")
        turn = await model.answer(said)
        last = await model.answer({"role": "assistant", "stop_reason": "end_turn", "content": said["content"][:1]})
    assert [each.status for each in turn.results] == ["succeeded"]
    assert [each["type"] for each in turn.messages[0]["content"]] == ["tool_use"]
    (told,) = texts(turn.messages)
    assert "no output" in told
    assert (last.messages, last.is_final) == ([], True)
