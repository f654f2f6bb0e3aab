"""When something changes under a surface: it is rebuilt, and the old one offers nothing that is gone."""

import asyncio
import dataclasses

import pytest

from agenttool import Circumstances, ConfigError, ModelCapabilities, Runtime, SurfacePolicy
from agenttool.policy.approvals import Remember
from agenttool.records import EventType, Lifecycle, ToolKind, replace
from agenttool.testing.fakes import scripted_tool

SAFE = {"is_read_only": True, "is_concurrency_safe": True, "is_destructive": False, "is_open_world": False}


def loaded(surface):
    return {each.removeprefix("tool_test.") for each in surface.loaded_tools}


async def test_a_tool_that_went_since_a_surface_was_made_is_not_loaded_on_it(rule):
    tools = [scripted_tool(name, should_defer=True, required_credentials=("vault:key",)) for name in ("one", "two")]
    begin, hiding = Circumstances(credentials=frozenset({"vault:key"})), SurfacePolicy(hide_denied=True)
    async with Runtime.open(tools=tools, circumstances=begin, surface=hiding, approve="wait") as rt:
        surface = await rt.surface()
        for gone in ({"rules": [rule("deny", "test.two")]}, {"credentials": []}):
            await rt.surfaces.change(**gone)
            with pytest.raises(ConfigError, match=r"'test.two' can no longer be loaded; .*gives the reason"):
                await rt.load(["two"], surface=surface)
        recorded = [each.event_type async for each in rt.journal.export() if hasattr(each, "event_type")]
        assert EventType.DEFERRED_LOADED not in recorded


@pytest.fixture(scope="session")
def kinds(changed):
    """Make one tool for each thing that can be there or not."""

    def of_kind(name, kind, **facts):
        return changed(scripted_tool(name, **facts), declaration={"tool_kind": kind, "namespace": f"{name}s"})

    return lambda: [
        scripted_tool("keyed", required_credentials=("vault:key",)),
        scripted_tool("gated", feature_gate_refs=("beta",)),
        scripted_tool("seeing", model_requirements=["media:image"]),
        scripted_tool("writing"),
        of_kind("skill", ToolKind.SKILL_TOOL),
        of_kind("peer", ToolKind.PEER_AGENT_TOOL),
    ]


EVERYTHING = Circumstances(
    credentials=frozenset({"vault:key"}),
    gates=frozenset({"beta"}),
    skills=frozenset({"skills"}),
    peers=frozenset({"peers"}),
    model=ModelCapabilities(media=frozenset({"image"})),
)

EIGHT = {
    "credentials": ({"credentials": []}, {"test.keyed"}),
    "gate": ({"gates": []}, {"test.gated"}),
    "skill": ({"skills": []}, {"skills.skill"}),
    "peer": ({"peers": []}, {"peers.peer"}),
    "model": ({"model": ModelCapabilities()}, {"test.seeing"}),
    "mode": ({"mode": "read_only"}, {"test.keyed", "test.gated", "test.seeing", "test.writing"} | {"skills.skill", "peers.peer"}),
    "workspace": ({"workspace": ["elsewhere"]}, set()),
    "policy": ({"rules": []}, set()),
}  # fmt: skip


@pytest.mark.requirement("AT-SURF-17")
@pytest.mark.parametrize("cause", EIGHT)
async def test_each_of_the_eight_changes_rebuilds_surfaces_and_is_recorded(cause, kinds, allow, records):
    change, gone = EIGHT[cause]
    async with Runtime.open(tools=kinds(), rules=allow, circumstances=EVERYTHING, approve="wait") as rt:
        before = await rt.surface("session")
        renewed = await rt.surfaces.change(**change)
        after = rt.surfaces.current(before)
        events = [each for each in await records(rt, "tool_event") if each["event_type"] == EventType.SURFACE_UPDATED]
    assert renewed == {before.surface_id: after}
    assert after.surface_id != before.surface_id
    assert [(each["data"]["surface_id"], each["data"]["replaces"]) for each in events] == [
        (after.surface_id, before.surface_id)
    ]
    assert after.surface_reason.endswith("changed")
    absent = {each.name for each in (*after.blocked_tools, *after.excluded_tools)}
    assert absent == gone


