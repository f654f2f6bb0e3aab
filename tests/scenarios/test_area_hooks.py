"""Hooks: where each stands, what each may say, and that an input they replace is never replaced in silence."""

import asyncio
from typing import Annotated

import pytest

from agenttool import Context, Internal, RecordError, Runtime, tool
from agenttool.codec import from_json
from agenttool.records import HookEvent, InputContract, MutationPolicy, PermissionDecision
from agenttool.testing.fakes import scripted_tool


def failing():
    async def work(job):
        raise ValueError("as asked")

    return work


@pytest.mark.requirement("AT-HOOK-02", "AT-HOOK-03", "AT-HOOK-16")
@pytest.mark.parametrize("event", [*HookEvent], ids=str)
async def test_a_hook_fires_where_it_stands_and_its_run_is_linked_from_the_call(allow, call, hook, call_records, event):
    asked = []
    work = [failing()] if event is HookEvent.POST_TOOL_USE_FAILURE else []
    probe = scripted_tool("probe", *work, max_inline_chars=1)
    listening = hook(lambda question: asked.append(question.hook_event) or {"message": "seen"}, event)
    async with Runtime.open(tools=[probe], rules=allow, hooks=[listening], approve="wait") as rt:
        recorded = await call_records(rt, await call(rt, "probe", {}))
    assert asked == [event]
    (run,) = recorded.hooks
    assert (run["hook_event"], recorded.invocation["hook_refs"]) == (event.value, [run["hook_id"]])
    side = (
        "post" if event in (HookEvent.POST_TOOL_USE, HookEvent.POST_TOOL_USE_FAILURE, "result_persistence") else "pre"
    )
    begins, ends = (
        recorded.event_types.index(f"hook.{side}.started"),
        recorded.event_types.index(f"hook.{side}.completed"),
    )
    before, after = {
        HookEvent.PRE_TOOL_USE: ("arguments_ready", "permission.requested"),
        HookEvent.PERMISSION_REQUEST: ("arguments_ready", "permission.requested"),
        HookEvent.PERMISSION_DECISION: ("permission.decided", "started"),
        HookEvent.POST_TOOL_USE: ("started", "result.persisted"),
        HookEvent.POST_TOOL_USE_FAILURE: ("started", "result.created"),
        HookEvent.RESULT_PERSISTENCE: ("started", "result.created"),
    }[event]
    assert recorded.event_types.index(before) < begins < ends < recorded.event_types.index(after)


@pytest.mark.requirement("AT-HOOK-04", "AT-HOOK-08", "AT-PIPE-11")
async def test_whatever_hooks_say_is_on_the_record_with_their_names(asked_questions, call, hook, call_records):
    sayings = {
        "message": {"message": "I was here"},
        "progress": {"progress": "checking the list"},
        "additional_context": {"additional_context": [{"note": "it is Friday"}]},
        "updated_input": {"updated_input": {"n": 2}},
        "permission_result": {"permission_result": "ask", "permission_reason": "Fridays"},
    }
    hooks = [hook(answer, name=f"says-{kind}") for kind, answer in sayings.items()]
    probe = scripted_tool("probe")
    async with Runtime.open(tools=[probe], hooks=hooks, approve="wait") as rt:
        calling = asyncio.ensure_future(call(rt, "probe", {"n": 1}))
        (question,) = await asked_questions(rt)
        await rt.approvals.decide(question.approval_id, "allow")
        recorded = await call_records(rt, await calling)
    runs = {run["name"]: run for run in recorded.hooks}
    assert [run["outputs"][0]["type"] for run in runs.values()] == list(sayings)
    assert runs["says-message"]["outputs"][0]["message"] == "I was here"
    assert runs["says-additional_context"]["additional_context"] == [{"note": "it is Friday"}]
    assert runs["says-permission_result"]["permission_result"] == {"behavior": "ask", "reason": "Fridays"}
    assert recorded.invocation["hook_refs"] == [run["hook_id"] for run in runs.values()]
    assert recorded.decisions[0]["reason"]["hook_ref"] == runs["says-permission_result"]["hook_id"]
    assert [each["message"] for each in recorded.progress] == ["checking the list"]
    assert recorded.mutations[0]["source_ref"] == "says-updated_input"
    assert (recorded.invocation["model_input"], probe.executor.inputs) == ({"n": 1}, [{"n": 2}])


