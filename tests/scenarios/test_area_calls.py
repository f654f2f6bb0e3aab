"""The envelope of a call: who asked, what went in, what survives; and when permission holds."""

import asyncio
import dataclasses
from typing import Annotated

import pytest

from agenttool import RecordError, Runtime, Sensitive, ToolCall, tool
from agenttool.codec import from_json, to_json
from agenttool.ports.output import NativeOutput
from agenttool.records import (
    OutputContract,
    PermissionProfile,
    Ref,
    SchedulerPolicy,
    SiblingFailurePolicy,
)
from agenttool.testing.fakes import scripted_tool

STAGES = ("model_input", "observable_input", "permission_input", "call_input")


@pytest.mark.requirement("AT-INV-02", "AT-INV-04")
async def test_an_invocation_names_who_asked_where_and_by_which_native_id(allow, call_records):
    async with Runtime.open(tools=[scripted_tool("probe")], rules=allow, approve="wait") as rt:
        surface = await rt.surface()
        recorded = [
            await call_records(rt, await rt.call("probe", {}, surface=surface, actor_ref=actor, native_call_id=native))
            for actor, native in (("user:ada", "call_1"), ("agent:planner", "call_2"))
        ]
    asked = [(each.invocation["actor_ref"], each.invocation["native_call_id"]) for each in recorded]
    assert asked == [("user:ada", "call_1"), ("agent:planner", "call_2")]
    assert {each.invocation["surface_id"] for each in recorded} == {surface.surface_id}


@pytest.mark.requirement("AT-INV-03")
async def test_even_a_plain_invocation_states_all_four_inputs(allow, call, call_records):
    async with Runtime.open(tools=[scripted_tool("probe")], rules=allow, approve="wait") as rt:
        recorded = await call_records(rt, await call(rt, "probe", {"n": 1}))
    for stage in STAGES:
        assert recorded.invocation[stage] == {"n": 1}


@pytest.mark.requirement("AT-INV-03")
async def test_all_four_inputs_are_reported_without_their_secrets_and_each_is_a_value_of_its_own(allow, call):
    @tool
    async def login(user: str, password: Annotated[str, Sensitive]) -> str:
        """Log in. Not for services."""
        return "welcome"

    async with Runtime.open(tools=[login], rules=allow, approve="wait") as rt:
        result = await call(rt, "login", {"user": "ada", "password": "correct horse"})
        invocation = await rt.journal.invocation(result.invocation_id)
    recorded = [getattr(invocation, stage) for stage in STAGES]
    assert recorded == [{"user": "ada", "password": "[redacted]"}] * 4
    assert len({id(each) for each in recorded}) == 4


@pytest.mark.requirement("AT-INV-03")
async def test_a_call_that_never_ran_has_no_input_that_ran(call, rule, call_records):
    async with Runtime.open(tools=[scripted_tool("probe")], rules=[rule("deny", "*")], approve="wait") as rt:
        recorded = await call_records(rt, await call(rt, "probe", {"n": 1}))
    assert [stage for stage in STAGES if stage in recorded.invocation] == list(STAGES[:3])


@pytest.mark.requirement("AT-IO-13")
@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        ('{"n": 1.0, "big": 12345678901234567890, "s": "\\u00e9\\ud83d\\ude00"}', {"n": 1.0, "big": 12345678901234567890, "s": "é😀"}),
        ('{"b": 1, "a": {"z": [], "y": null}}', {"b": 1, "a": {"z": [], "y": None}}),
    ],
    ids=["numbers and escapes", "order"],
)  # fmt: skip
async def test_the_models_input_is_stored_as_it_came(allow, call, changed, call_records, raw, wanted):
    probe = dataclasses.replace(scripted_tool("probe"), normalize=lambda arguments: {**arguments, "added": True})
    async with Runtime.open(tools=[probe], rules=allow, approve="wait") as rt:
        recorded = await call_records(rt, await call(rt, "probe", raw))
    retained = recorded.invocation["model_input"]
    assert (retained, list(retained), type(retained[next(iter(retained))])) == (
        wanted,
        list(wanted),
        type(wanted[next(iter(wanted))]),
    )
    assert probe.executor.inputs == [{**wanted, "added": True}]


