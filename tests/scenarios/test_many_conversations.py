"""More conversations than a runtime keeps surfaces of: none of them loses what it had, and none gains by it."""

import pytest

from agenttool import Circumstances, ConfigError, Runtime
from agenttool.catalog.surface_store import MAX_SURFACES
from agenttool.testing.fakes import scripted_tool
from agenttool.testing.replies import ModelCall, reply

KEY = Circumstances(credentials=frozenset({"vault:key"}))


async def push_out(rt):
    """Begin as many other conversations as it takes for the first to be put away."""
    for _ in range(MAX_SURFACES + 1):
        await rt.surface("session")


async def test_the_oldest_of_very_many_conversations_continues(allow):
    tools = [scripted_tool("look"), scripted_tool("found", should_defer=True)]
    async with Runtime.open(tools=tools, rules=allow) as rt:
        model = await rt.tools_for("openai", native_search=False)
        await model.load(["found"])
        request = model.request()
        await push_out(rt)
        again = await rt.tools_for("openai", surface=model.surface, native_search=False)
        assert again.request() == request
        turn = await model.answer(reply("openai", ModelCall(name="found", arguments={}, call_id="call_1")))
    assert [each.status for each in turn.results] == ["succeeded"]


async def test_every_door_takes_a_surface_that_was_put_away(allow):
    tools = [scripted_tool("look"), scripted_tool("later", should_defer=True)]
    async with Runtime.open(tools=tools, rules=allow) as rt:
        surfaces = [await rt.surface("session") for _ in range(5)]
        await push_out(rt)
        found = await rt.search("select:later", surface=surfaces[0])
        loaded = await rt.load(["later"], surface=surfaces[1])
        current = rt.surfaces.current(surfaces[2])
        child = rt.child(surfaces[3])
        offered = rt.surfaces.offered(surfaces[4])
        assert not (await child.call("look", {}, surface=surfaces[3])).is_error
    assert [each.name for each in found.matches] == ["test.later"]
    assert "tool_test.later" in loaded.loaded_tools
    assert (current.surface_id, current.loaded_tools) == (surfaces[2].surface_id, surfaces[2].loaded_tools)
    assert [each.name for each in offered] == ["look", "tool_search", "later"]


async def test_what_came_since_it_was_put_away_is_on_the_current_surface_and_not_on_the_old_one(allow, error):
    keyed = scripted_tool("keyed", required_credentials=("vault:key",))
    async with Runtime.open(tools=[keyed, scripted_tool("look")], rules=allow) as rt:
        old = await rt.surface("session")
        await push_out(rt)
        rt.declare(scripted_tool("new"))
        await rt.surfaces.change(credentials=["vault:key"])
        refused = [await rt.call(name, {}, surface=old) for name in ("keyed", "new")]
        current = rt.surfaces.current(old)
        ran = [await rt.call(name, {}, surface=current) for name in ("keyed", "new")]
    assert [(error(each), each.error.error_code) for each in refused] == [("blocked_tool", "later_surface")] * 2
    assert [each.status for each in ran] == ["succeeded"] * 2
    assert current.surface_reason == "the situation changed while it was archived"


async def test_what_went_since_it_was_put_away_is_gone_there_too(allow, error):
    keyed = scripted_tool("keyed", required_credentials=("vault:key",))
    async with Runtime.open(tools=[keyed], rules=allow, circumstances=KEY) as rt:
        old = await rt.surface("session")
        await push_out(rt)
        await rt.surfaces.change(credentials=[])
        assert error(await rt.call("keyed", {}, surface=old)) == "blocked_tool"
    assert keyed.executor.inputs == []


async def test_a_surface_that_was_replaced_before_it_was_put_away_still_leads_to_the_current_one(allow):
    async with Runtime.open(tools=[scripted_tool("look")], rules=allow) as rt:
        old = await rt.surface("session")
        for gate in ("one", "two", "three"):
            await rt.surfaces.change(gates=[gate])
        newest = rt.surfaces.current(old)
        await push_out(rt)
        assert rt.surfaces.current(old) == newest


async def test_a_narrow_surface_is_made_again_as_narrow_as_it_was(allow, error):
    tools = [scripted_tool("look"), scripted_tool("pay")]
    async with Runtime.open(tools=tools, rules=allow) as rt:
        narrow = await rt.surface("session", only=["look"])
        child = rt.child(narrow)
        own = await child.surface("session")
        await push_out(rt)
        await push_out(child)
        for runtime, surface in ((rt, narrow), (child, narrow), (child, own)):
            assert error(await runtime.call("pay", {}, surface=surface)) == "blocked_tool"
            assert not (await runtime.call("look", {}, surface=surface)).is_error


async def test_nothing_is_made_again_once_a_runtime_is_closed(allow):
    async with Runtime.open(tools=[scripted_tool("look")], rules=allow) as rt:
        old = await rt.surface("session")
        await push_out(rt)
    assert (await rt.call("look", {}, surface=old)).is_error
    with pytest.raises(ConfigError, match="closed; open another"):
        rt.surfaces.offered(old)
