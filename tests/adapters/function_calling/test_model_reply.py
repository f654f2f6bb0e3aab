"""Calls as models write them."""

import pytest

from agenttool import Runtime
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource
from agenttool.testing.fakes import scripted_tool
from agenttool.testing.replies import ModelCall, reply

ALLOW = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]
CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}


@pytest.mark.parametrize("provider", ["openai", "openai_responses"])
@pytest.mark.parametrize("strict", [True, False])
async def test_a_call_whose_arguments_are_blank_has_none(provider, strict):
    probe = scripted_tool("probe", schema=CLOSED)
    picky = scripted_tool("picky", schema={**CLOSED, "required": ["a"]})
    async with Runtime.open(tools=[probe, picky], rules=ALLOW) as rt:
        model = await rt.tools_for(provider, strict=strict)
        calls = [ModelCall(name=name, arguments="", call_id=f"call_{name}") for name in ("probe", "picky")]
        turn = await model.answer(reply(provider, *calls))
    assert [each.status for each in turn.results] == ["succeeded", "failed"]
    assert "'a'" in turn.results[1].error.message or "/a" in turn.results[1].error.message
    assert probe.executor.inputs == [{}]


@pytest.mark.parametrize("provider", ["openai", "openai_responses"])
async def test_arguments_that_came_as_an_object_are_repeated_as_text(provider):
    message = reply(provider, ModelCall(name="probe", arguments="", call_id="call_1"))
    call = message["output"][0] if provider == "openai_responses" else None
    (call or message["choices"][0]["message"]["tool_calls"][0]["function"])["arguments"] = {"a": "x"}
    async with Runtime.open(tools=[scripted_tool("probe", schema=CLOSED)], rules=ALLOW) as rt:
        turn = await (await rt.tools_for(provider)).answer(message)
    repeated = turn.reply_messages[0]
    written = repeated if call else repeated["tool_calls"][0]["function"]
    assert written["arguments"] == '{"a":"x"}'
    assert [each.status for each in turn.results] == ["succeeded"]