@pytest.mark.requirement("AT-EVT-04")
async def test_a_surface_is_reported_when_it_is_made_and_when_a_change_of_rules_rebuilds_it(kinds, allow, records):
    async with Runtime.open(tools=kinds(), rules=allow, circumstances=EVERYTHING, approve="wait") as rt:
        before = await rt.surface("session")
        await rt.surfaces.change(rules=[])
        after = rt.surfaces.current(before)
        recorded = [(each["event_type"], each["data"].get("surface_id")) for each in await records(rt, "tool_event")]
    assert [each for each in recorded if each[0].startswith("tool.surface.")] == [
        (EventType.SURFACE_CREATED, before.surface_id),
        (EventType.SURFACE_UPDATED, after.surface_id),
    ]


@pytest.mark.parametrize("cause", [name for name, (_, gone) in EIGHT.items() if gone])
async def test_on_an_old_surface_nothing_can_be_called_that_is_not_there_any_more(cause, kinds, allow, error):
    change, gone = EIGHT[cause]
    tools = {f"{each.declaration.namespace}.{each.declaration.name}": each for each in kinds()}
    async with Runtime.open(tools=tools.values(), rules=allow, circumstances=EVERYTHING, approve="wait") as rt:
        old = await rt.surface("session")
        for name in tools:
            assert (await rt.call(name, {}, surface=old)).status == "succeeded"
        await rt.surfaces.change(**change)
        ended = {name: error(await rt.call(name, {}, surface=old)) for name in tools}
    assert {name for name, ended in ended.items() if ended == "blocked_tool"} == gone
    assert {name for name, tool in tools.items() if len(tool.executor.inputs) == 1} == gone


async def test_what_came_later_is_on_the_current_surface_and_not_on_the_old_one(allow, error):
    tools = [scripted_tool("keyed", required_credentials=("vault:key",)), scripted_tool("plain")]
    async with Runtime.open(tools=tools, rules=allow, approve="wait") as rt:
        old = await rt.surface()
        await rt.surfaces.change(credentials=["vault:key"])
        current = rt.surfaces.current(old)
        assert error(await rt.call("keyed", {}, surface=old)) == "blocked_tool"
        assert (await rt.call("keyed", {}, surface=current)).status == "succeeded"
        assert (await rt.call("plain", {}, surface=old)).status == "succeeded"
    assert (loaded(old), loaded(current)) == ({"plain"}, {"keyed", "plain"})


GONE = {
    "credentials": {"credentials": []},
    "gate": {"gates": []},
    "provider": {"providers": {"test": "unavailable"}},
    "pending provider": {"providers": {"test": "connecting"}},
    "mode": {"mode": "read_only"},
    "model": {"model": ModelCapabilities()},
    "policy": {"rules": "deny"},
}


@pytest.mark.parametrize("cause", GONE)
@pytest.mark.parametrize("is_deferred", [True, False])
async def test_a_search_on_an_old_surface_finds_nothing_that_was_left_out_since(cause, is_deferred, rule, allow):
    facts = {"required_credentials": ("vault:key",), "feature_gate_refs": ("beta",), "should_defer": is_deferred}
    probe = scripted_tool("secret_probe", model_requirements=["media:image"], **facts)
    rest = scripted_tool("open_probe", namespace="rest", should_defer=True, **SAFE)
    change = {"rules": [*allow, rule("deny", "test.secret_probe")]} if cause == "policy" else GONE[cause]
    hiding = SurfacePolicy(hide_denied=True)
    async with Runtime.open(
        tools=[probe, rest], rules=allow, circumstances=EVERYTHING, surface=hiding, approve="wait"
    ) as rt:
        old = await rt.surface("session")
        for query in ("probe", "select:secret_probe"):
            assert "test.secret_probe" in [each.name for each in (await rt.search(query, surface=old)).matches]
        await rt.surfaces.change(**change)
        for surface in (old, rt.surfaces.current(old)):
            for query in ("probe", "secret_probe", "select:secret_probe,tool_test.secret_probe"):
                found = await rt.search(query, surface=surface)
                called = await rt.call("tool_search", {"query": query}, surface=surface)
                assert "test.secret_probe" not in [each.name for each in found.matches]
                assert "test.secret_probe" not in [each["name"] for each in called.structured_content["matches"]]
            words = await rt.search("probe", surface=surface)
            assert [each.name for each in words.matches] == ["rest.open_probe"]
            assert words.total_deferred_tools == 1


