"""The standard's acceptance scenarios 6 to 8, 15 and 16: what was judged, by whom, and why."""

import asyncio
import os
import pwd
import threading

import pytest

from agenttool import Runtime, sync, tool
from agenttool.codec import digest_of
from agenttool.records import RuleSource
from agenttool.testing.fakes import scripted_tool

USER = pwd.getpwuid(os.getuid()).pw_name
"""The operating-system user of the tests."""

ENDING = ["result.created", "yielded", "failed"]


@pytest.mark.requirement(
    "AT-ACC-06", "AT-HOOK-06", "AT-HOOK-12", "AT-IO-04", "AT-IO-12", "AT-IO-13", "AT-IO-15", "AT-INV-03",
    "AT-PERM-15", "AT-PERM-26", "AT-PERM-27", "AT-PIPE-09",
)  # fmt: skip
async def test_06_four_inputs_remain_distinguishable_after_hooks_and_permission_prompts(
    asked_questions, call, hook, call_records
):
    ran, seen_by_hook = [], []

    @tool
    async def send(to: str, text: str, greeting: str = "Dear") -> str:
        """Send a letter. Not for parcels."""
        ran.append({"to": to, "text": text, "greeting": greeting})
        return "sent"

    def sign(question):
        seen_by_hook.append(question.input)
        return {"updated_input": {**question.input, "text": question.input["text"] + " -- the office"}}

    async with Runtime.open(tools=[send], hooks=[hook(sign, name="signer")], approve="wait") as rt:
        waiting = asyncio.ensure_future(call(rt, "send", {"to": "ada", "text": "hello"}))
        (question,) = await asked_questions(rt)
        await rt.approvals.decide(
            question.approval_id, "allow", input={**question.shown, "to": "grace"}, by="pat", message="to grace"
        )
        recorded = await call_records(rt, await waiting)
    model = {"to": "ada", "text": "hello"}
    observable = {**model, "greeting": "Dear"}
    judged = {**observable, "text": "hello -- the office"}
    executed = {**judged, "to": "grace"}
    invocation = recorded.invocation
    assert [invocation["model_input"], invocation["observable_input"]] == [model, observable]
    assert [invocation["permission_input"], invocation["call_input"]] == [judged, executed]
    assert (seen_by_hook, question.shown, ran) == ([observable], judged, [executed])
    assert [(each["source_type"], each["changed_fields"]) for each in recorded.mutations] == [
        ("runtime", ["/greeting"]),
        ("hook", ["/text"]),
        ("permission_prompt", ["/to"]),
    ]
    assert [each["to_input_ref"].partition("#")[2] for each in recorded.mutations] == [
        "observable_input",
        "permission_input",
        "call_input",
    ]
    ask, answer = recorded.decisions
    assert (ask["behavior"], ask["input_digest"]) == ("ask", digest_of(judged))
    assert (answer["behavior"], answer["input_digest"]) == ("allow", digest_of(executed))
    assert (answer["user_modified"], answer["decided_by"], answer["answers"]) == (True, USER, ask["decision_id"])
    assert (answer["updated_input"], answer["accept_feedback"]) == (executed, "to grace")
    assert invocation["permission_decision_refs"] == [ask["decision_id"], answer["decision_id"]]
    assert recorded.event_types == [
        "planned",
        "selected",
        "arguments_ready",
        "hook.pre.started",
        "hook.pre.completed",
        "permission.requested",
        "permission.decided",
        "queued",
        "started",
        "result.created",
        "yielded",
        "succeeded",
    ]


