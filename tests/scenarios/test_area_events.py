"""Events: which are recorded, in which order, and how they read elsewhere."""

import asyncio

import pytest

from agenttool import Context, Runtime, ToolCall, tool
from agenttool.records import OutputContract
from agenttool.schema.compile import Checker
from agenttool.testing.fakes import scripted_tool

CLOUD_EVENT = {
    "type": "object",
    "required": ["id", "source", "specversion", "type"],
    "properties": {
        "id": {"type": "string", "minLength": 1},
        "source": {"type": "string", "format": "uri-reference", "minLength": 1},
        "specversion": {"const": "1.0"},
        "type": {"type": "string", "minLength": 1},
        "subject": {"type": ["string", "null"], "minLength": 1},
        "time": {"type": "string", "format": "date-time", "minLength": 1},
        "datacontenttype": {"type": "string", "minLength": 1},
        "data": {"type": ["object", "string", "number", "array", "boolean", "null"]},
    },
}
"""What CloudEvents 1.0 asks of an event in JSON."""


@pytest.mark.requirement("AT-EVT-03")
async def test_every_declaration_is_reported(records):
    async with Runtime.open(tools=[scripted_tool("first")], approve="wait") as rt:
        rt.declare(scripted_tool("second"))
        events = await records(rt, "tool_event")
    recorded = [(each["event_type"], each["data"]["tool_id"]) for each in events]
    assert recorded == [("tool.declared", "tool_test.first"), ("tool.declared", "tool_test.second")]


@pytest.mark.requirement("AT-EVT-07")
async def test_hooks_on_each_side_are_bracketed_by_their_events(allow, call, hook, call_records):
    hooks = [hook({"message": "a"}), hook({"message": "b"}, "post_tool_use")]
    async with Runtime.open(tools=[scripted_tool("probe")], rules=allow, hooks=hooks, approve="wait") as rt:
        recorded = await call_records(rt, await call(rt, "probe", {}))
    assert [each for each in recorded.event_types if each.startswith("hook") or each == "started"] == [
        "hook.pre.started",
        "hook.pre.completed",
        "started",
        "hook.post.started",
        "hook.post.completed",
    ]


@pytest.mark.requirement("AT-EVT-08", "AT-PERM-27")
async def test_a_decision_is_asked_for_and_recorded_with_its_id(asked_questions, call, call_records):
    async with Runtime.open(tools=[scripted_tool("probe")], approve="wait") as rt:
        calling = asyncio.ensure_future(call(rt, "probe", {}))
        (question,) = await asked_questions(rt)
        await rt.approvals.decide(question.approval_id, "allow")
        recorded = await call_records(rt, await calling)
    events = {event["event_type"]: event["data"] for event in recorded.events}
    ask, answer = recorded.decisions
    requested, decided = events["tool.permission.requested"], events["tool.permission.decided"]
    assert (requested["decision_id"], requested["approval_id"]) == (ask["decision_id"], question.approval_id)
    assert (decided["decision_id"], decided["behavior"]) == (answer["decision_id"], "allow")
    assert recorded.invocation["approval_request_ref"] == question.approval_id
    assert recorded.event_types.index("permission.requested") < recorded.event_types.index("permission.decided")


@pytest.mark.requirement("AT-EVT-10", "AT-EXEC-05")
async def test_each_update_and_each_part_is_an_event_and_a_silent_tool_promises_none(
    allow, call, records, call_records
):
    @tool
    async def bake(context: Context) -> str:
        """Bake. Not for cakes."""
        context.progress("kneading", percent=10)
        context.partial("the first loaf")
        context.progress("baking", percent=60)
        return "bread"

    @tool
    async def sleep() -> str:
        """Sleep. Not for work."""
        return "rested"

    async with Runtime.open(tools=[bake, sleep], rules=allow, approve="wait") as rt:
        baked, slept = [await call_records(rt, await call(rt, name, {})) for name in ("bake", "sleep")]
        flags = [each["supports_progress"] for each in await records(rt, "tool_execution_profile")]
    assert flags == [True, False]
    assert [each["status"] for each in baked.progress] == ["running", "partial_result", "running"]
    assert (baked.event_types.count("progress"), baked.event_types.count("partial_result")) == (2, 1)
    assert [each["data"]["progress"] for each in baked.events if "progress" in each["data"]] == [1, 2, 3]
    assert slept.progress == []


