"""Twelve phases in order, one failure in each of them, and what each failure is called."""

import asyncio
import dataclasses

import pytest

from agenttool import Runtime, ToolFailure
from agenttool.config import Setting
from agenttool.policy.rule_settings import read_rules
from agenttool.records import ErrorClass, ToolError
from agenttool.stores.memory import MemoryPayloads
from agenttool.testing.fakes import scripted_tool

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def refusing(error_class, message="as asked"):
    """Give a check that refuses every input in one way."""

    def check(arguments):
        raise ToolFailure(ToolError(error_class=ErrorClass(error_class), message=message))

    return check


def failing(words="as asked", kind=ValueError):
    async def work(job):
        raise kind(words)

    return work


def giving(output):
    async def work(job):
        return output

    return work


@pytest.mark.requirement("AT-PIPE-01")
async def test_a_call_passes_its_phases_in_order(bench, call, hook, rule, call_records):
    passed = []

    def passing(name, value=None):
        def note(*_):
            passed.append(name)
            return value

        return note

    class NotingStore(MemoryPayloads):
        async def put(self, data, digest):
            passed.append("persist_result")
            return await super().put(data, digest)

    async def work(job):
        passed.append("execute")
        return "x" * 50_000

    def normalize(arguments):
        passed.append("prepare_observable_input")
        return {**arguments, "n": arguments["n"] + 1}

    probe = dataclasses.replace(
        scripted_tool("probe", work, schema=SCHEMA, is_read_only="classifier:noting", result_mapper="m"),
        check_values=passing("validate_values"),
        normalize=normalize,
        classifiers={"noting": passing("permission", value=True)},
        map_result=lambda output: [passed.append("map_result"), output][1],
    )
    hooks = [
        hook(passing("pre_hooks"), "pre_tool_use"),
        hook(passing("permission_request"), "permission_request"),
        hook(passing("permission_decision"), "permission_decision"),
        hook(passing("post_hooks"), "post_tool_use"),
    ]
    bench.payloads = NotingStore()
    async with bench.open([probe], rules=[rule("allow", "*")], hooks=hooks) as rt:
        recorded = await call_records(rt, await call(rt, "probe", {"n": 1}))
    first_seen = list(dict.fromkeys(passed))
    assert first_seen == [
        "validate_values",
        "prepare_observable_input",
        "pre_hooks",
        "permission_request",
        "permission",
        "permission_decision",
        "execute",
        "map_result",
        "post_hooks",
        "persist_result",
    ]
    assert probe.executor.inputs == [{"n": 2}]
    assert recorded.event_types[0] == "planned"
    assert "permission.decided queued started" in " ".join(recorded.event_types).replace(
        "hook.pre.started hook.pre.completed ", ""
    )
    assert recorded.event_types[-4:] == ["result.persisted", "result.created", "yielded", "succeeded"]


BEFORE = {
    "resolve_tool": "unknown_tool",
    "parse_schema": "schema_validation_failed",
    "validate_values": "invalid_arguments",
    "prepare_observable_input": "input_mutation_failed",
    "pre_hooks, stopped": "hook_blocked",
    "pre_hooks, broken": "hook_failed",
    "permission": "permission_denied",
    "schedule": "canceled",
}
AFTER = {
    "execute": "execution_failed",
    "map_result": "result_mapping_failed",
    "post_hooks, stopped": "hook_blocked",
    "post_hooks, broken": "post_hook_failed",
    "persist_result": "result_too_large",
}


def broken(*_):
    raise LookupError("as asked")


def probe_of(phase):
    plain = scripted_tool("probe", schema=SCHEMA)
    changes = {
        "validate_values": {"check_values": refusing("invalid_arguments")},
        "prepare_observable_input": {"normalize": broken},
        "map_result": {"map_result": broken},
        "execute": {"executor": scripted_tool("other", failing()).executor},
    }
    if phase == "persist_result":
        plain = scripted_tool("probe", schema=SCHEMA, max_inline_chars=1, persistence_policy_ref="drop_with_reason")
    return dataclasses.replace(plain, **changes.get(phase, {}))


def hooks_of(phase, hook):
    event = "pre_tool_use" if phase.startswith("pre") else "post_tool_use"
    answers = {"stopped": {"stop": "as asked"}, "broken": broken}
    return [hook(answers[phase.rpartition(" ")[2]], event)] if "hooks" in phase else []