async def test_a_tool_that_takes_a_denied_name_is_hidden_whatever_old_surfaces_asked_before(changed, rule):
    late, hiding = scripted_tool("late"), SurfacePolicy(hide_denied=True)
    first = scripted_tool("first", should_defer=True)
    async with Runtime.open(
        tools=[first], rules=[rule("deny", "test.evil", is_optional=True)], surface=hiding, approve="wait"
    ) as rt:
        old = await rt.surface("session")
        await rt.surfaces.change(gates=["beta"])
        rt.declare(changed(first, declaration={"description": "The first one, with another description."}))
        rt.declare(late)
        assert "late" in loaded(await rt.surface("session"))
        await rt.search("first", surface=old)
        rt.declare(changed(late, declaration={"name": "evil"}))
        surface = await rt.surface("session")
        assert "late" not in loaded(surface)
        assert [each.name for each in surface.blocked_tools] == ["test.evil"]
        rt.declare(late)
        assert "late" in loaded(await rt.surface("session"))


@pytest.mark.parametrize("word", ["disabled", "retired", "draft"])
async def test_a_tool_that_its_author_took_back_goes_from_every_surface_at_once(word, changed, allow, error):
    probe, later = scripted_tool("probe"), scripted_tool("later", should_defer=True)
    async with Runtime.open(tools=[probe, later, scripted_tool("rest")], rules=allow, approve="wait") as rt:
        old = await rt.surface("session")
        child = rt.child(old)
        assert (await child.call("probe", {}, surface=old)).status == "succeeded"
        for each in (probe, later):
            rt.declare(changed(each, declaration={"lifecycle": Lifecycle(word)}))
        for runtime in (rt, child):
            refused = await runtime.call("probe", {}, surface=old)
            assert (error(refused), refused.error.error_code) == ("blocked_tool", "feature_disabled")
        assert (await rt.search("probe", surface=old)).matches == ()
        assert (await rt.search("select:probe,later", surface=old)).matches == ()
        with pytest.raises(ConfigError, match="can no longer be loaded"):
            await rt.load(["later"], surface=old)
        assert (await rt.call("rest", {}, surface=old)).status == "succeeded"
        rt.declare(probe)
        assert (await rt.call("probe", {}, surface=await rt.surface())).status == "succeeded"
    assert len(probe.executor.inputs) == 2


async def updates(rt, records):
    """List which surface replaced which, according to events."""
    recorded = [
        each["data"] for each in await records(rt, "tool_event") if each["event_type"] == EventType.SURFACE_UPDATED
    ]
    return [(each["replaces"], each["surface_id"]) for each in recorded]