@pytest.mark.requirement("AT-INV-14", "AT-INV-15")
async def test_an_invocation_outlives_its_bytes_its_refusal_and_its_failing_sibling(bench, changed, rule, call_records):
    async def deliver(job):
        ref = Ref(id="art_1", uri="file:///report", digest="sha256:" + "0" * 64)
        return NativeOutput(value="x" * 50_000, artifact_refs=(ref,), resource_refs=(ref,))

    async def fail(job):
        raise ValueError("first")

    tools = [
        changed(scripted_tool("withheld"), declaration={"output_contract": OutputContract(redaction_rules=("*",))}),
        changed(scripted_tool("large", deliver), execution_profile={"supports_artifacts": True}),
        scripted_tool("denied"),
        scripted_tool("fail", fail),
        scripted_tool("dependent"),
    ]
    policy = SchedulerPolicy(scheduler_policy_id="s", sibling_failure_policy=SiblingFailurePolicy.CANCEL_DEPENDENT)
    rules = [rule("allow", "*"), rule("deny", "*.denied", source="policy_settings", ref="house-rule")]
    async with bench.open(tools, rules=rules) as rt:
        surface = await rt.surface()
        results = [await rt.call(name, {}, surface=surface) for name in ("withheld", "large", "denied")]
        pair = [ToolCall(name="fail", arguments={}), ToolCall(name="dependent", arguments={}, depends_on=(0,))]
        results.append((await rt.batch(pair, surface=surface, policy=policy))[1])
        before = [await call_records(rt, result) for result in results]
        bench.payloads.drop(before[1].persistence[0]["persisted_ref"]["digest"])
        after = [await call_records(rt, result) for result in results]
        found = [await rt.journal.invocation(result.invocation_id) for result in results]
    assert after == before
    assert [each.status.value for each in found] == ["succeeded", "succeeded", "denied", "canceled"]
    withheld, large, denied, dependent = after
    assert (withheld.result["redaction_state"], withheld.persistence[0]["reason"]) == ("full", "fully_redacted")
    assert large.result["artifact_refs"][0]["id"] == large.result["resource_refs"][0]["id"] == "art_1"
    assert large.result["content"][0]["ref"]["digest"] == large.persistence[0]["persisted_ref"]["digest"]
    assert (denied.result["policy_refs"], denied.result["error"]["error_class"]) == (["house-rule"], "policy_blocked")
    assert dependent.result["error"]["error_class"] == "sibling_canceled"


@pytest.mark.requirement("AT-IFACE-08")
async def test_an_input_that_does_not_fit_is_refused_before_an_approver_is_asked(call, call_records):
    @tool(approval_required=True)
    async def pay(amount: int) -> str:
        """Pay. Not for refunds."""
        return "paid"

    async with Runtime.open(tools=[pay], approve="wait") as rt:
        recorded = await call_records(rt, await call(rt, "pay", {"amount": "much"}))
        assert await rt.approvals.list() == ()
    assert "permission.requested" not in recorded.event_types
    assert recorded.result["error"]["error_class"] == "schema_validation_failed"


@pytest.mark.requirement("AT-PERM-02", "AT-PERM-10")
async def test_a_profile_has_a_listed_risk_and_keeps_its_hints(changed, sound_export):
    hints = {
        "risk_level": "critical",
        "redaction_required": True,
        "retention_hint": "30d",
        "data_sensitivity": "personal",
        "permission_channel": "console",
        "policy_refs": ("policy:privacy",),
    }
    probe = changed(scripted_tool("probe"), permission_profile=hints)
    async with Runtime.open(tools=[probe], approve="wait") as rt:
        exported = await sound_export(rt)
    (profile,) = [each for each in exported if each["record_type"] == "tool_permission_profile"]
    assert profile.items() >= {**hints, "policy_refs": ["policy:privacy"]}.items()
    with pytest.raises(RecordError, match="risk_level"):
        from_json({**profile, "risk_level": "unheard-of"}, PermissionProfile)


