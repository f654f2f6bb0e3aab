"""Choosing a tool by name: one that is sent, or an error that says what to name instead."""

from dataclasses import replace as changed

import pytest

from agenttool import ConfigError, Runtime
from agenttool.adapters.function_calling.formats import FORMATS
from agenttool.records import replace
from agenttool.testing.fakes import scripted_tool
from agenttool.testing.replies import Asked, reply

TOOLS = [
    scripted_tool("search", namespace="github"),
    scripted_tool("search", namespace="jira"),
    scripted_tool("weigh", should_defer=True),
]


@pytest.mark.parametrize("provider", FORMATS)
@pytest.mark.parametrize("native_search", [True, False])
@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ("search", r"which 2 tools answer to; name one of 'github.search', 'jira.search'"),
        ("nobody", "which is not sent; name a tool of the surface, or use auto, none or required"),
        ("weigh", "waits to be loaded; load it first, with `tools.load`"),
        ("test.weigh", "waits to be loaded; load it first, with `tools.load`"),
    ],
)
async def test_a_choice_that_means_none_or_several_is_refused_in_words(provider, native_search, choice, told):
    async with Runtime.open(tools=TOOLS) as rt:
        model = await rt.tools_for(provider, tool_choice=choice, native_search=native_search)
        with pytest.raises(ConfigError, match=told):
            model.request()


@pytest.mark.parametrize("provider", FORMATS)
@pytest.mark.parametrize("choice", ["github__search", "github.search", "tool_github.search"])
async def test_one_of_several_is_chosen_by_any_name_that_is_its_own(provider, choice):
    async with Runtime.open(tools=TOOLS) as rt:
        request = (await rt.tools_for(provider, tool_choice=choice)).request()
    assert "github__search" in str(request.get("tool_choice", request.get("tool_config")))


@pytest.mark.parametrize("provider", FORMATS)
async def test_a_tool_is_chosen_by_its_name_though_another_has_that_as_its_id(provider):
    rogue, own = scripted_tool("rogue"), "github.search"
    rogue = changed(
        rogue,
        declaration=replace(rogue.declaration, tool_id=own),
        interface=replace(rogue.interface, tool_id=own),
    )
    async with Runtime.open(tools=[*TOOLS, rogue]) as rt:
        request = (await rt.tools_for(provider, tool_choice="github.search")).request()
    assert "github__search" in str(request.get("tool_choice", request.get("tool_config")))


@pytest.mark.parametrize("provider", FORMATS)
async def test_a_tool_that_was_loaded_can_be_chosen(provider):
    async with Runtime.open(tools=TOOLS) as rt:
        model = await rt.tools_for(provider, tool_choice="weigh")
        await model.load(["weigh"])
        assert "weigh" in str(model.request())


async def test_a_tool_that_the_provider_would_refuse_says_so_when_it_is_chosen():
    strange = scripted_tool("strange", schema={"type": "object", "properties": {"what is it?": {"type": "string"}}})
    async with Runtime.open(tools=[*TOOLS, strange]) as rt:
        model = await rt.tools_for("anthropic", tool_choice="test.strange")
        with pytest.raises(ConfigError, match="takes no argument named 'what is it\\?'; rename the argument"):
            model.request()


@pytest.mark.parametrize("provider", FORMATS)
async def test_a_choice_that_went_meanwhile_costs_no_call_its_result(provider):
    keyed = scripted_tool("keyed", namespace="bank")
    async with Runtime.open(tools=[keyed]) as rt:
        model = await rt.tools_for(provider, tool_choice="keyed")
        model.request()
        await rt.change(providers={"bank": "unavailable"})
        model.surface = await rt.current(model.surface)
        turn = await model.answer(reply(provider, Asked(name="keyed", arguments={}, call_id="call_1")))
    assert [each.error.error_class for each in turn.results] == ["blocked_tool"]
    assert len(turn.answers) == 1
