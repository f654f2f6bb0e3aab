"""A model nests its arguments as deeply as it likes: that call fails, and its turn continues."""

import asyncio

import pytest

from agenttool import Runtime, tool
from agenttool.testing.fakes import scripted_tool
from agenttool.testing.replies import ModelCall, reply

PROVIDERS = ["openai", "openai_responses", "anthropic", "gemini"]


@tool(namespace="depot", read_only=True, concurrency_safe=True, open_world=False)
async def stock(article: str) -> str:
    """Count what is left of an article."""
    return f"7 of {article}"


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("levels", [490, 600, 2000])
def test_arguments_that_are_nested_deeply_cost_no_other_call(provider, levels):
    inner = {"type": "object", "properties": {"c": {"$ref": "#/$defs/D"}}, "additionalProperties": False}
    schema = {**inner, "$defs": {"D": inner}}
    deep = "{" + '"c":{' * levels + "}" * levels + "}"
    given = deep if provider.startswith("openai") else {}
    nested = scripted_tool("nested", schema=schema)
    asked = [("nested", given), ("stock", {"article": "soap"})]
    answered = reply(provider, *(ModelCall(name=name, arguments=each, call_id=name) for name, each in asked))
    if given == {}:  # the reply holds this object, and a deep one cannot be written
        for _ in range(levels):
            given["c"] = dict(given)

    async def run():
        async with Runtime.open(tools=[nested, stock], approve="deny") as rt:
            return await (await rt.tools_for(provider)).answer(answered)

    taken = asyncio.run(run())
    assert [each.is_error for each in taken.results] == [True, False]
    assert "7 of soap" in str(taken.result_messages)