@pytest.mark.requirement("AT-PERM-28")
@pytest.mark.parametrize("given_by", ["a person", "a rule that ends"])
async def test_a_permission_that_expires_in_the_queue_is_decided_again(
    bench, begun, rule, asked_questions, call_records, given_by
):
    release = asyncio.Event()

    async def block(job):
        await release.wait()

    probe, ends_at = scripted_tool("probe"), "2026-05-08T01:00:00Z"
    own = rule("ask", "*.probe") if given_by == "a person" else rule("allow", "*.probe", expires_at=ends_at)
    rules = [rule("allow", "*.blocker"), own]
    async with bench.open([probe, scripted_tool("blocker", block)], rules=rules) as rt:
        surface = await rt.surface()
        blocking = asyncio.ensure_future(rt.call("blocker", {}, surface=surface))
        await begun(rt)
        calling = asyncio.ensure_future(rt.call("probe", {}, surface=surface))
        if given_by == "a person":
            (question,) = await asked_questions(rt)
            await rt.approvals.decide(question.approval_id, "allow")
        await begun(rt, "tool.invocation.queued", tool_id="tool_test.probe")
        bench.clock.advance(365 * 86_400)
        release.set()
        await blocking
        for _ in range(10):
            await asyncio.sleep(0)
        asked_again = await rt.approvals.list()
        assert probe.executor.inputs == []
        await rt.approvals.decide(asked_again[0].approval_id, "allow")
        recorded = await call_records(rt, await calling)
    assert (recorded.result["status"], len(probe.executor.inputs)) == ("succeeded", 1)
    before = ["ask", "allow"] if given_by == "a person" else ["allow"]
    assert [each["behavior"] for each in recorded.decisions] == [*before, "ask", "allow"]
    assert recorded.decisions[-2]["decided_at"] > recorded.decisions[0]["decided_at"]


@pytest.mark.requirement("AT-EXEC-12")
async def test_profiles_say_whether_credentials_are_delegated_and_whether_it_works_offline(changed, records):
    @tool
    async def local() -> str:
        """Work here. Not for elsewhere."""
        return "here"

    remote = changed(
        scripted_tool("remote"), execution_profile={"supports_credential_delegation": True, "supports_offline": False}
    )
    async with Runtime.open(tools=[local, remote], approve="wait") as rt:
        profiles = await records(rt, "tool_execution_profile")
    facts = [(each["supports_credential_delegation"], each["supports_offline"]) for each in profiles]
    assert facts == [(False, True), (True, False)]


@pytest.mark.requirement("AT-EXEC-12", "AT-PERM-06")
async def test_the_profiles_of_a_function_name_its_credentials_and_no_value(records):
    @tool(credentials=["github"])
    async def push() -> str:
        """Push commits. Not for pulling."""
        return "pushed"

    async with Runtime.open(tools=[push], approve="wait", credentials={"github": "ghp_0123456789"}) as rt:
        execution, permission = [
            (await records(rt, kind))[0] for kind in ("tool_execution_profile", "tool_permission_profile")
        ]
    assert execution["supports_credential_delegation"] is True
    assert permission["credential_refs"] == ["github"]


@pytest.mark.requirement("AT-EXEC-04", "AT-EXEC-10")
async def test_artifacts_appear_only_where_they_were_declared(allow, call, changed):
    async def deliver(job):
        return NativeOutput(value="done", artifact_refs=(Ref(id="art_1", uri="file:///x"),))

    silent = scripted_tool("silent", deliver)
    saying = changed(scripted_tool("saying", deliver), execution_profile={"supports_artifacts": True})
    async with Runtime.open(tools=[silent, saying], rules=allow, approve="wait") as rt:
        refused, result = [await call(rt, name, {}) for name in ("silent", "saying")]
    assert (refused.error.error_code, refused.artifact_refs) == ("artifacts_not_declared", None)
    assert refused.native_output_ref
    assert [ref.id for ref in result.artifact_refs] == ["art_1"]