@pytest.mark.requirement("AT-HOOK-05")
async def test_progress_of_hooks_and_of_the_tool_is_counted_as_one(allow, call, hook, call_records):
    @tool
    async def bake(context: Context) -> str:
        """Bake. Not for cakes."""
        context.progress("baking")
        return "bread"

    hooks = [hook({"progress": "before"}), hook({"progress": "after"}, "post_tool_use")]
    async with Runtime.open(tools=[bake], rules=allow, hooks=hooks, approve="wait") as rt:
        recorded = await call_records(rt, await call(rt, "bake", {}))
    assert [(each["sequence"], each["message"]) for each in recorded.progress] == [
        (1, "before"),
        (2, "baking"),
        (3, "after"),
    ]


@pytest.mark.requirement("AT-HOOK-07", "AT-PERM-13", "AT-PERM-18")
@pytest.mark.parametrize("hint", ["allow", "ask", "deny", "passthrough"])
async def test_a_hint_of_a_hook_is_an_input_of_the_decision(asked_questions, call, hook, call_records, hint):
    @tool(open_world=False, destructive=False)
    async def note(text: str) -> str:
        """Take a note. Not for letters."""
        return text

    advising = hook({"permission_result": hint, "permission_reason": "so I think"}, name="advisor")
    async with asyncio.timeout(60), Runtime.open(tools=[note], hooks=[advising], approve="wait") as rt:
        calling, asking = (
            asyncio.ensure_future(each) for each in (call(rt, "note", {"text": "milk"}), asked_questions(rt))
        )
        await asyncio.wait((calling, asking), return_when=asyncio.FIRST_COMPLETED)
        assert asking.done() is (hint in ("ask", "passthrough"))
        if asking.done():
            await rt.approvals.decide(asking.result()[0].approval_id, "allow")
        asking.cancel()
        recorded = await call_records(rt, await calling)
    assert recorded.decisions[0]["behavior"] == hint.replace("passthrough", "ask")
    assert recorded.hooks[0]["hook_id"] in str(recorded.decisions[0])
    assert recorded.hooks[0]["permission_result"]["behavior"] == hint
    with pytest.raises(RecordError, match="behavior"):
        from_json({**recorded.decisions[0], "behavior": "shrug"}, PermissionDecision)


@pytest.mark.requirement("AT-HOOK-10", "AT-PIPE-19")
async def test_an_output_that_a_hook_replaces_is_mapped_again_and_the_change_is_recorded(
    allow, call, hook, call_records
):
    replacing = hook({"updated_output": {"rows": [1]}}, "post_tool_use", name="trimmer")
    async with Runtime.open(tools=[scripted_tool("query")], rules=allow, hooks=[replacing], approve="wait") as rt:
        recorded = await call_records(rt, await call(rt, "query", {}))
    assert recorded.result["structured_content"] == {"rows": [1]}
    (mutation,) = recorded.mutations
    assert (mutation["source_type"], mutation["source_ref"]) == ("hook", "trimmer")
    assert mutation["from_output_ref"] != mutation["to_output_ref"]


