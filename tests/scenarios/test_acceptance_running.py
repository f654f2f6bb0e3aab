"""The standard's acceptance scenarios 9 to 11 and 17: progress, company, failing neighbours, native ids."""

import asyncio
import dataclasses
import threading
from itertools import pairwise

import pytest

from agenttool import Context, Progress, Runtime, ToolCall, tool
from agenttool.records import (
    A2aMapping,
    BrowserMapping,
    CliMapping,
    FunctionMapping,
    McpMapping,
    OpenApiMapping,
    SchedulerPolicy,
    SiblingFailurePolicy,
    ToolKind,
    replace,
)
from agenttool.testing.fakes import scripted_tool


def policy(**fields):
    return SchedulerPolicy(scheduler_policy_id="sched_scenario", **fields)


@pytest.mark.requirement("AT-ACC-09", "AT-EXEC-06", "AT-PROG-02", "AT-PROG-11")
async def test_09_a_long_call_emits_ordered_progress_and_reports_its_cancellation_support_truthfully(
    allow, begun, call, records, call_records
):
    proceed = threading.Event()

    @tool
    async def bake(context: Context, loaves: int):
        """Bake bread, and be ready to stop. Not for cakes."""
        for loaf in range(1, loaves + 1):
            yield Progress(f"loaf {loaf}", percent=100 * loaf / loaves)
        context.progress("cooling", step="rest")
        await asyncio.Event().wait()
        yield "never"

    @tool
    def grind(context: Context) -> str:
        """Grind in a thread that cannot be stopped. Not for hurry."""
        context.progress("grinding")
        proceed.wait(30)
        return "ground"

    async with Runtime.open(tools=[bake, grind], rules=allow) as rt:
        baking = asyncio.ensure_future(call(rt, "bake", {"loaves": 3}))
        await _received(rt, "cooling")
        baker = await begun(rt)
        assert await rt.cancel(baker) is True
        stopped = await call_records(rt, await baking)
        grinding = asyncio.ensure_future(call(rt, "grind", {}))
        grinder = await _received(rt, "grinding")
        assert await rt.cancel(grinder) is False
        proceed.set()
        finished = await call_records(rt, await grinding)
        profiles = await records(rt, "tool_execution_profile")
    assert [(each["sequence"], each["message"]) for each in stopped.progress] == [
        (1, "loaf 1"),
        (2, "loaf 2"),
        (3, "loaf 3"),
        (4, "cooling"),
    ]
    assert stopped.event_types.count("progress") == 4
    assert [(each["supports_cancel"], each["supports_progress"]) for each in profiles] == [(True, True), (False, True)]
    assert (stopped.result["status"], stopped.result["abort_reason"]) == ("canceled", "user_interruption")
    assert stopped.event_types[-1] == "canceled"
    assert (finished.result["status"], finished.event_types[-1]) == ("succeeded", "succeeded")
    assert [name for name in finished.event_types if name.startswith("cancel")] == ["cancel_requested", "cancel_failed"]


async def _received(runtime, message):
    """Wait for a message of progress, and give the id of the call it came from."""
    async for _, event in runtime.journal.events():
        if event.event_type == "tool.invocation.progress" and event.data.get("message") == message:
            return event.invocation_id
    return None


@pytest.mark.requirement("AT-ACC-10", "AT-SCHED-10", "AT-IFACE-18", "AT-EVT-09")
async def test_10_parallel_read_tools_run_together_and_exclusive_write_tools_keep_their_order(allow, call_records):
    inside, meetings, written = set(), [], []
    both_read = asyncio.Event()

    @tool(read_only=True, concurrency_safe=True, open_world=False)
    async def read(n: int) -> int:
        """Read. Not for writing."""
        inside.add(n)
        if len(inside) == 2:
            both_read.set()
        await both_read.wait()
        meetings.append(frozenset(inside))
        inside.discard(n)
        return n

    @tool
    async def write(n: int) -> int:
        """Write. Not for reading."""
        inside.add(n)
        await asyncio.sleep(0)
        meetings.append(frozenset(inside))
        written.append(n)
        inside.discard(n)
        return n

    order = [("read", 0), ("read", 1), ("write", 2), ("write", 3), ("write", 4)]
    async with Runtime.open(tools=[read, write], rules=allow) as rt:
        surface = await rt.surface()
        calls = [ToolCall(name=name, arguments={"n": n}) for name, n in order]
        results = await rt.batch(calls, surface=surface)
        recorded = [await call_records(rt, result) for result in results]
    assert [result.structured_content for result in results] == [0, 1, 2, 3, 4]
    assert meetings[0] == {0, 1}
    assert meetings[2:] == [{2}, {3}, {4}]
    assert written == [2, 3, 4]
    for earlier, later in pairwise(recorded[2:]):
        assert earlier.invocation["ended_at"] <= later.invocation["started_at"]
        assert "queued" in later.moves[: later.moves.index("running")]


