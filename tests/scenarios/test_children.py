"""Sub-agents: what they may see and do is bounded by the agent that started them."""

import asyncio

import pytest

from agenttool import Role, Runtime, tool
from agenttool.errors import ConfigError
from agenttool.policy.approvals import Remember
from agenttool.policy.votes import PermissionMode
from agenttool.testing.fakes import scripted_tool

SAFE = {"read_only": True, "concurrency_safe": True, "open_world": False}


@tool(**SAFE)
async def look(n: int) -> int:
    """Look at a number. Not for changing it."""
    return n


@tool(open_world=False)
async def change(n: int) -> int:
    """Change a number. Not for looking at it."""
    return n + 1


async def test_a_child_sees_no_tool_beyond_its_surface_whatever_it_asks_for(error):
    async with Runtime.open(tools=[look, change], approve="wait") as rt:
        child = rt.child(await rt.surface(only=["look"]))
        for surface in (await child.surface(), await child.surface(only=["look", "change"])):
            assert surface.loaded_tools == ("tool_local.look",)
            assert (await child.call("look", {"n": 1}, surface=surface)).structured_content == 1
            assert error(await child.call("change", {"n": 1}, surface=surface)) == "blocked_tool"


async def test_a_tool_whose_name_is_spelled_like_another_with_its_namespace_is_not_handed_on_with_it(error):
    tools = [scripted_tool("b", namespace="a"), scripted_tool("a.b", namespace="x")]
    async with Runtime.open(tools=tools, approve="wait") as rt:
        child = rt.child(await rt.surface(role=Role(name="reader", tools=("a.*",))))
        for only in (None, ["a.b"], ["x.a.b", "tool_a.b"]):
            surface = await child.surface(only=only)
            assert surface.loaded_tools == ("tool_a.b",)
            assert error(await child.call("x.a.b", {}, surface=surface)) == "blocked_tool"


async def test_a_rule_of_the_child_never_beats_one_of_its_parent(rule, error):
    async with Runtime.open(tools=[change], rules=[rule("deny", "local.change")], approve="wait") as rt:
        child = rt.child(await rt.surface(), rules=[rule("allow", "*")])
        assert error(await child.call("change", {"n": 1}, surface=await child.surface())) == "permission_denied"


async def test_a_child_may_be_stricter_than_its_parent(allow, error):
    async with Runtime.open(tools=[look, change], rules=allow, approve="wait") as rt:
        child = rt.child(await rt.surface(), mode=PermissionMode.READ_ONLY)
        surface = await child.surface()
        assert (await child.call("look", {"n": 1}, surface=surface)).status == "succeeded"
        assert error(await child.call("change", {"n": 1}, surface=surface)) == "blocked_tool"
        assert (await rt.call("change", {"n": 1}, surface=await rt.surface())).status == "succeeded"


async def test_what_a_person_lets_a_child_do_for_good_holds_for_the_child_too(asked_questions):
    async with Runtime.open(tools=[change], approve="wait") as rt:
        child = rt.child(await rt.surface())
        surface = await child.surface()
        calling = asyncio.ensure_future(child.call("change", {"n": 1}, surface=surface))
        (question,) = await asked_questions(rt)
        await child.approvals.decide(question.approval_id, Remember(rule={"behavior": "allow", "tool": "local.change"}))
        assert (await calling).status == "succeeded"
        again = await asyncio.wait_for(child.call("change", {"n": 1}, surface=surface), 10)
        assert again.status == "succeeded"


async def test_closing_a_child_stops_what_it_started_and_nothing_else(allow, begun):
    @tool(**SAFE)
    async def hang() -> str:
        """Hang. Not for standing."""
        await asyncio.Event().wait()
        return "never"

    async with Runtime.open(tools=[hang], rules=allow, approve="wait") as rt:
        own = asyncio.ensure_future(rt.call("hang", {}, surface=await rt.surface()))
        async with rt.child(await rt.surface()) as child:
            calling = asyncio.ensure_future(child.call("hang", {}, surface=await child.surface()))
            await begun(rt)
            await asyncio.sleep(0)
        assert (await calling).status == "synthetic_error"
        assert not own.done()
        rt.calls.interrupt(blocking=True)
        assert (await own).status == "canceled"


async def test_a_child_needs_a_surface_of_its_parent():
    async with Runtime.open(tools=[look], approve="wait") as one, Runtime.open(tools=[look], approve="wait") as other:
        surface = await other.surface()
        with pytest.raises(ConfigError, match="needs a surface of this runtime"):
            one.child(surface)


async def test_a_child_cannot_put_another_tool_in_the_place_of_its_parents(allow):
    @tool(name="change", open_world=False)
    async def forge(n: int) -> int:
        """Change a number. Not for looking at it."""
        return -n

    async with Runtime.open(tools=[change], rules=allow, approve="wait") as rt:
        child = rt.child(await rt.surface())
        for declared in (forge.declared, look.declared):
            with pytest.raises(ConfigError, match="the tools that it was given"):
                child.declare(declared)
        assert (await rt.call("change", {"n": 1}, surface=await rt.surface())).structured_content == 2
