"""Declarations as an export has them, and what the runtime makes of them."""

import asyncio
from typing import Annotated

import pytest

from agenttool import Internal, RecordError, Runtime, ToolCall, tool
from agenttool.codec import from_json
from agenttool.ports.output import FailedItem, NativeOutput, Partial
from agenttool.records import (
    A2aMapping,
    BrowserMapping,
    CliMapping,
    FunctionMapping,
    Lifecycle,
    McpMapping,
    OpenApiMapping,
    OutputContract,
    Ref,
    SchedulerPolicy,
    SiblingFailurePolicy,
    ToolDeclaration,
)
from agenttool.testing.fakes import scripted_tool


@tool(title="Add up", aliases=["sum"], read_only=True, concurrency_safe=True, open_world=False)
async def add(a: int, b: int = 1) -> int:
    """Add two whole numbers. Not for text."""
    return a + b


@tool
async def post(text: str, tenant: Annotated[str, Internal] = "acme") -> str:
    """Post a note. Not for letters."""
    return f"{text} for {tenant}"


@pytest.mark.requirement("AT-DECL-08")
async def test_a_declaration_has_a_title_for_people_beside_its_name_for_programs(records):
    async with Runtime.open(tools=[add, post], approve="wait") as rt:
        named = {each["name"]: each["title"] for each in await records(rt, "tool_declaration")}
    assert named["add"] == "Add up"
    assert named["post"]
    assert named["post"] != "post"


@pytest.mark.requirement("AT-DECL-12", "AT-DECL-13", "AT-DECL-15", "AT-DECL-16", "AT-INV-01")
async def test_only_what_its_lifecycle_allows_can_be_called_and_every_identity_stays(
    allow, call_records, records, changed
):
    states = {state: scripted_tool(state.value) for state in Lifecycle}
    tools = {state: changed(each, declaration={"lifecycle": state}) for state, each in states.items()}
    ended = {}
    async with Runtime.open(tools=tools.values(), rules=allow, approve="wait") as rt:
        surface = await rt.surface()
        for state in Lifecycle:
            recorded = await call_records(rt, await rt.call(state.value, {}, surface=surface))
            failure = recorded.result.get("error", {})
            ended[state.value] = (recorded.invocation["status"], failure.get("error_class"), failure.get("error_code"))
        known = [each["tool_id"] for each in await records(rt, "tool_declaration")]
        rt.declare(changed(tools[Lifecycle.AVAILABLE], declaration={"lifecycle": Lifecycle.RETIRED}))
        later = await rt.surface()
        refused = await rt.call("available", {}, surface=later)
        still_known = [each["tool_id"] for each in await records(rt, "tool_declaration")]
    assert ended == {
        "draft": ("blocked", "blocked_tool", "feature_disabled"),
        "available": ("succeeded", None, None),
        "disabled": ("blocked", "blocked_tool", "feature_disabled"),
        "requires_setup": ("blocked", "blocked_tool", "setup_required"),
        "deferred": ("failed", "schema_not_loaded", "schema_not_loaded"),
        "deprecated": ("succeeded", None, None),
        "retired": ("blocked", "blocked_tool", "feature_disabled"),
    }
    ran = [state.value for state, each in tools.items() if each.executor.inputs]
    assert ran == ["available", "deprecated"]
    shown = ("tool_test.available", "tool_agenttool.tool_search")
    assert surface.loaded_tools == shown, "a deprecated tool is not offered"
    assert refused.error.error_class == "blocked_tool"
    assert "tool_test.available" in still_known
    assert known == still_known


@pytest.mark.requirement("AT-DECL-17")
async def test_a_declaration_names_its_kind_and_one_without_is_refused(records):
    async with Runtime.open(tools=[add, post], approve="wait") as rt:
        declarations = await records(rt, "tool_declaration")
    assert [each["tool_kind"] for each in declarations] == ["function", "function"]
    without = {name: value for name, value in declarations[0].items() if name != "tool_kind"}
    with pytest.raises(RecordError, match="tool_kind"):
        from_json(without, ToolDeclaration)