@pytest.mark.requirement("AT-ACC-07", "AT-INV-11", "AT-PERM-07")
def test_07_a_risky_call_pauses_for_approval_and_resumes_under_the_same_invocation_id():
    """In two threads without a loop: one asks and waits, the other decides at any time."""
    ran, ended, asked = [], [], threading.Event()

    @tool(approval_required=True, approval_reason="it moves money")
    async def pay(amount: int) -> str:
        """Pay. Not for refunds."""
        ran.append(amount)
        return "paid"

    with sync.open(tools=[pay], approve="wait") as rt:
        surface = rt.surface()

        def wait_for_the_result():
            asked.set()
            ended.append(rt.call("pay", {"amount": 5}, surface=surface))

        caller = threading.Thread(target=wait_for_the_result)
        caller.start()
        assert asked.wait(30)
        questions = _poll(rt.approvals.list)
        paused = rt.journal.invocation(questions[0].invocation_id)
        assert (paused.status, ran) == ("awaiting_approval", [])
        assert questions[0].verdict.reason.message == "it moves money"
        rt.approvals.decide(questions[0].approval_id, "allow", by="pat")
        caller.join(30)
        finished = rt.journal.invocation(questions[0].invocation_id)
    assert ran == [5]
    assert ended[0].status == "succeeded"
    assert ended[0].invocation_id == paused.invocation_id == finished.invocation_id
    assert finished.status_transitions[: len(paused.status_transitions)] == paused.status_transitions
    assert [move.status.value for move in finished.status_transitions[3:]] == [
        "awaiting_approval",
        "approved",
        "queued",
        "running",
        "yielded",
        "succeeded",
    ]


def _poll(look, *, times=3000):
    """Look until there is something to see; bounded."""
    for _ in range(times):
        if seen := look():
            return seen
        threading.Event().wait(0.01)
    raise AssertionError("nothing came")


@pytest.mark.requirement("AT-ACC-08", "AT-PERM-16", "AT-PERM-17", "AT-RES-05", "AT-PIPE-14", "AT-ERR-14")
async def test_08_a_denied_or_rejected_call_yields_a_terminal_error_result(asked_questions, call, rule, call_records):
    ran = []

    @tool(approval_required=True)
    async def pay(amount: int) -> str:
        """Pay. Not for refunds."""
        ran.append(amount)
        return "paid"

    wipe, export = scripted_tool("wipe"), scripted_tool("export")
    rules = [
        rule("deny", "*.wipe", because="we need the disk"),
        rule("deny", "*.export", because="the law forbids it", source=RuleSource.POLICY_SETTINGS),
    ]
    async with Runtime.open(tools=[pay, wipe, export], rules=rules, approve="wait") as rt:
        denied = await call_records(rt, await call(rt, "wipe", {}))
        blocked = await call_records(rt, await call(rt, "export", {}))
        waiting = asyncio.ensure_future(call(rt, "pay", {"amount": 5}))
        (question,) = await asked_questions(rt)
        await rt.approvals.decide(question.approval_id, "deny", by="pat", message="not today")
        late = await rt.approvals.decide(question.approval_id, "allow", by="eve")
        rejected = await call_records(rt, await waiting)
    assert (ran, wipe.executor.inputs, export.executor.inputs) == ([], [], [])
    assert late.reason == "answered"
    for recorded, status, error_class, words in (
        (denied, "denied", "permission_denied", "we need the disk"),
        (blocked, "denied", "policy_blocked", "the law forbids it"),
        (rejected, "rejected", "approval_rejected", "not today"),
    ):
        assert (recorded.result["status"], recorded.result["is_error"]) == (status, True)
        failure = recorded.result["error"]
        assert failure["error_class"] == error_class
        assert failure["recoverability"] == "change_arguments_or_policy"
        assert failure["retry_after"] is None
        assert words in failure["message"]
        assert words in recorded.result["model_facing_content"][0]["text"]
        assert recorded.invocation["status"] == "denied"
        assert recorded.event_types[-3:] == ENDING
        assert recorded.events[-1]["data"]["status"] == "denied"
        assert "started_at" not in recorded.invocation
    assert [each["behavior"] for each in denied.decisions] == ["deny"]
    assert [each["behavior"] for each in rejected.decisions] == ["ask", "deny"]


