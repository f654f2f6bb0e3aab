"""The runtime's own door: surfaces of others, wrong objects, and calls to a runtime that is closed."""

import asyncio

import pytest

from agenttool import AgentToolError, ConfigError, Runtime, ToolCall, sync, tool
from agenttool.catalog.surface_store import MAX_SURFACES
from agenttool.hooks.definition import Hook
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, HookEvent, RuleSource, replace

DENY = {"ref": "no", "behavior": Behavior.DENY, "source": RuleSource.CLI_ARG}


@tool(read_only=True, open_world=False)
async def add(a: int, b: int = 1) -> int:
    """Add two numbers. Not for text."""
    return a + b


@tool(approval_required=True)
async def pay() -> str:
    """Pay. Not for refunds."""
    return "paid"


async def test_a_surface_of_another_runtime_or_what_is_no_surface_leads_nowhere(sound):
    async with Runtime.open(tools=[add], approve="wait") as ours, Runtime.open(tools=[add], approve="wait") as theirs:
        own, foreign = await ours.surface(), await theirs.surface()
        for surface in (foreign, replace(own, surface_id="srf_forged"), 0, ""):
            result = await ours.call("add", {"a": 1}, surface=surface)
            assert result.error.error_class == "unknown_tool"
            assert "surface(...)" in result.error.message
            assert ("it is from another runtime" in result.error.message) is (surface not in (0, ""))
            assert (await ours.journal.invocation(result.invocation_id)).surface_id is None, "it is unknown here"
        await sound(ours)


async def test_a_surface_that_was_changed_is_read_from_the_runtimes_own_copy():
    async with Runtime.open(tools=[add, pay], approve="wait") as runtime:
        narrow = await runtime.surface(only=["add"])
        forged = replace(narrow, loaded_tools=("tool_local.pay",), excluded_tools=())
        result = await runtime.call("pay", {}, surface=forged)
    assert (result.error.error_class, result.error.error_code) == ("blocked_tool", "role_not_allowed")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"tools": None}, "tools must be a list"),
        ({"tools": add}, "tools must be a list"),
        ({"tools": "add"}, "not a tool"),
        ({"tools": [None]}, "not a tool"),
        ({"tools": [int]}, "not a function"),
        ({"tools": [lambda x: x]}, "no annotation"),
        ({"tools": [add, add]}, "two tools have the id"),
        ({"rules": None}, "rules must be a list"),
        ({"rules": 5}, "rules must be a list"),
        ({"rules": [{"behaviour": "deny", "tool": "*"}]}, "rules:1: a rule has no 'behaviour'"),
        ({"rules": Rule(**DENY, tools=("*",))}, "rules must be a list"),
        ({"rules": b"agenttool.toml"}, "rules must hold Rules or tables"),
        ({"hooks": None}, "hooks must be a list"),
        ({"hooks": [lambda _: None]}, "hooks must hold Hooks only, got a function"),
        ({"hooks": Hook(name="h", event=HookEvent.PRE_TOOL_USE, runner=None)}, "hooks must be a list"),
        ({"mode": "yolo"}, "no permission mode is called 'yolo'"),
        ({"mode": 5}, "no permission mode is called 5"),
        ({"mode": ""}, "no permission mode is called ''"),
        ({"approve": "no"}, "approve must be a function"),
        ({"store": "nowhere://"}, "no store answers to"),
    ],
    ids=lambda value: None if isinstance(value, dict) else str(value)[:40],
)
async def test_a_runtime_that_is_opened_with_rubbish_says_what_is_wrong(options, problem):
    with pytest.raises(ConfigError, match=problem.replace("(", r"\(")):
        Runtime.open(**{"tools": [add], **options})


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"tools": "local.add"}, "tools must be a tuple of str"),
        ({"tools": ["local.add"]}, "tools must be a tuple of str"),
        ({"tools": (None,)}, "tools must be a tuple of str"),
        ({"commands": ("rm",)}, "commands must be a tuple of CommandPattern"),
        ({"paths": ("/etc",)}, "paths must be a tuple of PathPattern"),
        ({"urls": "https://example.com"}, "urls must be a tuple of UrlPattern"),
        ({"behavior": "dney"}, "must say allow, ask or deny, got 'dney'"),
        ({"behavior": None}, "must say allow, ask or deny"),
        ({"behavior": Behavior.PASSTHROUGH}, "must say allow, ask or deny"),
    ],
)
def test_a_rule_that_would_silently_hold_of_nothing_is_refused(fields, problem):
    with pytest.raises(ConfigError, match=problem):
        Rule(**{**DENY, **fields})


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"sensitive": "password"}, "sensitive of pay.* must be a list of texts"),
        ({"read_only": "no"}, "read_only of pay.* must be true or false"),
        ({"approval_required": 1}, "approval_required of pay.* must be true or false"),
        ({"risk": "huge"}, "one of low, medium, high, critical"),
        ({"access": "network"}, "access of pay.* must be a list"),
        ({"timeout_s": 0}, "seconds above 0"),
        ({"timeout_s": float("nan")}, "seconds above 0"),
        ({"timeout_s": "5"}, "seconds above 0"),
        ({"name": 5}, "name of pay.* must be text"),
        ({"name": "a b"}, "letters, digits"),
        ({"description": "\ud800"}, "description of pay.* must be text"),
        ({"locks": 5}, "locks of pay.* must be a function"),
        ({"max_inline_chars": -1}, "a whole number, 0 or more"),
    ],
    ids=str,
)
def test_an_option_with_a_value_that_makes_no_sense_is_refused(options, problem):
    with pytest.raises(ConfigError, match=problem):
        tool(**options)(pay.function)


