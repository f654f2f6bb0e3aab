"""Calls that end in odd ways, through the public door."""

import asyncio
import dataclasses
import threading
from typing import Annotated

import pytest

from agenttool import ConfigError, Media, Runtime, Sensitive, ToolFailure, tool
from agenttool.hooks.definition import Hook
from agenttool.policy.approvals import Edit
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, ErrorClass, HookEvent, RuleSource, ToolError, replace
from agenttool.stores.memory import MemoryPayloads
from agenttool.testing.fakes import scripted_tool


@tool(namespace="math", read_only=True, concurrency_safe=True, open_world=False)
async def add(a: int, b: int = 1) -> int:
    """Add two whole numbers. Not for text."""
    return a + b


def repr_of(value):
    return type(value).__name__


async def test_a_caller_who_is_cancelled_leaves_a_result_behind(call, records, allow):
    started = asyncio.Event()

    @tool
    async def patient() -> str:
        """Wait."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    async with Runtime.open(tools=[patient], rules=allow, approve="wait") as rt:
        running = asyncio.ensure_future(call(rt, "patient", {}))
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        results = await records(rt, "tool_result")
    assert [result["status"] for result in results] == ["canceled"]


@pytest.mark.parametrize("only_reads", [True, False])
async def test_repeating_a_call_that_was_stopped_is_safe_if_its_tool_only_reads(call, allow, only_reads):
    started = asyncio.Event()

    @tool(read_only=only_reads, open_world=False)
    async def patient() -> str:
        """Wait. Not for the impatient."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    async with Runtime.open(tools=[patient], rules=allow, approve="wait") as rt:
        running = asyncio.ensure_future(call(rt, "patient", {}))
        await started.wait()
        rt.calls.interrupt(blocking=True)
        result = await running
    assert result.error.retry.safe is only_reads
    assert ("may have taken effect" in result.model_facing_content[0].text) is not only_reads


@pytest.mark.requirement("AT-IO-06")
async def test_an_edit_keeps_the_secret_that_the_approver_was_not_shown_and_leaves_it_in_no_record(
    call, records, asked_questions
):
    ran = []

    @tool(approval_required=True)
    async def transfer(to: str, pin: Annotated[str, Sensitive]) -> str:
        """Transfer money. Not for refunds."""
        ran.append((to, pin))
        return f"done with {pin}"

    async with Runtime.open(tools=[transfer], approve="wait") as rt:
        waiting = asyncio.ensure_future(call(rt, "transfer", {"to": "mallory", "pin": "4711-0815"}))
        (question,) = await asked_questions(rt)
        assert question.shown == {"to": "mallory", "pin": "[redacted]"}
        await rt.approvals.decide(question.approval_id, "allow", input={**question.shown, "to": "ada"})
        result = await waiting
        everything = repr(await records(rt)) + repr(result)
    assert ran == [("ada", "4711-0815")]
    assert "4711-0815" not in everything


