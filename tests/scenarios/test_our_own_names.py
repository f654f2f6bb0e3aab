"""The runtime's own tools, where tools of others have the same names: a name in a message leads to the tool that it means."""

import json
import re

import pytest

from agenttool import Runtime, tool
from agenttool.testing.replies import ModelCall, reply

PROVIDERS = ["openai", "openai_responses", "anthropic", "gemini"]
HARMLESS = {"read_only": True, "open_world": False}


@tool(**HARMLESS)
async def dump() -> str:
    """Give very much. Not for little."""
    return "\n".join(f"line {number}" for number in range(20_000))


@tool(**HARMLESS)
async def read_result(payload_id: str) -> str:
    """Read a result of the laboratory. Not for tools."""
    return "the laboratory's"


@tool(**HARMLESS)
async def tool_search(query: str) -> str:
    """Search the shed. Not for programs."""
    return "the shed's"


@tool(should_defer=True, **HARMLESS)
async def weigh() -> int:
    """Weigh it. Not for prices."""
    return 12


CLASHING = [dump, read_result, tool_search, weigh]
PLAIN = [dump, weigh]


def text_of(result):
    return result.model_facing_content[0].text


def next_call(text):
    name, arguments = re.search(r"call ([\w.]+) with (\{[^}]*\})", text).groups()
    return name, json.loads(arguments)


def functions_in(request):
    tools = request.get("tools", [])
    listed = [*tools, *(each for group in tools for each in group.get("function_declarations", ()))]
    return {each.get("function", each).get("name") for each in listed}


@pytest.mark.parametrize("tools", [CLASHING, PLAIN])
async def test_a_preview_and_what_is_read_back_name_the_tool_that_reads_on(tools):
    async with Runtime.open(tools=tools) as rt:
        surface = await rt.surface()
        recorded = text_of(await rt.call("dump", {}, surface=surface))
        for on in (surface, await rt.surface()):
            name, arguments = next_call(recorded)
            recorded = text_of(await rt.call(name, arguments, surface=on))
            assert recorded.startswith("line ")
    assert name == ("agenttool.read_result" if tools is CLASHING else "read_result")


@pytest.mark.requirement("AT-DEFER-15")
@pytest.mark.parametrize("tools", [CLASHING, PLAIN])
async def test_a_caller_of_a_tool_that_waits_gets_a_next_step_that_works(tools):
    async with Runtime.open(tools=tools) as rt:
        surface = await rt.surface()
        refused = await rt.call("weigh", {}, surface=surface)
        name, query = re.search(r"call ([\w.]+) with '([^']+)'", refused.error.message).groups()
        assert name == surface.selection_policy["discovery"]
        assert not (await rt.call(name, {"query": query}, surface=surface)).is_error
        assert (await rt.call("weigh", {}, surface=rt.surfaces.current(surface))).structured_content == 12
    assert refused.error.error_class == "schema_not_loaded"
    assert name == ("agenttool.tool_search" if tools is CLASHING else "tool_search")


@pytest.mark.parametrize("tools", [CLASHING, PLAIN])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_model_gets_the_names_that_it_was_shown(provider, tools):
    async with Runtime.open(tools=tools) as rt:
        model = await rt.tools_for(provider, native_search=False)
        before = functions_in(model.request())
        turn = await model.answer(
            reply(
                provider,
                ModelCall(name="dump", arguments={}, call_id="c1"),
                ModelCall(name="weigh", arguments={}, call_id="c2"),
            )
        )
        name, arguments = next_call(text_of(turn.results[0]))
        finder, query = re.search(r"call (\w+) with '([^']+)'", turn.results[1].error.message).groups()
        after = functions_in(model.request())
        assert before | {name} == after
        assert finder in before
        asked = (
            ModelCall(name=name, arguments=arguments, call_id="c3"),
            ModelCall(name=finder, arguments={"query": query}, call_id="c4"),
        )
        read, _ = (await model.answer(reply(provider, *asked))).results
        assert text_of(read).startswith("line ")
        assert "weigh" in functions_in(model.request())


@pytest.mark.parametrize(
    ("provider", "search"), [("anthropic", "tool_search_tool_bm25"), ("openai_responses", "tool_search")]
)
async def test_where_the_provider_searches_a_model_is_asked_to_use_that_search(provider, search):
    async with Runtime.open(tools=CLASHING) as rt:
        model = await rt.tools_for(provider, native_search=True)
        assert {each.get("name", each.get("type")) for each in model.request()["tools"]} >= {search, "weigh"}
        (refused,) = (await model.answer(reply(provider, ModelCall(name="weigh", arguments={}, call_id="c1")))).results
    assert (refused.error.error_class, refused.status) == ("schema_not_loaded", "failed")
    assert f"call {search} with " in refused.error.message