async def test_calls_that_depend_on_what_is_not_there_are_refused_before_anything_runs():
    ran = []

    @tool(read_only=True, open_world=False)
    async def note() -> str:
        """Note that it ran. Not for secrets."""
        ran.append(1)
        return "noted"

    async with Runtime.open(tools=[note], approve="wait") as runtime:
        surface = await runtime.surface()
        for wrong in ((0,), (7,), (-1,), ("x",), (1,)):
            calls = [
                ToolCall(name="note", arguments={}, depends_on=wrong),
                ToolCall(name="note", arguments={}, depends_on=(0,)),
            ]
            results = await runtime.batch(calls, surface=surface)
            assert all("correct depends_on" in result.error.message for result in results)
    assert ran == []


async def test_in_a_batch_rubbish_fails_alone(sound):
    async with Runtime.open(tools=[add], approve="wait") as runtime:
        calls = [
            ToolCall(name="add", arguments=None),
            ToolCall(name=None, arguments={}),
            ToolCall(name="add", arguments={"a": 1}),
            ToolCall(name="add", arguments=b"\xff"),
        ]
        results = await runtime.batch(calls, surface=await runtime.surface())
        await sound(runtime)
    assert [result.is_error for result in results] == [True, True, False, True]


async def test_no_call_is_found_by_an_unknown_id():
    async with Runtime.open(tools=[add], approve="wait") as runtime:
        for unknown_id in ("inv_nowhere", "", None, 5):
            assert await runtime.journal.invocation(unknown_id) is None
            assert await runtime.cancel(unknown_id) is False


def test_a_sync_door_that_is_closed_says_so_and_does_not_hang():
    with sync.open(tools=[add], approve="wait") as runtime:
        surface = runtime.surface()
    with pytest.raises(ConfigError, match="closed; open another"):
        runtime.call("add", {"a": 1}, surface=surface)


async def test_a_call_after_the_end_is_rejected():
    async with Runtime.open(tools=[add], approve="wait") as runtime:
        surface = await runtime.surface()
    result = await runtime.call("add", {"a": 1}, surface=surface)
    assert (result.status, result.abort_reason) == ("synthetic_error", "runtime_shutdown")


async def test_a_call_after_the_end_asks_for_no_approval():
    async with Runtime.open(tools=[pay], approve="wait") as runtime:
        surface = await runtime.surface()
    async with asyncio.timeout(60):
        result = await runtime.call("pay", {}, surface=surface)
    assert result.abort_reason == "runtime_shutdown"


@pytest.mark.parametrize("surface", ["srf_1", {}, False, 5], ids=str)
async def test_a_surface_that_is_none_is_a_result(surface):
    async with Runtime.open(tools=[add], approve="wait") as runtime:
        result = await runtime.call("add", {"a": 1}, surface=surface)
    assert result.error.error_class == "unknown_tool"


