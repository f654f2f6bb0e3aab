"""Laws about surfaces: a sub-agent never gets more than the agent that started it, and every tool has exactly one visibility."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from agenttool import Circumstances, ModelCapabilities, Role, Runtime, SurfacePolicy
from agenttool.policy.rules import Rule
from agenttool.policy.votes import PermissionMode
from agenttool.records import Behavior, RuleSource
from agenttool.testing.fakes import scripted_tool

WORDS = ("a", "b")
ALLOW = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]
NAMES = [f"t{number}" for number in range(6)]

some = st.sampled_from([frozenset(WORDS), frozenset({"a"}), frozenset()])
needed = st.sampled_from([(), (), ("a",), ("b",)])
facts = st.fixed_dictionaries(
    {
        "required_credentials": needed,
        "feature_gate_refs": needed,
        "model_requirements": st.sampled_from([[], [], ["media:a"]]),
        "is_read_only": st.booleans(),
        "requires_user_interaction": st.sampled_from([False, False, True]),
        "should_defer": st.sampled_from([False, False, True]),
        "always_load": st.sampled_from([False, False, True]),
        "is_enabled": st.sampled_from([True, True, False]),
    }
)
circumstances = st.fixed_dictionaries({"credentials": some.map(sorted), "gates": some.map(sorted)})
context = st.fixed_dictionaries(
    {
        "only": st.none() | st.lists(st.sampled_from(NAMES), min_size=4),
        "role": st.none() | st.builds(Role, name=st.just("r"), without=st.sampled_from([(), ("test.t1", "test.t2")])),
        "model": st.none() | st.builds(ModelCapabilities, media=some),
    }
)
modes = st.sampled_from([None, PermissionMode.READ_ONLY, PermissionMode.DEFAULT])


def listed(surface):
    return {
        "loaded": set(surface.loaded_tools),
        "deferred": {each.tool_id for each in surface.deferred_tools},
        "blocked": {each.tool_id for each in surface.blocked_tools},
        "excluded": {each.tool_id for each in surface.excluded_tools},
        "unoffered": {each.tool_id for each in surface.unoffered_tools},
    }


async def callable_on(runtime, surface):
    results = {name: await runtime.call(name, {}, surface=surface) for name in NAMES}
    return {name for name, result in results.items() if result.status == "succeeded"}


@given(
    tools=st.lists(facts, min_size=len(NAMES), max_size=len(NAMES)),
    limit=st.sampled_from([None, 2]),
    here=circumstances,
    given_on=context,
    mode=modes,
    interactive=st.booleans(),
    asked=context,
    change=circumstances,
    child_change=circumstances,
    retired=st.none() | st.sampled_from(NAMES),
)
def test_a_sub_agent_never_sees_or_calls_more_than_the_surface_it_was_given(
    *, tools, limit, here, given_on, mode, interactive, asked, change, child_change, retired
):
    async def scenario():
        made = [scripted_tool(name, **facts) for name, facts in zip(NAMES, tools, strict=True)]
        begin = Circumstances(**{name: frozenset(words) for name, words in here.items()})
        async with Runtime.open(
            tools=made, rules=ALLOW, surface=SurfacePolicy(max_tools=limit), circumstances=begin
        ) as rt:
            above = await rt.surface(**given_on)
            most = {each.removeprefix("tool_test.") for each in above.loaded_tools}
            child = rt.child(above, mode=mode, interactive=interactive)
            below = await child.surface(**asked)
            await child.surfaces.change(**child_change)
            for surface in (above, below, child.surfaces.current(below)):
                assert await callable_on(child, surface) <= most
            assert set(below.loaded_tools) <= set(above.loaded_tools)
            assert below.deferred_tools == ()
            await rt.surfaces.change(**change)
            if retired is not None:
                rt.retire(f"test.{retired}")
            left = await callable_on(rt, above)
            assert retired not in left
            for surface in (above, below, child.surfaces.current(below)):
                assert await callable_on(child, surface) <= left
                found = await child.search("select:" + ",".join(NAMES), surface=surface)
                assert {each.name.removeprefix("test.") for each in found.matches} <= left

    asyncio.run(asyncio.wait_for(scenario(), 60))


@given(tools=st.lists(facts, min_size=len(NAMES), max_size=len(NAMES)), here=circumstances, asked=context)
def test_every_tool_is_in_exactly_one_list_and_only_what_is_loaded_can_be_called(tools, here, asked):
    async def scenario():
        made = [scripted_tool(name, **facts) for name, facts in zip(NAMES, tools, strict=True)]
        begin = Circumstances(**{name: frozenset(words) for name, words in here.items()})
        async with Runtime.open(tools=made, rules=ALLOW, circumstances=begin) as rt:
            surface = await rt.surface(**asked)
            lists = listed(surface)
            together = [tool_id for ids in lists.values() for tool_id in ids]
            assert sorted(each for each in together if "tool_search" not in each) == [f"tool_test.{n}" for n in NAMES]
            assert len(together) == len(set(together))
            assert set(surface.tool_refs) == lists["loaded"] | lists["deferred"]
            assert {f"tool_test.{name}" for name in await callable_on(rt, surface)} == {
                each for each in lists["loaded"] if "tool_search" not in each
            }
            for entry in (*surface.blocked_tools, *surface.excluded_tools):
                assert entry.reason.is_listed
                assert entry.may_change is bool(entry.would_change)

    asyncio.run(asyncio.wait_for(scenario(), 60))