@pytest.mark.requirement("AT-ACC-11", "AT-SCHED-17", "AT-SCHED-18", "AT-RES-07", "AT-PIPE-15")
async def test_11_a_sibling_failure_cancels_dependent_tools_which_get_synthetic_results(allow, call_records):
    ran = []

    @tool(concurrency_safe=True)
    async def build(n: int) -> int:
        """Build. Not for tests."""
        if n == 0:
            raise ValueError("does not compile")
        ran.append(n)
        return n

    calls = [
        ToolCall(name="build", arguments={"n": 0}),
        ToolCall(name="build", arguments={"n": 1}, depends_on=(0,)),
        ToolCall(name="build", arguments={"n": 2}, depends_on=(1,)),
        ToolCall(name="build", arguments={"n": 3}),
    ]
    async with Runtime.open(tools=[build], rules=allow) as rt:
        surface = await rt.surface()
        results = await rt.batch(
            calls, surface=surface, policy=policy(sibling_failure_policy=SiblingFailurePolicy.CANCEL_DEPENDENT)
        )
        recorded = [await call_records(rt, result) for result in results]
    assert ran == [3]
    assert [result.status.value for result in results] == ["failed", "synthetic_error", "synthetic_error", "succeeded"]
    for dependent in recorded[1:3]:
        failure = dependent.result["error"]
        assert (failure["error_class"], dependent.result["abort_reason"]) == ("sibling_canceled", "sibling_error")
        assert failure["retry"]["caused_by_sibling"] is True
        assert (dependent.invocation["status"], dependent.event_types[-1]) == ("canceled", "canceled")
        assert "started_at" not in dependent.invocation


NATIVE = {
    ToolKind.MCP_TOOL: (
        McpMapping(server_id="github", tool_name="issues/create", mcp_protocol_version="2025-11-25"),
        {"jsonrpc_request_id": 17},
    ),
    ToolKind.OPENAPI_OPERATION: (OpenApiMapping(operation_id="createIssue", method="post", path="/issues"), {}),
    ToolKind.FUNCTION: (FunctionMapping(provider="openai", function_name="createIssue"), {"tool_call_id": "call_1"}),
    ToolKind.SHELL_COMMAND: (CliMapping(command_id="git-push"), {"exit_code": 0}),
    ToolKind.BROWSER_ACTION: (BrowserMapping(action_id="click"), {"page_id": "page-3"}),
    ToolKind.PEER_AGENT_TOOL: (A2aMapping(agent_skill_id="translate"), {"task_id": "task-9"}),
}


@pytest.mark.parametrize("kind", NATIVE, ids=str)
async def test_17_tools_of_six_kinds_keep_their_native_ids(kind, allow, call, records, call_records):
    mapping, of_the_run = NATIVE[kind]
    source = mapping.__struct_config__.tag

    async def run(job):
        job.add_native_ids(source, of_the_run or {"server_url": "https://example.org"})
        return "done"

    plain = scripted_tool("portable_name", run, classifier_input="input")
    native = replace(plain.declaration, tool_kind=kind, external_mappings=(mapping,))
    async with Runtime.open(tools=[dataclasses.replace(plain, declaration=native)], rules=allow) as rt:
        recorded = await call_records(rt, await call(rt, "portable_name", {}, native_call_id="native-1"))
        (declaration,) = await records(rt, "tool_declaration")
    (declared,) = declaration["external_mappings"]
    assert declared["source"] == source
    assert (
        declared.items()
        >= {
            name: value
            for name in mapping.__struct_fields__
            if (value := getattr(mapping, name)) and isinstance(value, str)
        }.items()
    )
    assert recorded.invocation["native_call_id"] == "native-1"
    (found,) = recorded.invocation["external_mappings"]
    assert found.items() >= {"source": source, **of_the_run}.items()