@pytest.mark.requirement("AT-IFACE-13")
async def test_a_running_tool_is_handed_its_deadline_the_signal_to_stop_and_a_way_to_report(
    allow, begun, call, call_records
):
    handed = {}

    async def look(job):
        handed.update(deadline=job.deadline_ns, asked=job.cancel.is_requested, why=job.cancel.reason)
        job.report("looking")
        try:
            await asyncio.Event().wait()
        finally:
            handed.update(asked_later=job.cancel.is_requested, why_later=job.cancel.reason)

    facts = {
        "execution_profile_ref": "execution:tool_test.probe",
        "timeout_ms": 60_000,
        "abort_semantics": "cooperative",
        "progress_schema": {"type": "object"},
        "context_modifier_policy": "forbid",
        "result_mapper": "identity",
    }
    async with Runtime.open(tools=[scripted_tool("probe", look, **facts)], rules=allow, approve="wait") as rt:
        calling = asyncio.ensure_future(call(rt, "probe", {}))
        await begun(rt, "tool.invocation.progress")
        await rt.cancel(await begun(rt))
        recorded = await call_records(rt, await calling)
        (interface,) = [
            to_json(each) async for each in rt.journal.export() if to_json(each)["record_type"] == "tool_interface"
        ]
    assert interface.items() >= facts.items()
    assert handed["deadline"] > 0
    assert (handed["asked"], handed["why"]) == (False, None)
    assert (handed["asked_later"], handed["why_later"]) == (True, "user_interruption")
    assert [each["message"] for each in recorded.progress] == ["looking"]


@pytest.mark.requirement("AT-PROG-08")
async def test_the_four_facts_of_a_cancellation_stay_apart(allow, begun, call, call_records):
    async def hang(job):
        await asyncio.Event().wait()

    async with Runtime.open(tools=[scripted_tool("probe", hang)], rules=allow, approve="wait") as rt:
        calling = asyncio.ensure_future(call(rt, "probe", {}))
        await rt.cancel(await begun(rt))
        recorded = await call_records(rt, await calling)
    facts = recorded.invocation["cancellation"]
    assert facts["cancel_requested"] <= facts["cancel_acknowledged"]
    assert (facts["abort_reason"], facts["outcome"]) == ("user_interruption", "canceled")
    assert [each for each in recorded.event_types if each.startswith("cancel")] == [
        "cancel_requested",
        "cancel_acknowledged",
        "canceled",
    ]


@pytest.mark.requirement("AT-PROG-07")
async def test_a_part_of_a_result_can_be_fetched_by_its_ref_while_the_tool_runs(
    bench, allow, begun, call, call_records
):
    release = asyncio.Event()

    async def part(job):
        job.report(partial={"rows": [1]})
        await release.wait()
        return "done"

    async with bench.open([scripted_tool("probe", part)], rules=allow) as rt:
        calling = asyncio.ensure_future(call(rt, "probe", {}))
        await begun(rt, "tool.invocation.partial_result")
        await asyncio.sleep(0)
        stored = {digest: data for digest, (data, _) in bench.payloads._stored.items()}
        release.set()
        recorded = await call_records(rt, await calling)
    ((ref,),) = [each["partial_result_refs"] for each in recorded.progress]
    assert stored == {ref.removeprefix("payload:"): b'{"rows":[1]}'}
    assert [each["status"] for each in recorded.progress] == ["partial_result"]


@pytest.mark.requirement("AT-PERS-12")
async def test_a_part_that_may_not_be_stored_is_announced_without_a_ref(bench, allow, call, call_records):
    async def part(job):
        job.report(partial={"rows": [1]})
        return "done"

    probe = scripted_tool("probe", part, persistence_policy_ref="never_persist")
    async with bench.open([probe], rules=allow) as rt:
        recorded = await call_records(rt, await call(rt, "probe", {}))
    assert ["partial_result_refs" in each for each in recorded.progress] == [False]
    assert bench.payloads._stored == {}


@pytest.mark.requirement("AT-RES-13")
async def test_what_describes_an_outcome_does_not_repeat_what_was_taken_out_of_it(allow, call, call_records):
    @tool
    async def login(password: Annotated[str, Sensitive]) -> dict[str, str]:
        """Log in. Not for services."""
        return {"said": f"hello {password}"}

    async with Runtime.open(tools=[login], rules=allow, approve="wait") as rt:
        recorded = await call_records(rt, await call(rt, "login", {"password": "correct horse"}))
    assert recorded.result["redaction_state"] == "partial"
    assert recorded.result["structured_content"] == {"said": "hello [redacted]"}
    assert "correct horse" not in str(recorded)
