"""What a model was not shown it cannot call, by whatever name."""

import pytest

from agenttool import Runtime, SurfacePolicy
from agenttool.testing.fakes import scripted_tool
from agenttool.testing.replies import ModelCall, reply

EVERYTHING = SurfacePolicy(max_tools=None, max_tokens=None)
STRANGE = {"type": "object", "properties": {"what is it?": {"type": "string"}}}
NAMES = ("probe", "test.probe", "tool_test.probe", "poke", "Probe")


@pytest.mark.requirement("AT-DEFER-16")
@pytest.mark.parametrize(
    ("provider", "others"), [("anthropic", 0), ("openai", 128), ("openai_responses", 128), ("gemini", 128)]
)
@pytest.mark.parametrize("name", NAMES)
async def test_a_tool_that_a_provider_was_not_sent_runs_under_no_name(provider, others, name, allow, changed):
    probe = changed(scripted_tool("probe", schema=STRANGE), declaration={"aliases": ("poke",)})
    tools = [*(scripted_tool(f"t{number}") for number in range(others)), probe]
    async with Runtime.open(tools=tools, rules=allow, surface=EVERYTHING) as rt:
        model = await rt.tools_for(provider)
        model.request()
        (left_out,) = model.left_out
        assert left_out.name == "test.probe"
        turn = await model.answer(reply(provider, ModelCall(name=name, arguments={}, call_id="c1")))
        assert not (await rt.call("test.probe", {}, surface=model.surface)).is_error
    (refused,) = turn.results
    if name != "Probe":
        assert (refused.error.error_class, refused.error.error_code) == ("blocked_tool", "model_unsupported")
        assert left_out.message in refused.error.message
    assert refused.is_error
    assert len(probe.executor.inputs) == 1


@pytest.mark.requirement("AT-DEFER-16")
@pytest.mark.parametrize("provider", ["openai", "openai_responses", "anthropic", "gemini"])
@pytest.mark.parametrize("name", NAMES)
async def test_a_tool_that_waits_runs_under_no_name(provider, name, allow, changed):
    probe = changed(scripted_tool("probe", should_defer=True), declaration={"aliases": ("poke",)})
    async with Runtime.open(tools=[probe], rules=allow) as rt:
        model = await rt.tools_for(provider)
        model.request()
        turn = await model.answer(reply(provider, ModelCall(name=name, arguments={}, call_id="c1")))
    assert turn.results[0].error.error_class == ("unknown_tool" if name == "Probe" else "schema_not_loaded")
    assert probe.executor.inputs == []


@pytest.mark.parametrize("provider", ["openai", "openai_responses", "anthropic", "gemini"])
async def test_a_tool_that_was_shown_also_runs_by_the_name_that_a_search_returned(provider, allow):
    async with Runtime.open(tools=[scripted_tool("look.up")], rules=allow) as rt:
        model = await rt.tools_for(provider)
        model.request()
        asked = [ModelCall(name=each, arguments={}, call_id=each) for each in ("look_up", "test.look.up")]
        turn = await model.answer(reply(provider, *asked))
    assert [each.is_error for each in turn.results] == [False, False]
