"""The words that records use are the standard's, and what a declaration refers to is there."""

import asyncio

import pytest

from agenttool import ConfigError, Context, RecordError, Runtime, ToolCall, tool
from agenttool.records import (
    ErrorClass,
    EventType,
    ExecutionKind,
    InvocationStatus,
    Lifecycle,
    ProgressStatus,
    ReasonType,
    ResultStatus,
    SchedulerPolicy,
    SiblingFailurePolicy,
    ToolKind,
)
from agenttool.schema.compile import Checker
from agenttool.testing.fakes import scripted_tool


@tool(examples=[{"a": 1, "b": 2}], read_only=True, concurrency_safe=True, open_world=False)
async def add(a: int, b: int = 1) -> int:
    """Add two whole numbers. Not for text."""
    return a + b


@tool
async def bake(context: Context, loaves: int = 1) -> str:
    """Bake bread. Not for cakes."""
    for loaf in range(loaves):
        context.progress(f"loaf {loaf + 1}")
        await asyncio.sleep(0)
    context.partial("one loaf")
    return "bread"


async def a_long_day(rule, hook, asked_questions, sound_export):
    """Calls that end in many different ways, and everything that is recorded of them."""

    async def fail(job):
        raise ValueError("as asked")

    async def hang(job):
        await asyncio.Event().wait()

    tools = [
        add,
        bake,
        scripted_tool("fail", fail),
        scripted_tool("hang", hang, timeout_ms=10),
        scripted_tool("denied"),
        scripted_tool("asked"),
        scripted_tool("hinted"),
        scripted_tool("deferred", should_defer=True),
        scripted_tool("off", is_enabled=False),
        scripted_tool("large", max_inline_chars=1),
        scripted_tool("dropped", max_inline_chars=1, persistence_policy_ref="drop_with_reason"),
    ]
    rules = [
        *(rule("allow", f"*.{name}") for name in ("bake", "fail", "hang", "large", "dropped")),
        rule("deny", "*.denied"),
    ]
    advisor = hook({"permission_result": "deny"}, tools=("*.hinted",))
    async with Runtime.open(tools=tools, rules=rules, hooks=[advisor], approve="wait") as rt:
        surface = await rt.surface()
        for name in (
            "add",
            "bake",
            "fail",
            "hang",
            "denied",
            "hinted",
            "deferred",
            "off",
            "large",
            "dropped",
            "nobody",
        ):
            await rt.call(name, {"a": 1} if name == "add" else {}, surface=surface)
        await rt.call("add", {"a": "x"}, surface=surface)
        waiting = asyncio.ensure_future(rt.call("asked", {}, surface=surface))
        (question,) = await asked_questions(rt)
        await rt.approvals.decide(question.approval_id, "deny")
        await waiting
        policy = SchedulerPolicy(scheduler_policy_id="s", sibling_failure_policy=SiblingFailurePolicy.CANCEL_DEPENDENT)
        pair = [ToolCall(name="fail", arguments={}), ToolCall(name="bake", arguments={}, depends_on=(0,))]
        await rt.batch(pair, surface=surface, policy=policy)
        return await sound_export(rt)


@pytest.mark.requirement(
    "AT-DECL-02", "AT-DECL-18", "AT-EXEC-02", "AT-INV-07", "AT-RES-04", "AT-ERR-02", "AT-EVT-02", "AT-PERM-19",
    "AT-PROG-05",
)  # fmt: skip
async def test_every_word_of_a_long_day_is_one_of_the_standards(rule, hook, asked_questions, sound_export):
    exported = await a_long_day(rule, hook, asked_questions, sound_export)
    of = {}
    for record in exported:
        of.setdefault(record["record_type"], []).append(record)

    def words(kind, read):
        return {read(record) for record in of[kind]}

    errors = {each["error"]["error_class"] for each in of["tool_result"] if "error" in each}
    moves = {move["status"] for each in of["tool_invocation"] for move in each["status_transitions"]}
    reasons = words("tool_permission_decision", lambda each: each["reason"]["type"])
    assert {each["schema_version"] for each in exported} == {"0.2.0"}
    for seen, listed, at_least in (
        (words("tool_declaration", lambda each: each["tool_kind"]), ToolKind, 1),
        (words("tool_execution_profile", lambda each: each["execution_kind"]), ExecutionKind, 1),
        (moves, InvocationStatus, 14),
        (words("tool_result", lambda each: each["status"]), ResultStatus, 7),
        (errors, ErrorClass, 10),
        (words("tool_event", lambda each: each["event_type"]), EventType, 18),
        (reasons, ReasonType, 4),
        (words("tool_progress", lambda each: each["status"]), ProgressStatus, 2),
    ):
        assert seen <= {each.value for each in listed}
        assert len(seen) >= at_least, seen
    for event in of["tool_event"]:
        if EventType(event["event_type"]).concerns_a_call:
            assert event["invocation_id"]
            assert event["tool_id"]