@pytest.mark.requirement("AT-SURF-17", "AT-EVT-04")
@pytest.mark.parametrize("is_deferred", [True, False])
@pytest.mark.parametrize("by", ["retire", "declare", "provider"])
async def test_surfaces_that_held_a_tool_are_rebuilt_when_it_is_taken_back_and_that_is_recorded(
    by, is_deferred, changed, allow, records
):
    probe = scripted_tool("probe", should_defer=is_deferred)
    async with Runtime.open(tools=[probe, scripted_tool("rest", namespace="other")], rules=allow, approve="wait") as rt:
        held, without = await rt.surface("session"), await rt.surface(only=["rest"])
        child = rt.child(held)
        below = await child.surface()
        if by == "retire":
            rt.retire("test.probe")
        elif by == "declare":
            rt.declare(changed(probe, declaration={"lifecycle": Lifecycle.DISABLED}))
        else:
            await rt.surfaces.change(providers={"test": "unavailable"})
        await asyncio.sleep(0)
        current, current_below = rt.surfaces.current(held), child.surfaces.current(below)
        recorded = await updates(rt, records)
        renewed = {before for before, _ in recorded}
        assert (held.surface_id, current.surface_id) in recorded
        if by != "provider":
            assert without.surface_id not in renewed
            assert current.surface_reason == "test.probe taken back"
            assert not is_deferred or below.surface_id not in renewed  # what waits is not handed on
            absent = {each.name: each.reason.value for each in (*current.blocked_tools, *current.excluded_tools)}
            assert absent["test.probe"] == "feature_disabled"
        assert "tool_test.probe" not in (*current.loaded_tools, *current_below.loaded_tools)
        if not is_deferred:
            assert (below.surface_id, current_below.surface_id) in recorded


@pytest.mark.requirement("AT-SURF-17")
async def test_a_rule_that_a_person_wants_to_be_remembered_rebuilds_surfaces_and_is_recorded(records):
    async with Runtime.open(tools=[scripted_tool("probe")], approve="wait") as rt:
        before = await rt.surface("session")
        child = rt.child(before)
        below = await child.surface()
        calling = asyncio.ensure_future(child.call("probe", {}, surface=below))
        async with asyncio.timeout(60):
            while not (asked := await rt.approvals.list()):  # noqa: ASYNC110 -- there is nothing to wait on
                await asyncio.sleep(0)
        rule = next(each.rule for each in asked[0].suggested_updates if each.rule)
        await rt.approvals.decide(asked[0].approval_id, Remember(rule=rule))
        assert (await calling).status == "succeeded"
        after, after_below = rt.surfaces.current(before), child.surfaces.current(below)
        recorded = await updates(rt, records)
    assert {(before.surface_id, after.surface_id), (below.surface_id, after_below.surface_id)} <= set(recorded)
    assert after.surface_reason == after_below.surface_reason == "policy changed"
    assert len(after.policy_refs) == len(before.policy_refs) + 1


async def test_changes_made_together_rebuild_a_surface_once_and_a_caller_that_asks_has_it_at_once(allow, records):
    tools = [scripted_tool(f"t{number}") for number in range(9)]
    async with Runtime.open(tools=tools, rules=allow, approve="wait") as rt:
        old = await rt.surface()
        for number in range(7):
            rt.retire(f"tool_test.t{number}")
        current = rt.surfaces.current(old)
        assert loaded(current) == {"t7", "t8"}
        assert current.surface_reason == (
            "test.t0 taken back, test.t1 taken back, test.t2 taken back, test.t3 taken back, test.t4 taken back and 2 more"
        )
        await asyncio.sleep(0)
        assert await updates(rt, records) == [(old.surface_id, current.surface_id)]
        with pytest.raises(ConfigError, match="no tool is called 't7'"):
            rt.retire("t7")
        with pytest.raises(ConfigError, match="a sub-agent has the tools that it was given"):
            rt.child(current).retire("test.t7")


async def test_a_tool_is_taken_back_by_its_name_though_another_has_that_as_its_id(allow):
    rogue = scripted_tool("rogue")
    rogue = dataclasses.replace(
        rogue,
        declaration=replace(rogue.declaration, tool_id="test.pay"),
        interface=replace(rogue.interface, tool_id="test.pay"),
    )
    async with Runtime.open(tools=[scripted_tool("pay"), rogue], rules=allow, approve="wait") as rt:
        rt.retire("test.pay")
        assert (await rt.surface()).loaded_tools == (rogue.declaration.tool_id,)


