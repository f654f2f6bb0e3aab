"""Two thousand tools as a model sees them: what a request costs, and a turn that finds one, loads it and calls it."""

import json
from itertools import product

import pytest

from agenttool import Runtime, SurfacePolicy, tool
from agenttool.testing.fakes import scripted_tool
from agenttool.testing.replies import ModelCall, reply

PROVIDERS = ["openai", "openai_responses", "anthropic", "gemini"]
VERBS = ["create", "update", "delete", "list", "find", "export", "import", "archive", "restore", "check"]
THINGS = ["invoice", "order", "parcel", "ticket", "contract", "form", "letter", "report", "budget", "badge"]
SCHEMA = {
    "type": "object",
    "properties": {
        "subject": {"type": "string", "description": "What it is about, in a few words"},
        "note": {"type": "string", "description": "Anything else that somebody should know of it"},
        "urgent": {"type": "boolean", "description": "Whether it cannot wait until tomorrow"},
    },
    "required": ["subject"],
    "additionalProperties": False,
}


@tool(namespace="harbour", read_only=True, open_world=False)
async def weigh_anchor(ship: str) -> str:
    """Let a ship leave its place in the harbour. Not for cars."""
    return f"{ship} is gone"


@pytest.fixture(scope="module")
def many_tools(changed):
    """Make two thousand tools of twenty offices."""
    made = []
    for office, verb, thing in product([f"office_{number}" for number in range(20)], VERBS, THINGS):
        plain = scripted_tool(f"{verb}_{thing}", namespace=office, schema=SCHEMA)
        words = f"{verb.title()} a {thing} of {office}, and keep everybody informed who has to do with it. Only there."
        made.append(changed(plain, declaration={"description": words}))
    return made


def size_of(request):
    return len(json.dumps(request)) // 4


def functions_in(request):
    tools = request.get("tools", [])
    listed = [*tools, *(each for group in tools for each in group.get("function_declarations", ()))]
    return {each.get("function", each).get("name") for each in listed} - {None}


def read(turn):
    return json.loads(turn.results[0].model_facing_content[0].text)


@pytest.mark.slow
@pytest.mark.requirement("AT-SURF-16", "AT-DEFER-17")
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_model_is_sent_a_few_hundred_tokens_and_can_load_any_of_the_tools_in_a_turn(provider, many_tools):
    tools = [*many_tools, weigh_anchor]
    async with Runtime.open(tools=tools) as rt:
        model = await rt.tools_for(provider)

        async def asks(name, arguments):
            return await model.answer(
                reply(provider, ModelCall(name=name, arguments=arguments, call_id=f"call_{name}"))
            )

        before = model.request()
        early = await asks("weigh_anchor", {"ship": "Beagle"})
        found = read(await asks("tool_search", {"query": "let a ship leave the harbour", "limit": 1}))
        after = model.request()
        done = await asks("weigh_anchor", {"ship": "Beagle"})
    assert early.results[0].error.error_class == "schema_not_loaded"
    assert [each["name"] for each in found["loaded"]] == ["harbour.weigh_anchor"]
    assert functions_in(after) - functions_in(before) == {"weigh_anchor"}
    assert done.results[0].model_facing_content[0].text == "Beagle is gone"
    assert len(tools) == 2001
    assert size_of(before) < 300
    assert size_of(after) < 400


@pytest.mark.slow
async def test_all_of_them_at_once_would_cost_hundreds_of_times_as_much(many_tools):
    everything = SurfacePolicy(max_tools=None, max_tokens=None)
    async with Runtime.open(tools=many_tools, surface=everything) as whole, Runtime.open(tools=many_tools) as small:
        costs = [size_of((await rt.tools_for("anthropic", strict=False)).request()) for rt in (whole, small)]
    assert costs[0] > 400 * costs[1]