@pytest.mark.requirement("AT-IO-09")
@pytest.mark.parametrize("who", ["hooks", "permission_prompts"])
async def test_a_replacement_that_the_contract_forbids_does_not_take_effect(
    asked_questions, call, changed, hook, call_records, who
):
    contract = InputContract(mutation_policy=MutationPolicy(**{who: False}))
    probe = changed(scripted_tool("probe"), declaration={"input_contract": contract})
    hooks = [hook({"updated_input": {"n": 2}})] if who == "hooks" else []
    async with Runtime.open(tools=[probe], hooks=hooks, approve="wait") as rt:
        calling = asyncio.ensure_future(call(rt, "probe", {"n": 1}))
        if not hooks:
            (question,) = await asked_questions(rt)
            refused = await rt.approvals.decide(question.approval_id, "allow", input={"n": 2})
            assert "allows no replacement of its input by a permission_prompt" in refused.message
            await rt.approvals.decide(question.approval_id, "deny")
        recorded = await call_records(rt, await calling)
    expected = "input_mutation_failed" if hooks else "approval_rejected"
    assert recorded.result["error"]["error_class"] == expected
    assert (probe.executor.inputs, recorded.mutations) == ([], [])
    assert recorded.invocation["model_input"] == {"n": 1}


@tool
async def post(text: str, tenant: Annotated[str, Internal] = "none", region: Annotated[str, Internal] = "none") -> str:
    """Post a note. Not for letters."""
    if text == "refuse":
        raise ValueError("as asked")
    return f"{text} for {tenant} in {region}"


async def posted(asked_questions, call, hook, raw='{"text":  "h\\u00e9llo"}'):
    """A hook sets one internal field, an approver the other."""
    injecting = hook(lambda question: {"updated_input": {**question.input, "tenant": "acme"}}, name="tenancy")
    async with Runtime.open(tools=[post], hooks=[injecting], approve="wait") as rt:
        calling = asyncio.ensure_future(call(rt, "post", raw))
        (question,) = await asked_questions(rt)
        await rt.approvals.decide(question.approval_id, "allow", input={**question.shown, "region": "eu"}, by="pat")
        return rt, await calling


@pytest.mark.requirement("AT-IFACE-29")
async def test_a_field_that_a_hook_injects_is_marked_internal_and_its_source_is_named(
    asked_questions, call, hook, records, call_records
):
    rt, result = await posted(asked_questions, call, hook)
    recorded = await call_records(rt, result)
    (declaration,) = await records(rt, "tool_declaration")
    properties = declaration["input_contract"]["runtime_input_schema"]["properties"]
    assert (properties["tenant"]["visibility"], properties["region"]["visibility"]) == ("internal", "internal")
    sources = {field: each["source_type"] for each in recorded.mutations for field in each["changed_fields"]}
    assert (sources["/region"], recorded.mutations[-1]["source_ref"]) == (
        "permission_prompt",
        recorded.decisions[-1]["decision_id"],
    )
    assert recorded.result["model_facing_content"][0]["text"] == "héllo for acme in eu"
    assert recorded.invocation["model_input"] == {"text": "héllo"}
    by_hook = next(each for each in recorded.mutations if each["source_type"] == "hook")
    assert (by_hook["changed_fields"], by_hook["source_ref"]) == (["/tenant"], "tenancy")


@pytest.mark.requirement("AT-IO-11")
@pytest.mark.parametrize(("text", "status"), [("hello", "succeeded"), ("refuse", "failed")])
async def test_a_result_names_the_mutations_of_its_input(asked_questions, call, hook, call_records, text, status):
    rt, result = await posted(asked_questions, call, hook, {"text": text})
    recorded = await call_records(rt, result)
    assert recorded.result["status"] == status
    refs = [each["mutation_id"] for each in recorded.mutations]
    assert recorded.result["input_mutation_refs"] == recorded.invocation["input_mutation_refs"] == refs
    sources = {field: each["source_type"] for each in recorded.mutations for field in each["changed_fields"]}
    assert (sources["/tenant"], sources["/region"]) == ("hook", "permission_prompt")
    assert recorded.invocation["model_input"] == {"text": text}


