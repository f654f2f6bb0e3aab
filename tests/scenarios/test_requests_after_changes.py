"""What a request shows when something changed since the last turn: what is there now, and nothing else."""

import pytest

from agenttool import Circumstances, ModelCapabilities, Runtime, tool
from agenttool.testing.replies import ModelCall, reply

PROVIDERS = ["openai", "openai_responses", "anthropic", "gemini"]
HARMLESS = {"read_only": True, "open_world": False}


@tool(**HARMLESS)
async def look() -> str:
    """Look. Not for listening."""
    return "seen"


@tool(credentials=["vault:key"], gates=["beta"], model_requirements=["media:image"], **HARMLESS)
async def unlock() -> str:
    """Unlock. Not for locking."""
    return "open"


EVERYTHING = Circumstances(
    credentials=frozenset({"vault:key"}),
    gates=frozenset({"beta"}),
    model=ModelCapabilities(media=frozenset({"image"})),
)
CHANGES = {
    "credentials": {"credentials": []},
    "gate": {"gates": []},
    "model": {"model": ModelCapabilities()},
    "provider": {"providers": {"local": "unavailable"}},
}


def functions_in(request):
    tools = request.get("tools", [])
    listed = [*tools, *(each for group in tools for each in group.get("function_declarations", ()))]
    return {each.get("function", each).get("name") for each in listed} - {None}


@pytest.mark.requirement("AT-SURF-17")
@pytest.mark.parametrize("cause", CHANGES)
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_tool_that_went_between_two_turns_is_not_in_the_next_request(provider, cause):
    async with Runtime.open(tools=[look, unlock], circumstances=EVERYTHING) as rt:
        model = await rt.tools_for(provider, native_search=False)
        assert functions_in(model.request()) == {"look", "unlock"}
        await rt.surfaces.change(**CHANGES[cause])
        assert "unlock" not in functions_in(model.request())
        assert model.surface == rt.surfaces.current(model.surface)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_tool_that_was_taken_back_is_not_in_the_next_request_and_one_that_came_is(provider):
    async with Runtime.open(tools=[look, unlock]) as rt:
        model = await rt.tools_for(provider)
        assert functions_in(model.request()) == {"look"}
        rt.retire("local.look")
        assert functions_in(model.request()) == set()
        await rt.surfaces.change(credentials=["vault:key"], gates=["beta"])
        assert functions_in(model.request()) == {"unlock"}


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_reply_is_read_by_the_names_of_the_request_that_it_answers(provider):
    @tool(name="look", namespace="other", gates=["beta"], **HARMLESS)
    async def other_look() -> str:
        """Look elsewhere. Not for listening."""
        return "elsewhere"

    async with Runtime.open(tools=[look, other_look]) as rt:
        model = await rt.tools_for(provider)
        assert functions_in(model.request()) == {"look"}
        await rt.surfaces.change(gates=["beta"])
        turn = await model.answer(reply(provider, ModelCall(name="look", arguments={}, call_id="c1")))
        assert turn.results[0].model_facing_content[0].text == "seen"
        assert functions_in(model.request()) == {"local__look", "other__look"}
