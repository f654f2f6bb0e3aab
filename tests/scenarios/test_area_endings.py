"""Ways to an end that must not be mistaken for one another, each provoked through the public door."""

import asyncio

import pytest

from agenttool import Context, Runtime, StoreError, ToolCall, tool
from agenttool.records import AbortReason, SchedulerPolicy, SiblingFailurePolicy

SAFE = {"read_only": True, "concurrency_safe": True, "open_world": False}


@tool(**SAFE)
async def hang() -> str:
    """Wait for ever. Not for results."""
    await asyncio.Event().wait()
    return "never"


@tool(timeout_s=0.02, **SAFE)
async def dawdle() -> str:
    """Take too long. Not for results."""
    await asyncio.Event().wait()
    return "never"


@tool(**SAFE)
async def fail() -> str:
    """Fail. Not for results."""
    raise ValueError("as asked")


@tool(open_world=False)
async def pay(amount: int) -> str:
    """Pay. Not for looking."""
    return f"paid {amount}"


async def stopped(rt, surface, begun, reason):
    calling = asyncio.ensure_future(rt.call("hang", {}, surface=surface))
    assert await rt.cancel(await begun(rt), reason=reason)
    return await calling


async def beside_a_failure(rt, surface, begun):
    calls = [ToolCall(name="fail", arguments={}), ToolCall(name="hang", arguments={})]
    policy = SchedulerPolicy(
        scheduler_policy_id="sched_mine", sibling_failure_policy=SiblingFailurePolicy.CANCEL_SIBLINGS
    )
    return (await rt.batch(calls, surface=surface, policy=policy))[1]


async def rejected(rt, surface, begun):
    calling = asyncio.ensure_future(rt.call("pay", {"amount": 1}, surface=surface))
    await begun(rt, "tool.permission.requested")
    (question,) = await rt.approvals.list()
    await rt.approvals.decide(question.approval_id, "deny")
    return await calling


ENDINGS = {
    "user": (lambda *a: stopped(*a, AbortReason.USER_INTERRUPTION), "canceled", "canceled", "user_interruption"),
    "fallback": (lambda *a: stopped(*a, AbortReason.FALLBACK), "discarded", "streaming_fallback_discarded", "fallback"),
    "sibling": (beside_a_failure, "synthetic_error", "sibling_canceled", "sibling_error"),
    "time": (lambda rt, s, _: rt.call("dawdle", {}, surface=s), "timed_out", "timeout", "timeout"),
    "denied": (lambda rt, s, _: rt.call("fail", {}, surface=s), "denied", "permission_denied", None),
    "rejected": (rejected, "rejected", "approval_rejected", None),
    "misfit": (lambda rt, s, _: rt.call("pay", {}, surface=s), "failed", "schema_validation_failed", None),
    "unknown": (lambda rt, s, _: rt.call("gone", {}, surface=s), "failed", "unknown_tool", None),
}


@pytest.mark.requirement(
    "AT-ERR-10", "AT-RES-06", "AT-RES-10", "AT-PIPE-25", "AT-PIPE-26", "AT-PROG-09", "AT-SCHED-19"
)  # fmt: skip
@pytest.mark.parametrize("ending", ENDINGS)
async def test_every_ending_is_one_result_and_one_terminal_event_that_name_it(begun, rule, call_records, ending):
    provoke, status, error_class, abort_reason = ENDINGS[ending]
    rules = [rule("allow", "local.hang", "local.dawdle"), rule("ask", "local.pay")]
    rules += [rule("deny" if ending == "denied" else "allow", "local.fail")]
    async with Runtime.open(tools=[hang, dawdle, fail, pay], rules=rules, approve="wait") as rt:
        result = await provoke(rt, await rt.surface(), begun)
        recorded = await call_records(rt, result)
    found = (result.status, result.error.error_class, result.abort_reason, result.is_error)
    assert found == (status, error_class, abort_reason, True)
    ends = [each for each in recorded.event_types if each in ("succeeded", "failed", "canceled", "timed_out")]
    assert ends == [{"time": "timed_out"}.get(ending, "canceled" if abort_reason else "failed")]
    assert recorded.event_types.count("result.created") == 1
    assert recorded.event_types[-1] == ends[0]
    assert result.error.phase != "emit_terminal"
    if abort_reason:
        assert result.error.abort_reason == abort_reason