@pytest.mark.requirement("AT-DECL-20")
async def test_two_tools_over_one_capability_share_its_ref(sound_export, changed):
    tools = [
        changed(scripted_tool(name), declaration={"capability_refs": ("capability:calendar",)})
        for name in ("add_meeting", "list_meetings")
    ]
    async with Runtime.open(tools=tools, approve="wait") as rt:
        exported = await sound_export(rt)
    refs = [each["capability_refs"] for each in exported if each["record_type"] == "tool_declaration"]
    assert refs == [["capability:calendar"], ["capability:calendar"]]


@pytest.mark.requirement("AT-DECL-21")
async def test_a_function_that_takes_arguments_has_an_input_contract(records):
    async with Runtime.open(tools=[add, post], approve="wait") as rt:
        for declaration in await records(rt, "tool_declaration"):
            assert declaration["input_contract"]["model_input_schema"]["properties"]


@pytest.mark.requirement("AT-DECL-21")
async def test_a_tool_of_plain_records_that_takes_arguments_has_an_input_contract_too(records):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    async with Runtime.open(tools=[scripted_tool("plain", schema=schema)], approve="wait") as rt:
        (declaration,) = await records(rt, "tool_declaration")
    assert declaration["input_contract"]["model_input_schema"] == schema


@pytest.mark.requirement("AT-DECL-24")
async def test_every_function_on_a_surface_has_a_permission_profile_that_its_declaration_names(sound_export):
    async with Runtime.open(tools=[add, post], approve="wait") as rt:
        surface = await rt.surface()
        exported = await sound_export(rt)
    profiles = {each["permission_profile_id"] for each in exported if "permission_profile_id" in each}
    named = {each["tool_id"]: each["permission_profile_ref"] for each in exported if "lifecycle" in each}
    assert {named[tool_id] for tool_id in surface.loaded_tools} <= profiles


@pytest.mark.requirement("AT-DECL-24")
async def test_a_tool_of_plain_records_on_a_surface_names_its_permission_profile_too(records):
    async with Runtime.open(tools=[scripted_tool("plain")], approve="wait") as rt:
        (declaration,) = await records(rt, "tool_declaration")
        (profile,) = await records(rt, "tool_permission_profile")
    assert declaration["permission_profile_ref"] == profile["permission_profile_id"]


@pytest.mark.requirement("AT-DECL-25", "AT-DECL-26")
async def test_a_function_that_is_declared_by_another_name_keeps_its_own(sound_export):
    @tool(name="portable", namespace="issues")
    async def create_issue(title: str) -> str:
        """Create an issue. Not for comments."""
        return title

    async with Runtime.open(tools=[create_issue], approve="wait") as rt:
        (declaration,) = [each for each in await sound_export(rt) if each["record_type"] == "tool_declaration"]
    assert (declaration["namespace"], declaration["name"]) == ("issues", "portable")
    assert declaration["external_mappings"] == [{"source": "function", "function_name": "create_issue"}]


@pytest.mark.requirement("AT-DECL-26")
@pytest.mark.parametrize(
    ("mapping", "member", "native"),
    [
        (McpMapping(tool_name="issues/create"), "tool_name", "issues/create"),
        (OpenApiMapping(operation_id="createIssue"), "operation_id", "createIssue"),
        (BrowserMapping(action_id="click#7"), "action_id", "click#7"),
        (FunctionMapping(function_name="CreateIssue"), "function_name", "CreateIssue"),
        (CliMapping(command_id="git-push"), "command_id", "git-push"),
        (A2aMapping(agent_skill_id="s", task_id="task-9", artifact_id="art-1"), "artifact_id", "art-1"),
    ],
    ids=lambda each: type(each).__name__ if not isinstance(each, str) else None,
)
async def test_a_portable_name_never_loses_the_native_one(sound_export, mapping, member, native, changed):
    renamed = changed(scripted_tool("portable"), declaration={"external_mappings": (mapping,)})
    async with Runtime.open(tools=[renamed], approve="wait") as rt:
        (declaration,) = [each for each in await sound_export(rt) if each["record_type"] == "tool_declaration"]
    assert declaration["name"] == "portable"
    assert declaration["external_mappings"][0][member] == native