@pytest.mark.requirement("AT-DECL-11")
async def test_an_unlisted_lifecycle_is_refused_at_registration(changed):
    odd = changed(scripted_tool("odd"), declaration={"lifecycle": "whenever"})
    assert "whenever" not in list(Lifecycle)
    with pytest.raises(ConfigError, match="lifecycle"):
        Runtime.open(tools=[odd], approve="wait")


@pytest.mark.requirement("AT-DECL-23")
async def test_everything_that_a_declaration_refers_to_is_in_the_export(sound_export):
    async with Runtime.open(tools=[add, bake], approve="wait") as rt:
        exported = await sound_export(rt)
    by_kind = {}
    for record in exported:
        by_kind.setdefault(record["record_type"], []).append(record)
    for declaration in by_kind["tool_declaration"]:
        interface = {each["interface_id"]: each for each in by_kind["tool_interface"]}[declaration["interface_ref"]]
        assert interface["tool_id"] == declaration["tool_id"]
        executing = {each["execution_profile_id"] for each in by_kind["tool_execution_profile"]}
        permitting = {each["permission_profile_id"] for each in by_kind["tool_permission_profile"]}
        assert declaration["execution_profile_ref"] in executing
        assert declaration["permission_profile_ref"] in permitting


@pytest.mark.requirement("AT-IO-01", "AT-IO-05")
async def test_a_models_schema_takes_a_good_input_and_every_example(allow, call, records):
    async with Runtime.open(tools=[add], rules=allow, approve="wait") as rt:
        (declaration,) = await records(rt, "tool_declaration")
        contract = declaration["input_contract"]
        results = [await call(rt, "add", each) for each in contract["examples"]]
    checker = Checker(contract["model_input_schema"])
    assert checker.accepts({"a": 1})
    assert not checker.accepts({"a": "x"})
    assert [checker.accepts(each) for each in contract["examples"]] == [True]
    assert [result.structured_content for result in results] == [3]


@pytest.mark.requirement("AT-IO-05")
async def test_an_example_that_does_not_fit_is_refused_when_the_tool_is_declared():
    with pytest.raises(ConfigError, match="example"):

        @tool(examples=[{"a": "not a number"}])
        async def count(a: int) -> int:
            """Count. Not for text."""
            return a


@pytest.mark.requirement("AT-PROG-04")
async def test_a_reader_that_leaves_and_comes_back_misses_no_progress_and_gets_none_twice(allow, call):
    received = []

    async def listen(runtime, after, until):
        """Follow the log from a position until enough was received; return the position to come back to."""
        async for position, event in runtime.journal.events(after=after):
            if event.event_type == "tool.invocation.progress":
                received.append(event.data["progress"])
            after = position
            if len(received) >= until:
                break
        return after

    async with Runtime.open(tools=[bake], rules=allow, approve="wait") as rt:
        baking = asyncio.ensure_future(call(rt, "bake", {"loaves": 9}))
        position = await listen(rt, 0, 3)
        position = await listen(rt, position, 5)
        result = await baking
        await listen(rt, position, 9)
        live = list(received)
        received.clear()
        await listen(rt, 0, 9)
    assert result.status == "succeeded"
    assert live == received == list(range(1, 10))


@pytest.mark.requirement("AT-DECL-12")
@pytest.mark.parametrize(
    ("state", "error_class"),
    [
        *((word, "blocked_tool") for word in ("draft", "disabled", "requires_setup", "retired")),
        ("deferred", "schema_not_loaded"),
    ],
)
@pytest.mark.parametrize("said_by", ["a record", "an option"])
async def test_a_lifecycle_given_as_text_counts_as_the_word_it_is(allow, call, changed, said_by, state, error_class):
    plain = scripted_tool("probe")
    if said_by == "a record":
        probe = changed(plain, declaration={"lifecycle": state})
    else:
        probe = tool(name="probe", lifecycle=state)(nothing)
    async with Runtime.open(tools=[probe], rules=allow, approve="wait") as rt:
        result = await call(rt, "probe", {})
    assert result.error.error_class == error_class
    assert plain.executor.inputs == []


async def nothing() -> str:
    """Do nothing. Not for work."""
    return "done"


async def test_a_policy_given_in_text_counts_as_one_given_in_words(allow):
    async def fail(job):
        raise ValueError("as asked")

    async def hang(job):
        await asyncio.Event().wait()

    tools = [scripted_tool(name, script, is_concurrency_safe=True) for name, script in (("fail", fail), ("hang", hang))]
    pair = [ToolCall(name="hang", arguments={}), ToolCall(name="fail", arguments={})]
    policy = SchedulerPolicy(scheduler_policy_id="p", sibling_failure_policy="cancel_siblings")
    async with Runtime.open(tools=tools, rules=allow, approve="wait") as rt:
        hung, _ = await rt.batch(pair, surface=await rt.surface(), policy=policy)
        wrong = SchedulerPolicy(scheduler_policy_id="p", yield_policy="whenever")
        with pytest.raises(RecordError, match=r"'whenever'.*/yield_policy"):
            await rt.batch(pair, policy=wrong)
    assert hung.error.error_class == "sibling_canceled"