async def test_15_evidence_reconstructs_which_tool_ran_under_which_native_id_and_why_it_is_trusted(
    call, rule, sound_export
):
    async def fetch(job):
        job.add_native_ids("mcp", {"jsonrpc_request_id": 42, "server_id": "files-1"})
        return "the file"

    trusted = rule("allow", "remote.*", source=RuleSource.PROJECT_SETTINGS, ref="we-host-it")
    async with Runtime.open(
        tools=[scripted_tool("fetch", fetch, namespace="remote")], rules=[trusted], approve="wait"
    ) as rt:
        await call(rt, "fetch", {}, native_call_id="call_7", actor_ref="user:ada")
        exported = await sound_export(rt)
    by_type = {record["record_type"]: record for record in exported}
    invocation, declaration = by_type["tool_invocation"], by_type["tool_declaration"]
    decision, result = by_type["tool_permission_decision"], by_type["tool_result"]
    assert (declaration["tool_id"], declaration["name"]) == (invocation["tool_id"], "fetch")
    assert result["invocation_id"] == decision["invocation_id"] == invocation["invocation_id"]
    assert (invocation["native_call_id"], invocation["actor_ref"]) == ("call_7", "user:ada")
    assert (decision["behavior"], decision["reason"]["rule_ref"]) == ("allow", "we-host-it")
    assert decision["reason"]["rule_source"] == "project_settings"
    assert decision["input_digest"] == digest_of(invocation["permission_input"])
    (native,) = invocation["external_mappings"]
    assert (native["source"], native["jsonrpc_request_id"], native["server_id"]) == ("mcp", 42, "files-1")


@pytest.mark.requirement("AT-ACC-16", "AT-HOOK-15")
async def test_16_policy_explains_why_a_tool_was_allowed_denied_deferred_or_waived(call, hook, rule, call_records):
    tools = [scripted_tool(name) for name in ("read", "wipe", "deploy")]
    tools.append(scripted_tool("rare", should_defer=True))
    rules = [
        rule("allow", "test.read", ref="reading-is-fine"),
        rule("deny", "test.wipe", ref="no-wiping"),
        rule("allow", "test.wipe", ref="not-of-the-policy-layer", hook="release"),
        rule("deny", "test.deploy", ref="no-deploys"),
        rule("allow", "test.deploy", ref="release-day", source=RuleSource.POLICY_SETTINGS, hook="release"),
    ]
    waiving = hook({"permission_result": "allow", "permission_reason": "it is release day"}, name="release")
    async with Runtime.open(tools=tools, rules=rules, hooks=[waiving], approve="wait") as rt:
        surface = await rt.surface()
        allowed = await call_records(rt, await call(rt, "read", {}))
        denied = await call_records(rt, await call(rt, "wipe", {}))
        waived = await call_records(rt, await call(rt, "deploy", {}))
        early = await call_records(rt, await call(rt, "rare", {}))
    (reason,) = [each["reason"] for each in allowed.decisions]
    assert (reason["type"], reason["rule_ref"]) == ("rule", "reading-is-fine")
    (reason,) = [each["reason"] for each in denied.decisions]
    assert (denied.result["status"], reason["type"], reason["rule_ref"]) == ("denied", "rule", "no-wiping")
    (decision,) = waived.decisions
    assert (waived.result["status"], decision["behavior"]) == ("succeeded", "allow")
    assert (decision["policy_refs"], decision["reason"]["policy_ref"]) == (["release-day"], "release-day")
    assert decision["reason"]["beaten_rule_refs"] == ["no-deploys"]
    assert "it is release day" in decision["reason"]["message"]
    (deferred,) = surface.deferred_tools
    assert (deferred.reason, deferred.selection_ref) == ("deferred_until_discovered", "select:test.rare")
    assert early.result["error"]["error_class"] == "schema_not_loaded"
    assert early.result["error"]["retry"]["discovery_required"] is True
