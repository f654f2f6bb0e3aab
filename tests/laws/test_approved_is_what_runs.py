"""What ran is what was approved: the tool receives, byte for byte, what the last allowing decision judged."""

import asyncio
import copy

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from strategies import json_values

from agenttool.codec import digest_of, json_bytes
from agenttool.policy.approvals import Allow, Edit, Remember
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, HookEvent, RuleSource
from agenttool.testing.fakes import scripted_tool

inputs = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), json_values(), max_size=3)

edits = st.one_of(
    st.none(),
    st.just("allow"),
    st.just("remember"),
    inputs,
)


def spoil(value):
    """Change an object that somebody else was given, as careless or hostile code would."""
    if isinstance(value, dict):
        for inner in value.values():
            spoil(inner)
        value["spoiled"] = True
    elif isinstance(value, list):
        for inner in value:
            spoil(inner)
        value.append("spoiled")


def answer_of(edit):
    if isinstance(edit, dict):
        return Edit(input=edit)
    return Remember(rule={"behavior": "allow", "tool": "test.probe"}) if edit == "remember" else Allow()


def replying(reply):
    """Answer with a replacement, and leave the question in ruins."""

    def answer(question):
        seen = copy.deepcopy(question.input)
        spoil(question.input)
        return None if reply is None else {"updated_input": {**seen, **reply}}

    return answer


async def answered(rt, calling, edit):
    """Answer whatever is asked until the call has ended."""
    while not calling.done():
        await asyncio.sleep(0)
        for question in await rt.approvals.list():
            spoil(question.shown)
            await rt.approvals.decide(question.approval_id, answer_of(edit))
    return await calling


def probing(behavior):
    rule = Rule(ref="r", behavior=behavior, source=RuleSource.CLI_ARG, tools=("test.probe",))
    return scripted_tool("probe"), [rule]


@pytest.mark.requirement("AT-HOOK-11", "AT-IO-13", "AT-IO-15", "AT-PERM-15")
@pytest.mark.slow
@given(sent=inputs, by_hooks=st.lists(st.none() | inputs, max_size=2), edit=edits)
def test_the_tool_gets_the_very_input_that_the_last_decision_allowed(
    run, opened, hook, sound_export, *, sent, by_hooks, edit
):
    original = json_bytes(sent)
    hooks = [hook(HookEvent.PRE_TOOL_USE, replying(reply), name=f"h{n}") for n, reply in enumerate(by_hooks)]
    probe, rules = probing(Behavior.ALLOW if edit is None else Behavior.ASK)

    async def scenario():
        async with opened([probe], rules=rules, hooks=hooks) as rt:
            surface = await rt.surface()
            calling = asyncio.ensure_future(rt.call("probe", sent, surface=surface))
            await asyncio.sleep(0)
            spoil(sent)
            result = await answered(rt, calling, edit)
            assert result.status == "succeeded"
            return await sound_export(rt)

    exported = run(scenario())
    decisions = [each for each in exported if each["record_type"] == "tool_permission_decision"]
    (invocation,) = [each for each in exported if each["record_type"] == "tool_invocation"]
    (received,) = probe.executor.inputs
    judged = invocation.get("call_input", invocation["permission_input"])
    event(f"{len(decisions)} decisions, call_input recorded: {'call_input' in invocation}")
    assert [each["behavior"] for each in decisions] == (["allow"] if edit is None else ["ask", "allow"])
    assert decisions[-1]["input_digest"] == digest_of(received)
    assert json_bytes(judged) == json_bytes(received)
    assert json_bytes(invocation["model_input"]) == original
    assert b"spoiled" not in json_bytes(received)


def test_an_edit_that_is_changed_after_it_was_given_changes_nothing(run, opened):
    probe, rules = probing(Behavior.ASK)

    async def scenario():
        async with opened([probe], rules=rules) as rt:
            surface = await rt.surface()
            calling = asyncio.ensure_future(rt.call("probe", {"amount": 1}, surface=surface))
            async for _, event in rt.journal.events():
                if event.event_type == "tool.permission.requested":
                    break
            edited = {"amount": 2}
            (question,) = await rt.approvals.list()
            await rt.approvals.decide(question.approval_id, "allow", input=edited)
            edited["amount"] = 1_000_000
            await calling

    run(scenario())
    assert probe.executor.inputs == [{"amount": 2}]
