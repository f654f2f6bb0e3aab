"""Functions that return media among other things, whatever their annotations say of it."""

from collections.abc import Sequence
from typing import Any

import pytest

from agenttool import Media, Runtime, tool
from agenttool.testing.replies import ModelCall, reply

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 20
KINDS = [list, tuple, list[Any], list[object], Sequence, list | None, None]


def album(returns, things):
    async def look():
        return things

    if returns is not None:
        look.__annotations__["return"] = returns
    return tool(description="Look. Not for words.", read_only=True, open_world=False)(look)


@pytest.mark.requirement("AT-RES-03")
@pytest.mark.parametrize("returns", KINDS)
async def test_media_in_a_list_is_content_in_its_place(returns):
    things = ["before", Media(PNG, name="soap.png"), {"count": 7}, "after"]
    async with Runtime.open(tools=[album(returns, things)]) as rt:
        result = await rt.call("look", {}, surface=await rt.surface())
    assert result.error is None
    assert [each.type.value for each in result.content] == ["text", "image", "text", "text"]
    assert [result.content[place].text for place in (0, 2, 3)] == ["before", '{"count":7}', "after"]
    image = result.content[1].ref
    if returns is not None:
        assert result.structured_content == ["before", image.id, {"count": 7}, "after"]


@pytest.mark.parametrize("provider", ["openai", "openai_responses", "anthropic", "gemini"])
async def test_such_a_list_reaches_a_model_as_words_and_pictures(provider):
    async with Runtime.open(tools=[album(list, ["before", Media(PNG)])]) as rt:
        model = await rt.tools_for(provider)
        turn = await model.answer(reply(provider, ModelCall(name="look", arguments={}, call_id="c1")))
    written = repr(turn.result_messages)
    assert "before" in written
    assert "iVBORw0KGgo" in written or repr(PNG) in written


async def test_a_list_that_does_not_fit_what_its_tool_declares_says_so():
    async with Runtime.open(tools=[album(list[int], [1, Media(PNG)])]) as rt:
        result = await rt.call("look", {}, surface=await rt.surface())
    assert (result.error.error_class, result.error.error_code) == ("result_mapping_failed", "schema_misfit")
    assert "/1 must be integer" in result.error.message


async def test_secrets_beside_media_are_taken_out_of_both(changed):
    tool_of = album(list, ["fine", {"token": "s3cr3t-value-1"}, Media(PNG)]).declared
    contract = changed(tool_of, declaration={}).declaration.output_contract
    hiding = {
        "output_contract": type(contract)(structured_schema=contract.structured_schema, redaction_rules=("token",))
    }
    async with Runtime.open(tools=[changed(tool_of, declaration=hiding)]) as rt:
        result = await rt.call("look", {}, surface=await rt.surface())
    assert result.error is None
    assert "s3cr3t-value-1" not in repr(result)
