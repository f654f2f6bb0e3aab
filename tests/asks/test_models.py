"""Asks about what models are shown, and what becomes of what they ask for."""

import re

import pytest

from agenttool import Runtime
from agenttool.testing.fakes import scripted_tool
from agenttool.testing.replies import ModelCall, reply

TAKEN_BY_ALL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
NAMES = [
    "read",
    "create_or_update_" + "very_" * 30 + "long_name",
    "create_or_update_" + "very_" * 30 + "long_name_too",
    "搜索文件",
    "files/read.now",
    "9 lives",
]


def names_in(request):
    written = request["tools"]
    declared = written[0].get("function_declarations", written)
    return [each.get("function", each)["name"] for each in declared]


@pytest.mark.parametrize("provider", ["openai", "openai_responses", "anthropic", "gemini"])
async def test_ask_02_a_name_that_no_provider_takes_costs_neither_its_tool_nor_any_other(provider, allow):
    tools = [scripted_tool(name, namespace=space) for name in NAMES for space in ("one", "two." + "x" * 80)]
    async with Runtime.open(tools=tools, rules=allow) as rt:
        model = await rt.tools_for(provider)
        sent = names_in(model.request())
        asked = [ModelCall(name=name, arguments={}, call_id=f"call_{number}") for number, name in enumerate(sent)]
        turn = await model.answer(reply(provider, *asked))
        reached = [(await rt.journal.invocation(each.invocation_id)).tool_id for each in turn.results]
    assert len(set(sent)) == len(tools)
    assert all(TAKEN_BY_ALL.fullmatch(name) for name in sent)
    assert reached == [each.declaration.tool_id for each in tools]
    assert [len(each.executor.inputs) for each in tools] == [1] * len(tools)