@pytest.mark.requirement("AT-DECL-27", "AT-IFACE-17")
async def test_hints_of_an_untrusted_producer_relax_nothing_and_silence_means_the_strict_reading(
    allow, asked_questions, changed
):
    meeting, most = [], []

    async def work(job):
        meeting.append(job.invocation_id)
        most.append(len(meeting))
        await asyncio.sleep(0)
        meeting.remove(job.invocation_id)
        return "done"

    hints = {"readOnlyHint": True, "destructiveHint": False, "openWorldHint": False, "is_concurrency_safe": True}
    boastful = changed(scripted_tool("boastful", work), declaration={"annotations": hints})
    for probe in (boastful, scripted_tool("silent", work)):
        name = probe.declaration.name
        async with Runtime.open(tools=[probe], approve="wait") as rt:
            surface = await rt.surface()
            waiting = asyncio.ensure_future(rt.call(name, {}, surface=surface))
            (question,) = await asked_questions(rt)
            await rt.approvals.decide(question.approval_id, "deny")
            assert (await waiting).status == "rejected"
        async with Runtime.open(tools=[probe], rules=allow, approve="wait") as rt:
            surface = await rt.surface()
            await rt.batch([ToolCall(name=name, arguments={})] * 3, surface=surface)
    assert set(most) == {1}


def sorted_out(result):
    """Return the case of a result from its fields alone."""
    if result.status == "succeeded":
        return "artifact" if result.artifact_refs else "final"
    return {"synthetic_error": "synthetic", "partial_succeeded": "partial"}.get(result.status, result.status.value)


@pytest.mark.requirement("AT-MODEL-06", "AT-RES-09")
async def test_a_program_can_distinguish_the_eight_cases_of_a_result(rule, asked_questions, changed):
    async def partly(job):
        return NativeOutput(partial=Partial(succeeded=("a",), failed=(FailedItem(item="b", message="no"),)))

    async def deliver(job):
        return NativeOutput(value="see there", artifact_refs=(Ref(id="art_1", uri="file:///x"),))

    async def fail(job):
        raise ValueError("first")

    withheld = OutputContract(redaction_rules=("*",))
    dropped = OutputContract(max_inline_chars=1, persistence_policy_ref="drop_with_reason")
    tools = [
        scripted_tool("final"),
        scripted_tool("partial", partly),
        changed(scripted_tool("artifact", deliver), execution_profile={"supports_artifacts": True}),
        changed(scripted_tool("redacted"), declaration={"output_contract": withheld}),
        changed(scripted_tool("too_large"), declaration={"output_contract": dropped}),
        scripted_tool("denied"),
        scripted_tool("rejected"),
        scripted_tool("synthetic"),
        scripted_tool("fail", fail),
    ]
    rules = [rule("allow", "test.*"), rule("deny", "*.denied"), rule("ask", "*.rejected")]
    async with Runtime.open(tools=tools, rules=rules, approve="wait") as rt:
        surface = await rt.surface()
        plain = ("final", "partial", "artifact", "redacted", "too_large", "denied")
        results = {name: await rt.call(name, {}, surface=surface) for name in plain}
        waiting = asyncio.ensure_future(rt.call("rejected", {}, surface=surface))
        (question,) = await asked_questions(rt)
        await rt.approvals.decide(question.approval_id, "deny")
        results["rejected"] = await waiting
        calls = [ToolCall(name="fail", arguments={}), ToolCall(name="synthetic", arguments={}, depends_on=(0,))]
        together = SchedulerPolicy(
            scheduler_policy_id="s", sibling_failure_policy=SiblingFailurePolicy.CANCEL_DEPENDENT
        )
        results["synthetic"] = (await rt.batch(calls, surface=surface, policy=together))[1]
    assert {name: sorted_out(result) for name, result in results.items()} == {name: name for name in results}
    assert results["redacted"].redaction_state == "full"