@tool(open_world=False, changes_context=True)
async def move(to: str, context: Context) -> str:
    """Change the place. Not for staying."""
    context.change_shared({"place": to})
    return to


@tool(changes_context=True, **SAFE)
async def drift(to: str, context: Context) -> str:
    """Change the place, beside others. Not for staying."""
    await asyncio.sleep(0)
    context.change_shared({"place": to})
    return to


@tool(**SAFE)
async def sneak(to: str, context: Context) -> str:
    """Change the place without a word. Not for staying."""
    context.change_shared({"place": to})
    return to


@tool(open_world=False, changes_context=True, timeout_s=0.02)
async def move_and_fail(how: str, context: Context) -> str:
    """Change the place, and do not succeed. Not for staying."""
    context.change_shared({"place": how})
    if how == "hangs":
        await asyncio.Event().wait()
    raise ValueError("as asked")


@pytest.mark.requirement("AT-PIPE-25")
@pytest.mark.parametrize(("how", "end"), [("fails", "failed"), ("hangs", "timed_out")])
async def test_a_call_that_does_not_succeed_changes_no_context(rule, call_records, how, end):
    async with Runtime.open(tools=[move_and_fail], rules=[rule("allow", "local.move_and_fail")]) as rt:
        recorded = await call_records(rt, await rt.call("move_and_fail", {"how": how}))
        assert "place" not in rt.calls.shared
    ends = [each for each in recorded.events if each["event_type"].endswith(f"invocation.{end}")]
    assert [each["data"]["context_modifiers"]["fate"] for each in ends] == ["rejected"]


@pytest.mark.requirement("AT-PIPE-25")
async def test_a_result_that_the_journal_rejects_ends_the_call_with_the_phase_before(rule, call_records, monkeypatch):
    async with Runtime.open(tools=[pay], rules=[rule("allow", "local.pay")]) as rt:
        append, rejected = rt._core.journal.log.append, []

        def reject_success(fact):
            if fact.step.ends and not rejected:
                rejected.append(fact.step)
                raise StoreError("the fact is too large")
            append(fact)

        monkeypatch.setattr(rt._core.journal, "_append", reject_success)
        result = await rt.call("pay", {"amount": 1})
        recorded = await call_records(rt, result)
    assert len(rejected) == 1
    assert (result.error.error_code, recorded.result["error"]["error_code"]) == (
        "result_not_stored",
        "result_not_stored",
    )
    assert (recorded.event_types.count("result.created"), recorded.event_types[-1]) == (1, "failed")


async def moved(rt, name, policy, count=2):
    calls = [ToolCall(name=name, arguments={"to": f"place {number}"}) for number in range(count)]
    mine = SchedulerPolicy(scheduler_policy_id="sched_mine", context_modifier_policy=policy)
    await rt.batch(calls, surface=await rt.surface(), policy=mine)
    recorded = [
        event.data async for event in rt.journal.export() if getattr(event, "event_type", "").endswith("succeeded")
    ]
    return rt.calls.shared.get("place"), [data["context_modifiers"]["fate"] for data in recorded]


@pytest.mark.requirement("AT-SCHED-05", "AT-EXEC-04", "AT-EXEC-13", "AT-PIPE-25", "AT-PIPE-27", "AT-PIPE-29")
@pytest.mark.parametrize(
    ("name", "policy", "place", "fates"),
    [
        ("move", "allow_serial_only", "place 1", ["applied", "applied"]),
        ("drift", "allow_serial_only", None, ["rejected", "rejected"]),
        ("drift", "defer_until_batch_complete", "place 1", ["deferred", "deferred"]),
        ("move", "forbid", None, ["rejected", "rejected"]),
        ("sneak", "defer_until_batch_complete", None, ["rejected", "rejected"]),
    ],
)
async def test_a_change_of_context_is_made_alone_after_the_batch_or_never(allow, changed, name, policy, place, fates):
    waits = changed(drift.declared, interface={"context_modifier_policy": "defer_until_batch_complete"})
    tools = [move, waits if policy == "defer_until_batch_complete" else drift, sneak]
    for _ in range(5):  # which one is faster must not matter
        async with Runtime.open(tools=tools, rules=allow, approve="wait") as rt:
            assert await moved(rt, name, policy) == (place, fates)