async def test_new_rules_hold_for_the_next_call_on_any_surface(rule, allow, error):
    async with Runtime.open(tools=[scripted_tool("pay")], rules=allow, approve="wait") as rt:
        surface = await rt.surface()
        assert (await rt.call("pay", {}, surface=surface)).status == "succeeded"
        await rt.surfaces.change(rules=[rule("deny", "test.pay")])
        assert error(await rt.call("pay", {}, surface=surface)) == "permission_denied"


async def test_a_loaded_tool_stays_loaded_when_the_surface_is_rebuilt():
    tools = [scripted_tool("waiting", should_defer=True), scripted_tool("other", should_defer=True)]
    async with Runtime.open(tools=tools, approve="wait") as rt:
        surface = await rt.load(["waiting"], surface=await rt.surface())
        await rt.surfaces.change(gates=["beta"])
        current = rt.surfaces.current(surface)
    assert loaded(current) >= {"waiting"}
    assert [each.name for each in current.deferred_tools] == ["other"]


async def test_a_change_above_reaches_the_sub_agents_below(allow, error):
    tools = [scripted_tool("keyed", required_credentials=("vault:key",)), scripted_tool("writing")]
    have = Circumstances(credentials=frozenset({"vault:key"}))
    async with Runtime.open(tools=tools, rules=allow, circumstances=have, approve="wait") as rt:
        above = await rt.surface()
        child = rt.child(above)
        below = await child.surface()
        await rt.surfaces.change(credentials=[])
        assert error(await child.call("keyed", {}, surface=below)) == "blocked_tool"
        assert error(await child.call("keyed", {}, surface=above)) == "blocked_tool"
        assert loaded(child.surfaces.current(below)) == {"writing"}
        await child.surfaces.change(credentials=["vault:key"])
        assert loaded(child.surfaces.current(below)) == {"writing"}
        await rt.surfaces.change(mode="read_only")
        assert error(await child.call("writing", {}, surface=below)) == "blocked_tool"


async def test_a_call_under_way_is_not_disturbed(allow):
    proceed, begun = asyncio.Event(), asyncio.Event()

    async def slow(job):
        begun.set()
        await proceed.wait()
        return "done"

    tool = scripted_tool("keyed", slow, required_credentials=("vault:key",))
    have = Circumstances(credentials=frozenset({"vault:key"}))
    async with Runtime.open(tools=[tool], rules=allow, circumstances=have, approve="wait") as rt:
        calling = asyncio.ensure_future(rt.call("keyed", {}, surface=await rt.surface()))
        await begun.wait()
        await rt.surfaces.change(credentials=[])
        proceed.set()
        assert (await calling).status == "succeeded"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"credentials": "key"}, "credentials must be a list"),
        ({"gates": None}, "gates must be a list"),
        ({"mode": "yolo"}, "no permission mode is called 'yolo'"),
        ({"rules": ["allow"]}, "rules must hold Rules or tables, got a str"),
        ({"providers": {"a": "asleep"}}, "no provider can be 'asleep'"),
        ({"providers": ["a"]}, "providers must be states by namespace"),
        ({"has_browser": "yes"}, "has_browser must be true, false or none"),
        ({"model": "gpt"}, "model must be ModelCapabilities"),
        ({"weather": "rain"}, "nothing called 'weather' can change"),
    ],
)
async def test_an_invalid_change_is_refused_and_changes_nothing(changes, message):
    async with Runtime.open(tools=[scripted_tool("plain", **SAFE)], approve="wait") as rt:
        surface = await rt.surface()
        with pytest.raises(ConfigError, match=message):
            await rt.surfaces.change(**{"mode": "read_only", **changes})
        assert rt.surfaces.current(surface) == surface
        assert (await rt.surface()).role_constraints["allows_writes"] is True