@pytest.mark.requirement("AT-EVT-11")
async def test_results_are_yielded_in_the_order_in_which_they_are_released(allow, records):
    release = asyncio.Event()

    async def slow(job):
        await release.wait()

    async def quick(job):
        release.set()

    tools = [
        scripted_tool("slow", slow, is_concurrency_safe=True),
        scripted_tool("quick", quick, is_concurrency_safe=True),
    ]
    async with Runtime.open(tools=tools, rules=allow, approve="wait") as rt:
        surface = await rt.surface()
        await rt.batch([ToolCall(name=name, arguments={}) for name in ("slow", "quick")], surface=surface)
        events = await records(rt, "tool_event")
    yielded = [each["tool_id"] for each in events if each["event_type"] == "tool.invocation.yielded"]
    assert yielded == ["tool_test.slow", "tool_test.quick"]


@pytest.mark.requirement("AT-EVT-11", "AT-EVT-12")
async def test_every_call_of_a_batch_that_its_caller_left_early_has_its_one_end(allow, begun, records):
    forever, release = asyncio.Event(), asyncio.Event()

    async def hang(job):
        await forever.wait()

    async def quick(job):
        release.set()

    tools = [
        scripted_tool("hang", hang, is_concurrency_safe=True),
        scripted_tool("quick", quick, is_concurrency_safe=True),
    ]
    async with Runtime.open(tools=tools, rules=allow, approve="wait") as rt:
        surface = await rt.surface()
        calls = [ToolCall(name=name, arguments={}) for name in ("hang", "quick", "quick")]
        leaving = asyncio.ensure_future(rt.batch(calls, surface=surface))
        await release.wait()
        await begun(rt, "tool.result.created")
        held = [each["status"] for each in await records(rt, "tool_invocation")]
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        events = await records(rt, "tool_event")
    assert "succeeded" not in held
    ends = [
        each["event_type"].rpartition(".")[2] for each in events if each["event_type"].startswith("tool.invocation")
    ]
    assert [end for end in ends if end in ("succeeded", "canceled")] == ["canceled", "succeeded", "succeeded"]
    assert ends.count("yielded") == 3


@pytest.mark.requirement("AT-EVT-13")
async def test_a_plain_a_large_and_a_withheld_result_are_reported_with_their_ids(allow, call, changed, call_records):
    tools = [
        scripted_tool("plain"),
        scripted_tool("large", max_inline_chars=1),
        changed(scripted_tool("withheld"), declaration={"output_contract": OutputContract(redaction_rules=("*",))}),
    ]
    wanted = {"plain": ["created"], "large": ["persisted", "created"], "withheld": ["redacted", "created"]}
    async with Runtime.open(tools=tools, rules=allow, approve="wait") as rt:
        for name, kinds in wanted.items():
            recorded = await call_records(rt, await call(rt, name, {}))
            events = [each for each in recorded.events if each["event_type"].startswith("tool.result.")]
            assert [each["event_type"].rpartition(".")[2] for each in events] == kinds
            assert {each["data"].get("result_id") for each in events} == {recorded.result["result_id"]}


@pytest.mark.requirement("AT-EVT-15")
async def test_an_event_reads_as_a_cloud_event(allow, call, records):
    checker = Checker(CLOUD_EVENT)
    async with Runtime.open(tools=[scripted_tool("probe")], rules=allow, approve="wait") as rt:
        await call(rt, "probe", {})
        events = await records(rt, "tool_event")
    mapped = [
        {
            "specversion": "1.0",
            "id": event["event_id"],
            "type": event["event_type"],
            "source": event["source"],
            "time": event["time"],
            **({"subject": event["subject"]} if "subject" in event else {}),
            "datacontenttype": "application/json",
            "data": event["data"],
        }
        for event in events
    ]
    assert len(mapped) > 10
    assert [checker.misfits(each) for each in mapped] == [[]] * len(mapped)
    assert len({(each["source"], each["id"]) for each in mapped}) == len(mapped)