@pytest.mark.requirement("AT-PROG-09")
async def test_closing_a_runtime_ends_what_waits_and_what_runs_with_a_result(asked_questions):
    started = asyncio.Event()

    @tool(approval_required=True)
    async def pay() -> str:
        """Pay. Not for refunds."""
        return "paid"

    @tool(concurrency_safe=True)
    async def wait() -> str:
        """Wait for ever. Not for results."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    rules = [Rule(ref="wait", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("local.wait",))]
    async with Runtime.open(tools=[pay, wait], rules=rules, approve="wait") as rt:
        surface = await rt.surface()
        calls = [asyncio.ensure_future(rt.call(name, {}, surface=surface)) for name in ("pay", "wait")]
        await started.wait()
        await asked_questions(rt)
    results = await asyncio.gather(*calls)
    assert [(result.status.value, result.abort_reason) for result in results] == [
        ("synthetic_error", "runtime_shutdown"),
        ("synthetic_error", "runtime_shutdown"),
    ]
    assert await rt.approvals.list() == ()


@pytest.mark.parametrize("arguments", [{"a": {1, 2}}, {"a": object()}, {1: 2}, {"a": float("nan")}, {"a": b"x"}])
async def test_arguments_that_are_no_json_are_a_result_too(arguments, call, error):
    async with Runtime.open(tools=[add], approve="wait") as rt:
        result = await call(rt, "add", arguments)
    assert error(result) == "schema_validation_failed"


async def test_a_schema_that_would_take_for_ever_to_check_is_refused_when_it_is_declared():
    bomb = {"$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}, "$ref": "#/$defs/d0"}
    bomb["$defs"]["d40"] = {"type": "object"}
    with pytest.raises(ConfigError, match="too many references"):
        Runtime.open(tools=[scripted_tool("bomb", schema=bomb)], approve="wait")


@pytest.mark.requirement("AT-EXEC-04", "AT-EXEC-06", "AT-PROG-10", "AT-PROG-11")
async def test_a_tool_that_cannot_be_stopped_says_so_and_ends_as_it_ends(call, records, allow):
    started, proceed = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @tool
    def busy() -> str:
        """Work in a thread. Not for hurry."""
        loop.call_soon_threadsafe(started.set)
        proceed.wait(30)
        return "finished"

    async with Runtime.open(tools=[busy], rules=allow, approve="wait") as rt:
        running = asyncio.ensure_future(call(rt, "busy", {}))
        await started.wait()
        (invocation_id,) = rt._core.registry.calls
        assert await rt.cancel(invocation_id) is False
        proceed.set()
        result = await running
        events = [event["event_type"].rsplit(".", 1)[-1] for event in await records(rt, "tool_event")]
        (profile,) = await records(rt, "tool_execution_profile")
    assert profile["supports_cancel"] is False
    assert result.status == "succeeded"
    assert events[events.index("cancel_requested") :][:2] == ["cancel_requested", "cancel_failed"]
    assert events[-1] == "succeeded"


@pytest.mark.requirement("AT-PIPE-03", "AT-PIPE-04", "AT-PIPE-06", "AT-ERR-05", "AT-MODEL-05", "AT-DEFER-15")
async def test_missing_unsurfaced_blocked_deferred_and_ill_fitting_calls_are_distinguished_and_never_run(error, allow):
    tools = {
        "outside": scripted_tool("outside"),
        "disabled": scripted_tool("disabled"),
        "deferred": scripted_tool("deferred", should_defer=True),
        "strict": scripted_tool("strict", schema={"type": "object", "required": ["a"]}),
    }
    off = replace(tools["disabled"].declaration, lifecycle="disabled")
    tools["disabled"] = dataclasses.replace(tools["disabled"], declaration=off)
    recorded = {}
    async with Runtime.open(tools=tools.values(), rules=allow, approve="wait") as rt:
        surface = await rt.surface(only=["disabled", "deferred", "strict"])
        for name in (*tools, "nowhere"):
            result = await rt.call(name, {"z": 1}, surface=surface)
            invocation = await rt.journal.invocation(result.invocation_id)
            recorded[name] = (error(result), result.error.error_code, invocation.status.value)
    assert recorded == {
        "outside": ("blocked_tool", "role_not_allowed", "blocked"),
        "disabled": ("blocked_tool", "feature_disabled", "blocked"),
        "deferred": ("schema_not_loaded", "schema_not_loaded", "failed"),
        "strict": ("schema_validation_failed", "schema_validation_failed", "schema_parse_failed"),
        "nowhere": ("unknown_tool", "unknown_tool", "failed"),
    }
    assert [each.executor.inputs for each in tools.values()] == [[], [], [], []]


@pytest.mark.requirement("AT-DECL-04", "AT-DECL-05")
async def test_two_namespaces_may_use_one_name_and_both_tools_can_be_called(call, allow):
    @tool(name="search", namespace="web")
    async def search_web() -> str:
        """Search the web. Not for files."""
        return "web"

    @tool(name="search", namespace="files")
    async def search_files() -> str:
        """Search files. Not for the web."""
        return "files"

    async with Runtime.open(tools=[search_web, search_files], rules=allow, approve="wait") as rt:
        results = [await call(rt, name, {}) for name in ("web.search", "files.search", "search")]
        calls = [await rt.journal.invocation(result.invocation_id) for result in results[:2]]
    assert [result.model_facing_content[0].text for result in results[:2]] == ["web", "files"]
    assert calls[0].tool_id != calls[1].tool_id
    assert results[2].error.error_code == "ambiguous_name"


async def test_what_was_shown_to_an_approver_cannot_be_changed_under_the_call(call, asked_questions):
    ran = []

    @tool(approval_required=True)
    async def read(where: str) -> str:
        """Read. Not for writing."""
        ran.append(where)
        return where

    async with Runtime.open(tools=[read], approve="wait") as rt:
        waiting = asyncio.ensure_future(call(rt, "read", {"where": "safe.txt"}))
        (question,) = await asked_questions(rt)
        question.shown["where"] = "/etc/shadow"
        refused = [await rt.approvals.decide(question.approval_id, Edit(input=each)) for each in ([1], "x", 5, None)]
        await rt.approvals.decide(question.approval_id, "allow")
        await waiting
    assert ran == ["safe.txt"]
    assert {each.reason for each in refused} == {"bad_input"}


async def test_a_surface_keeps_the_tool_it_was_made_with():
    @tool(name="same", read_only=True, open_world=False)
    async def old() -> str:
        """Be old. Not for news."""
        return "old"

    @tool(name="same", read_only=True, open_world=False)
    async def new() -> str:
        """Be new. Not for history."""
        return "new"

    async with Runtime.open(tools=[old], approve="wait") as rt:
        before = await rt.surface()
        rt.declare(new.declared)
        after = await rt.surface()
        said = [(await rt.call("same", {}, surface=each)).model_facing_content[0].text for each in (before, after)]
    assert said == ["old", "new"]
    with pytest.raises(ConfigError, match="two tools have the id"):
        Runtime.open(tools=[old, new], approve="wait")


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize("crash", [SystemExit(3), BrokenPipeError("gone"), StopIteration(1), Mute()], ids=repr_of)
@pytest.mark.parametrize("in_thread", [True, False])
async def test_whatever_a_tool_raises_is_a_result(crash, in_thread, call, allow):
    if in_thread:

        @tool
        def explode() -> str:
            """Raise. Not for success."""
            raise crash
    else:

        @tool
        async def explode() -> str:
            """Raise. Not for success."""
            raise crash

    async with Runtime.open(tools=[explode], rules=allow, approve="wait") as rt:
        result = await call(rt, "explode", {})
    assert result.is_error


async def test_a_call_that_was_cancelled_in_a_hook_asks_no_approver_and_runs_nothing(call):
    inside, proceed = asyncio.Event(), asyncio.Event()

    class Slow:
        async def run(self, question):
            inside.set()
            await proceed.wait()

    hook = Hook(name="slow", event=HookEvent.PRE_TOOL_USE, runner=Slow())

    @tool(approval_required=True)
    async def pay() -> str:
        """Pay. Not for refunds."""
        return "paid"

    async with Runtime.open(tools=[pay], hooks=[hook], approve="wait") as rt:
        running = asyncio.ensure_future(call(rt, "pay", {}))
        await inside.wait()
        (invocation_id,) = rt._core.registry.calls
        assert await rt.cancel(invocation_id)
        proceed.set()
        result = await running
        assert await rt.approvals.list() == ()
    assert result.status == "canceled"


async def test_a_tool_that_names_its_error_by_a_plain_word_does_not_make_the_log_unreadable(allow, call, records):
    @tool
    async def refuse() -> str:
        """Refuse. Not for success."""
        raise ToolFailure(ToolError(error_class="rate_limited", message="later"))

    async with Runtime.open(tools=[refuse], rules=allow, approve="wait") as rt:
        result = await call(rt, "refuse", {})
        (exported,) = await records(rt, "tool_result")
    assert result.error.error_class == exported["error"]["error_class"] == "rate_limited"


@pytest.mark.parametrize(
    "error",
    [
        ToolError(error_class=5),
        ToolError(error_class=ErrorClass.TIMEOUT, retry={"safe": "perhaps"}),
        ToolError(error_class=ErrorClass.TIMEOUT, native_error_ref=object()),
    ],
    ids=["class", "retry", "native error"],
)
async def test_an_error_that_cannot_be_written_is_a_failure_that_can(allow, call, error, call_records):
    @tool
    async def refuse() -> str:
        """Refuse. Not for success."""
        raise ToolFailure(error)

    async with Runtime.open(tools=[refuse], rules=allow, approve="wait") as rt:
        recorded = await call_records(rt, await call(rt, "refuse", {}))
    assert recorded.result["error"]["error_class"] == "execution_failed"
    assert "fill it as declared" in recorded.result["error"]["message"]


@pytest.mark.parametrize("times", [1, 2])
async def test_a_caller_who_leaves_while_output_is_stored_leaves_no_reference_to_missing_bytes(
    allow, call, records, monkeypatch, times
):
    begun, proceed, put = asyncio.Event(), asyncio.Event(), MemoryPayloads.put

    async def slow(self, data, digest):
        begun.set()
        await proceed.wait()
        return await put(self, data, digest)

    monkeypatch.setattr(MemoryPayloads, "put", slow)

    @tool
    async def shoot() -> Media:
        """Take a picture. Not for words."""
        return Media(b"\x89PNG\r\n\x1a\n" + b"\xff" * 100, "image/png")

    async with Runtime.open(tools=[shoot], rules=allow, approve="wait") as rt:
        running = asyncio.ensure_future(call(rt, "shoot", {}))
        await begun.wait()
        for _ in range(times):
            running.cancel()
            await asyncio.sleep(0)
        proceed.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        (result,) = await records(rt, "tool_result")
        (decision,) = await records(rt, "tool_result_persistence")
    ref = result["content"][0]["ref"]
    assert (result["status"], decision["result_id"]) == ("succeeded", result["result_id"])
    assert ("expires_at" in ref) is (times == 2)
