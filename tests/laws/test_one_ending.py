"""However hooks, answers, cancels and time limits fall together: one result, one terminal event, a legal way there."""

import asyncio
import dataclasses
from asyncio import CancelledError
from itertools import pairwise

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from agenttool import ToolResult
from agenttool.policy.approvals import Allow, Deny, Edit, Remember
from agenttool.policy.rules import Rule
from agenttool.records import (
    OUTCOMES,
    Behavior,
    HookEvent,
    InvocationStatus,
    RuleSource,
    ToolInvocation,
    may_follow,
    replace,
)
from agenttool.testing.fakes import scripted_tool

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
TERMINAL = ("succeeded", "failed", "canceled", "timed_out")
HANG = object()

replies = st.sampled_from(
    [
        None,
        None,
        {"message": "seen"},
        {"progress": "looking"},
        {"updated_input": {"n": 7}},
        {"updated_input": {"n": "not a number"}},
        {"updated_input": {"stranger": 1}},
        {"permission_result": "allow"},
        {"permission_result": "ask"},
        {"permission_result": "deny", "permission_reason": "no"},
        {"permission_result": "passthrough"},
        {"additional_context": [{"note": "hello"}]},
        {"stop": "office hours"},
        {"updated_output": "another"},
        {"updated_output": 5},
        {"no_such": "word"},
        "no reply at all",
        KeyError("whoops"),
        HANG,
    ]
)
hooks = st.lists(st.tuples(st.sampled_from(list(HookEvent)), replies), max_size=3)

behaviors = st.sampled_from(["return", "return nothing", "raise", "hang", "ignore cancel", "report", "yield control"])

answers = st.sampled_from(
    [
        Allow(),
        Deny(message="no"),
        Edit(input={"n": 3}),
        Edit(input={"n": "x"}),
        Edit(input=[1]),
        Remember(rule={"behavior": "allow", "tool": "test.probe"}),
        Remember(rule={"behavior": "deny", "tool": "test.probe"}),
    ]
)
deeds = st.one_of(
    st.tuples(st.just("answer"), answers),
    st.tuples(st.sampled_from(["cancel", "interrupt", "cancel the caller", "close", "let time pass"]), st.none()),
)
script = st.lists(st.tuples(st.integers(0, 6), deeds), max_size=4)


async def behave(behavior, job):
    if behavior == "raise":
        raise ValueError("out of ink")
    if behavior == "hang":
        await asyncio.Event().wait()
    while behavior == "ignore cancel":
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue
    if behavior == "report":
        job.report("half way", percent=50)
        job.report(partial="the first half")
    if behavior == "yield control":
        await asyncio.sleep(1)
    return None if behavior == "return nothing" else "done"


async def reply_with(reply):
    if reply is HANG:
        await asyncio.Event().wait()
    if isinstance(reply, Exception):
        raise reply
    return reply


async def perform(rt, calling, deed, with_what):
    """Do one thing to a call that is under way."""
    if deed == "cancel":
        known = {each.invocation_id async for each in rt.journal.export() if isinstance(each, ToolInvocation)}
        for invocation_id in known:
            await rt.cancel(invocation_id)
    elif deed == "answer":
        for question in await rt.approvals.list():
            await rt.approvals.decide(question.approval_id, with_what)
    elif deed == "interrupt":
        rt.calls.interrupt()
    elif deed == "cancel the caller":
        calling.cancel()
    elif deed == "close":
        await rt.__aexit__(None, None, None)
    elif deed == "let time pass":
        await asyncio.sleep(5)


situations = st.fixed_dictionaries(
    {
        "behavior": behaviors,
        "rule": st.sampled_from(["allow", "allow", "allow", "ask", "ask", "deny", None]),
        "arguments": st.sampled_from([{"n": 1}, {"n": 2}, {"n": 3}, {"n": 4}, {}, '{"n": 5}', {"n": "x"}, "{"]),
        "supports_cancel": st.booleans(),
        "timeout_ms": st.sampled_from([None, 2000]),
    }
)


@pytest.mark.requirement("AT-RES-11", "AT-EVT-12", "AT-INV-08", "AT-INV-13", "AT-PIPE-02")
@pytest.mark.slow
@given(situation=situations, hooks=hooks, script=script)
def test_every_call_ends_once_and_came_there_by_a_legal_way(
    run, opened, hook, sound_export, *, situation, hooks, script
):
    async def work(job):
        return await behave(situation["behavior"], job)

    plain = scripted_tool("probe", work, schema=SCHEMA, timeout_ms=situation["timeout_ms"])
    profile = replace(plain.execution_profile, supports_cancel=situation["supports_cancel"])
    probe = dataclasses.replace(plain, execution_profile=profile)
    bystander = scripted_tool("bystander", is_read_only=True)
    rules = [Rule(ref="b", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("test.bystander",))]
    if situation["rule"]:
        rules.append(
            Rule(ref="p", behavior=Behavior(situation["rule"]), source=RuleSource.CLI_ARG, tools=("test.probe",))
        )
    standing = [
        hook(place, lambda _, reply=reply: reply_with(reply), name=f"h{n}", tools=("test.probe",))
        for n, (place, reply) in enumerate(hooks)
    ]

    async def scenario():
        rt = opened([probe, bystander], rules=rules, hooks=standing)
        surface = await rt.surface()
        calling = asyncio.ensure_future(rt.call("probe", situation["arguments"], surface=surface))
        for ticks, (deed, with_what) in script:
            for _ in range(ticks):
                await asyncio.sleep(0)
            await perform(rt, calling, deed, with_what)
        (ended,) = await asyncio.gather(calling, return_exceptions=True)
        deeds = {deed for _, (deed, _) in script}
        assert isinstance(ended, ToolResult) or ("cancel the caller" in deeds and isinstance(ended, CancelledError))
        beside = await rt.call("bystander", {}, surface=surface)
        door = "synthetic_error" if "close" in deeds else "succeeded"
        assert beside.status == door, "whatever happened to one call, the next finds the door as it is"
        check_the_ending(await sound_export(rt), beside.invocation_id, len(probe.executor.inputs))
        assert await rt.approvals.list() == ()

    run(scenario())


def check_the_ending(exported, bystander, runs):
    own = [each for each in exported if each.get("invocation_id") not in (None, bystander)]
    by_type = {}
    for record in own:
        by_type.setdefault(record["record_type"], []).append(record)
    if not own:  # the caller was canceled before the call began
        assert runs == 0
        return
    (invocation,), (result,), events = by_type["tool_invocation"], by_type["tool_result"], by_type["tool_event"]
    kinds = [each["event_type"].removeprefix("tool.invocation.") for each in events]
    moves = [InvocationStatus(move["status"]) for move in invocation["status_transitions"]]
    assert [kind for kind in kinds if kind in TERMINAL] == kinds[-1:]
    assert [each["data"]["sequence"] for each in events] == list(range(1, len(events) + 1))
    assert all(may_follow(before, after) for before, after in pairwise(moves))
    assert moves[-1].is_terminal
    assert not any(move.is_terminal for move in moves[:-1])
    error = result.get("error", {})
    ending = (invocation["status"], result["status"], result.get("abort_reason"), f"tool.invocation.{kinds[-1]}")
    rows = [
        (row.invocation_status, row.result_status, row.abort_reason, row.terminal_event)
        for row in OUTCOMES
        if error.get("error_class") in (row.error_classes or (None,))
    ]
    assert ending in rows
    event(f"{invocation['status']} {error.get('error_class', '')}")
    assert runs == kinds.count("started") <= 1
    assert ("started_at" in invocation) == bool(runs)