@pytest.mark.requirement("AT-PIPE-02", "AT-PIPE-10", "AT-ERR-03", "AT-RES-10")
@pytest.mark.parametrize("phase", [*BEFORE, *AFTER])
async def test_a_failure_in_any_phase_skips_the_rest_and_is_recorded_once_by_its_own_name(
    bench, hook, rule, call_records, begun, phase
):
    probe = probe_of(phase)
    blocker = asyncio.Event()

    async def block(job):
        await blocker.wait()

    rules = [rule("allow", "*")] + ([rule("deny", "*.probe")] if phase == "permission" else [])
    async with bench.open([probe, scripted_tool("blocker", block)], rules=rules, hooks=hooks_of(phase, hook)) as rt:
        surface = await rt.surface()
        name = "nobody" if phase == "resolve_tool" else "probe"
        arguments = {"n": "x"} if phase == "parse_schema" else {"n": 1}
        if phase == "schedule":
            first = asyncio.ensure_future(rt.call("blocker", {}, surface=surface))
            await begun(rt)
            queued = asyncio.ensure_future(rt.call(name, arguments, surface=surface))
            await rt.cancel(await begun(rt, "tool.invocation.queued", tool_id="tool_test.probe"))
            result = await queued
            blocker.set()
            await first
        else:
            result = await rt.call(name, arguments, surface=surface)
        recorded = await call_records(rt, result)
    failure = recorded.result["error"]
    assert failure["error_class"] == (BEFORE | AFTER)[phase]
    assert failure.get("phase", phase) == phase.partition(",")[0]
    assert (recorded.result["is_error"], recorded.result["invocation_id"]) == (True, result.invocation_id)
    assert len(probe.executor.inputs) == (phase in AFTER)
    assert failure["retry"]["safe"] == (phase not in AFTER)
    assert [
        each for each in recorded.event_types if each in ("succeeded", "failed", "canceled")
    ] == recorded.event_types[-1:]


@pytest.mark.requirement("AT-PIPE-18")
async def test_an_output_that_cannot_be_mapped_stays_reachable(allow, bench, call):
    mapped = []
    good = dataclasses.replace(scripted_tool("good"), map_result=lambda output: [mapped.append(1), output][1])
    bad = dataclasses.replace(scripted_tool("bad"), map_result=broken)
    async with bench.open([good, bad], rules=allow) as rt:
        await call(rt, "good", {})
        result = await call(rt, "bad", {})
    assert mapped == [1]
    assert result.error.error_class == "result_mapping_failed"
    assert await bench.payloads.get(result.native_output_ref.removeprefix("payload:")) == b'"done"'


async def test_what_a_tool_forbids_to_store_is_not_stored_because_its_mapping_failed(allow, bench, call):
    secretive = dataclasses.replace(scripted_tool("probe", persistence_policy_ref="never_persist"), map_result=broken)
    async with bench.open([secretive], rules=allow) as rt:
        result = await call(rt, "probe", {})
    assert (result.error.error_class, result.native_output_ref) == ("result_mapping_failed", None)
    assert bench.payloads._stored == {}


@pytest.mark.requirement("AT-PIPE-21")
async def test_after_a_success_the_hook_of_success_runs_and_after_a_failure_that_of_failure(
    allow, call, hook, call_records
):
    received = []
    hooks = [
        hook(lambda question: received.append((question.tool_name, question.hook_event.value)), event)
        for event in ("post_tool_use", "post_tool_use_failure")
    ]
    tools = [scripted_tool("good"), scripted_tool("bad", failing())]
    async with Runtime.open(tools=tools, rules=allow, hooks=hooks, approve="wait") as rt:
        good, bad = [await call_records(rt, await call(rt, name, {})) for name in ("good", "bad")]
    assert received == [("test.good", "post_tool_use"), ("test.bad", "post_tool_use_failure")]
    assert [each["hook_event"] for each in good.hooks + bad.hooks] == ["post_tool_use", "post_tool_use_failure"]


@pytest.mark.requirement("AT-PIPE-22")
@pytest.mark.parametrize("answer", [{"stop": "enough"}, broken], ids=["stop", "fault"])
async def test_a_post_hook_that_ends_a_call_does_not_hide_that_it_ran(allow, bench, call, hook, call_records, answer):
    probe = scripted_tool("probe")
    async with bench.open([probe], rules=allow, hooks=[hook(answer, "post_tool_use")]) as rt:
        recorded = await call_records(rt, await call(rt, "probe", {}))
    assert recorded.result["error"]["error_class"] == ("post_hook_failed" if answer is broken else "hook_blocked")
    assert recorded.result["error"]["retry"]["safe"] is False
    assert (recorded.invocation["status"], len(probe.executor.inputs)) == ("failed", 1)
    assert await bench.payloads.get(recorded.result["native_output_ref"].removeprefix("payload:")) == b"done"


@pytest.mark.requirement("AT-IFACE-07")
async def test_a_denied_target_is_not_even_looked_at(call, rule):
    looked_at = []
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    probe = dataclasses.replace(
        scripted_tool("read", schema=schema, deny_before_io=True),
        preflight=looked_at.append,
    )
    members = {"name": "vault", "behavior": "deny", "tool": "*", "path": "/vault/**"}
    by_path = read_rules([Setting(members=members, source="project_settings")])
    for rules in ([rule("deny", "*.read")], by_path):
        async with Runtime.open(tools=[probe], rules=rules, approve="wait") as rt:
            result = await call(rt, "read", {"path": "/vault/key"})
        assert result.error.error_class == "permission_denied"
        assert looked_at == []