@pytest.mark.requirement("AT-IO-14")
async def test_hooks_and_approvers_see_the_normalized_copy_and_each_has_one_of_their_own(
    asked_questions, call, hook, call_records
):
    seen = []

    @tool(normalize=lambda arguments: {**arguments, "path": arguments["path"].removeprefix("./")})
    async def read(path: str) -> str:
        """Read a file. Not for folders."""
        return path

    def look(question):
        seen.append(dict(question.input))
        question.input["path"] = "elsewhere"

    async with Runtime.open(tools=[read], hooks=[hook(look), hook(look, name="second")], approve="wait") as rt:
        calling = asyncio.ensure_future(call(rt, "read", {"path": "./a.txt"}))
        (question,) = await asked_questions(rt)
        seen.append(dict(question.shown))
        question.shown["path"] = "elsewhere"
        await rt.approvals.decide(question.approval_id, "allow")
        recorded = await call_records(rt, await calling)
    assert seen == [{"path": "a.txt"}] * 3
    assert recorded.invocation["observable_input"] == {"path": "a.txt"}
    assert recorded.invocation["model_input"] == {"path": "./a.txt"}
    assert recorded.result["model_facing_content"][0]["text"] == "a.txt"


DECISIONS = {
    "by a rule": ("allow", None, "allow", "succeeded"),
    "by a person": ("ask", {"answer": "allow"}, "allow", "succeeded"),
    "with edits": ("ask", {"answer": "allow", "input": {"n": 2}}, "allow", "succeeded"),
    "denied by a rule": ("deny", None, "deny", "denied"),
    "denied by a person": ("ask", {"answer": "deny"}, "deny", "rejected"),
}


@pytest.mark.requirement("AT-HOOK-03")
@pytest.mark.parametrize("how", DECISIONS)
async def test_hooks_at_the_decision_get_what_it_was(asked_questions, call, hook, rule, call_records, how):
    behavior, answer, recorded_behavior, status = DECISIONS[how]
    questions, probe = [], scripted_tool("probe")
    listening = hook(questions.append, "permission_decision")
    async with Runtime.open(tools=[probe], rules=[rule(behavior, "*")], hooks=[listening], approve="wait") as rt:
        calling = asyncio.ensure_future(call(rt, "probe", {"n": 1}))
        if answer is not None:
            (question,) = await asked_questions(rt)
            await rt.approvals.decide(question.approval_id, **answer)
        recorded = await call_records(rt, await calling)
    (received,) = questions
    assert (received.details, recorded.result["status"]) == ({"behavior": recorded_behavior}, status)
    assert probe.executor.inputs == ([] if recorded_behavior == "deny" else [received.input])
    begins = recorded.event_types.index("hook.pre.started")
    assert recorded.event_types.index("permission.decided") < begins < recorded.event_types.index("result.created")


@pytest.mark.parametrize("answer", [{"stop": "I object"}, {"no such member": 1}], ids=["stop", "fault"])
async def test_what_is_refused_stays_refused_whatever_a_hook_says_to_that(
    call, error, hook, rule, call_records, answer
):
    hooks = [hook(answer, "permission_decision")]
    async with Runtime.open(
        tools=[scripted_tool("probe")], rules=[rule("deny", "*")], hooks=hooks, approve="wait"
    ) as rt:
        result = await call(rt, "probe", {})
        recorded = await call_records(rt, result)
    assert (error(result), len(recorded.hooks)) == ("permission_denied", 1)


async def test_a_hook_cannot_move_what_it_was_not_shown(allow, call, error, hook):
    """In a list that grew, items cannot be matched: the secret of one must not become that of another."""
    got = []

    @tool(sensitive=["/users/*/pin"])
    async def enroll(users: list[dict[str, str]]) -> str:
        """Enroll users. Not for guests."""
        got.extend(users)
        return "done"

    def insert(question):
        users = question.input["users"]
        return {"updated_input": {"users": [{"name": "eve", "pin": "[redacted]"}, *users]}}

    async with Runtime.open(tools=[enroll], rules=allow, hooks=[hook(insert)], approve="wait") as rt:
        result = await call(rt, "enroll", {"users": [{"name": "ada", "pin": "4711-0815"}]})
    assert (error(result), got) == ("hook_failed", [])
    assert "cannot be moved" in result.error.message
    assert "/users/0/pin" in result.error.message