@pytest.mark.parametrize(
    "misuse",
    [
        lambda runtime: runtime.surface(None),
        lambda runtime: runtime.surface(only="add"),
        lambda runtime: runtime.surface(only=5),
        lambda runtime: runtime.batch(None),
        lambda runtime: runtime.batch([{"name": "add"}]),
        lambda runtime: anext(runtime.journal.events(after="x")),
    ],
    ids=["scope", "only a text", "only a number", "batch of none", "batch of dicts", "events after a text"],
)
async def test_a_wrong_object_is_refused_with_an_error_of_ours(misuse):
    async with Runtime.open(tools=[add], approve="wait") as runtime:
        with pytest.raises(AgentToolError):
            await misuse(runtime)


@pytest.mark.parametrize("ref", ["\ud800", 5, ...], ids=repr)
@pytest.mark.parametrize("name", ["native_call_id", "actor_ref"])
async def test_a_ref_that_cannot_be_written_spoils_no_export(sound, name, ref):
    async with Runtime.open(tools=[add], approve="wait") as runtime:
        await runtime.call("add", {"a": 1}, surface=await runtime.surface(), **{name: ref})
        await sound(runtime)


async def test_a_schema_with_a_huge_number_spoils_no_export(sound):
    @tool(examples=[{"n": 2**60}])
    async def count(n: int) -> int:
        """Count far. Not for text."""
        return n

    async with Runtime.open(tools=[count], approve="wait") as runtime:
        await sound(runtime)


async def test_of_very_many_surfaces_the_oldest_are_put_away_and_made_again_when_they_are_used(sound):
    async with Runtime.open(tools=[add], approve="wait") as runtime:
        lasting, oldest = await runtime.surface("session"), await runtime.surface()
        for _ in range(MAX_SURFACES):
            latest = await runtime.surface()
        assert len(runtime._surfaces.by_id) == MAX_SURFACES
        results = [await runtime.call("add", {"a": 1}, surface=each) for each in (lasting, oldest, latest)]
        made_on = [(await runtime.journal.invocation(result.invocation_id)).surface_id for result in results]
        assert len(runtime._surfaces.by_id) == MAX_SURFACES
        await sound(runtime)
    assert [result.is_error for result in results] == [False, False, False]
    assert made_on == [lasting.surface_id, oldest.surface_id, latest.surface_id]


async def test_a_surface_that_no_runtime_here_has_made_says_what_to_do_next():
    async with Runtime.open(tools=[add], approve="wait") as runtime, Runtime.open(tools=[add], approve="wait") as other:
        result = await runtime.call("add", {"a": 1}, surface=await other.surface())
    assert result.error.error_code == "unknown_surface"
    assert "create a new one" in result.error.message


async def test_a_surface_that_a_call_is_using_is_not_forgotten(asked):
    async with Runtime.open(tools=[add, pay], approve="wait") as runtime:
        used = await runtime.surface()
        waiting = asyncio.ensure_future(runtime.call("pay", {}, surface=used))
        (question,) = await asked(runtime)
        for _ in range(MAX_SURFACES):
            await runtime.surface()
        assert not (await runtime.call("add", {"a": 1}, surface=used)).is_error
        await runtime.approvals.decide(question.approval_id, "allow")
        assert not (await waiting).is_error


async def test_a_closed_runtime_takes_no_tools_and_makes_no_surfaces():
    async with Runtime.open(tools=[add], approve="wait") as runtime:
        child = runtime.child(await runtime.surface())
    for closed in (runtime, child):
        with pytest.raises(ConfigError, match="closed; open another"):
            await closed.surface()
    with pytest.raises(ConfigError, match="closed; open another"):
        runtime.declare(pay.declared)


async def test_a_child_that_closes_leaves_its_parent_open_and_never_leaves_its_own_surface():
    async with Runtime.open(tools=[add, pay], approve="wait") as runtime:
        wide, narrow = await runtime.surface(), await runtime.surface(only=["add"])
        async with runtime.child(narrow) as child:
            inside = await child.call("add", {"a": 1}, surface=narrow)
            outside = await child.call("pay", {}, surface=wide)
        after = await runtime.call("add", {"a": 1}, surface=wide)
    assert [each.is_error for each in (inside, outside, after)] == [False, True, False]
    assert outside.error.error_code == "unknown_surface"


async def test_a_name_of_a_caller_that_cannot_be_written_is_reported_in_a_result():
    async with Runtime.open(tools=[add], approve="wait") as runtime:
        result = await runtime.call("add", {"a": 1}, surface=await runtime.surface(), actor_ref=5)
    assert result.error.message == "actor_ref must be text in Unicode, got int; correct it, or leave it out"
