"""Texts of models that no request could repeat, and texts that look like a mark of agenttool."""

import asyncio
import json

import pytest

from agenttool import Runtime, tool
from agenttool.adapters.function_calling.formats import FORMATS
from agenttool.testing import ModelCall, reply, stream

HALF, OTHER_HALF = "\ud83d", "\ude00"


@tool(read_only=True)
async def look(at: str = "nothing") -> str:
    """Look at something."""
    return f"saw {at}"


@tool
async def act(on: dict[str, object]) -> str:
    """Act on something."""
    return f"acted on {json.dumps(on)}"


def with_text(value, old, new):
    """Replace a text in all texts of a reply, as a server may write them."""
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, dict):
        return {key: with_text(each, old, new) for key, each in value.items()}
    return [with_text(each, old, new) for each in value] if isinstance(value, list) else value


def answer(given, provider):
    async def main():
        async with Runtime.open(tools=[look]) as rt:
            tools = await rt.tools_for(provider)
            return await tools.answer(given)

    return asyncio.run(main())


@pytest.mark.parametrize("provider", FORMATS)
@pytest.mark.parametrize("build", [reply, stream])
@pytest.mark.parametrize("part", ["text", "name", "arguments", "id"])
def test_half_of_a_surrogate_pair_can_be_repeated_and_runs_no_call_with_other_arguments(provider, build, part):
    text, name, soap, call_id = (f"{each}¤" if each == part else each for each in ("text", "name", "arguments", "id"))
    called = ModelCall(name=name.replace("name", "look"), arguments={"at": soap}, call_id=call_id)
    given = with_text(build(provider, called, text=text), "¤", HALF)
    turn = answer(iter(given) if build is stream else given, provider)
    json.dumps(turn.messages, ensure_ascii=False).encode()
    turn.text.encode()
    [result] = turn.results
    assert (result.content[0].text == "saw arguments") is (part in ("text", "id"))


@pytest.mark.parametrize("provider", ["anthropic", "openai", "openai_responses"])
def test_a_surrogate_pair_that_a_stream_sends_in_two_pieces_is_one_character(provider):
    called = ModelCall(name="look", arguments={"at": "¤€55555"}, call_id="call_1")  # each text is cut in its middle
    given = with_text(with_text(stream(provider, called, text="¤€"), "¤", HALF), "€", OTHER_HALF)
    turn = answer(iter(given), provider)
    assert turn.text == "😀"
    assert turn.results[0].content[0].text == "saw 😀55555"
    json.dumps(turn.messages, ensure_ascii=False).encode()


@pytest.mark.parametrize("provider", FORMATS)
@pytest.mark.parametrize("value", [{"base64:bytes": "aGVsbG8="}, {"base64:bytes": "a"}, {"base64:base64:bytes": 5}])
def test_arguments_that_look_like_stored_bytes_survive_a_turn_that_waits(tmp_path, provider, value):
    async def main():
        async with Runtime.open(store=f"sqlite:{tmp_path / 'calls.db'}", tools=[act, look]) as rt:
            tools = await rt.tools_for(provider)
            calls = [
                ModelCall(name="act", arguments={"on": {"it": value}}, call_id="call_1"),
                ModelCall(name="look", arguments={"at": "¤"}, call_id="call_2"),
            ]
            given = with_text(reply(provider, *calls), "¤", HALF)
            turn = await tools.answer(given, pending="return")
            [question] = await rt.approvals.list()
            await rt.approvals.decide(question, "allow", by="ada")
            resumed = await tools.resume(turn.to_json())
            assert resumed.reply_messages == turn.reply_messages
            assert resumed.results[0].content[0].text == f"acted on {json.dumps({'it': value})}"

    asyncio.run(main())
