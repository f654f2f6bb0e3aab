"""Phase 8 through the public interface: what an executor gets, and what it may return."""

import asyncio
from dataclasses import replace

import pytest

from agenttool import Context, FunctionHook, Hook, Runtime, tool
from agenttool.ports.executor import Job
from agenttool.records import HookEvent
from agenttool.records import replace as replace_record
from agenttool.testing.fakes import scripted_tool

READS = {"is_read_only": True, "is_destructive": False, "is_open_world": False, "is_concurrency_safe": True}


def harmless(name, script, **profile):
    """A tool of a source that runs unasked."""
    made = scripted_tool(name, script, **READS)
    return replace(
        made,
        execution_profile=replace_record(made.execution_profile, **profile),
        permission_profile=replace_record(made.permission_profile, approval_required=False),
    )


async def test_an_executor_that_changes_its_input_changes_neither_a_retry_nor_a_hook_nor_the_journal():
    seen = []

    async def spoil(job: Job) -> str:
        seen.append(str(job.call_input))
        job.call_input["x"]["y"] = "changed"
        if len(seen) < 3:
            raise ConnectionError("again")
        return "done"

    async def after(question):
        seen.append(str(question.input))

    hook = Hook(name="after", event=HookEvent.POST_TOOL_USE, runner=FunctionHook(after))
    async with Runtime.open(tools=[harmless("t", spoil, supports_retries=True)], hooks=[hook], approve="wait") as rt:
        result = await rt.call("t", {"x": {"y": "given"}}, surface=await rt.surface())
        recorded = await rt.journal.invocation(result.invocation_id)
    assert seen == [str({"x": {"y": "given"}})] * 4
    assert recorded.permission_input == {"x": {"y": "given"}}


@pytest.mark.parametrize(
    ("make", "kind"),
    [(lambda: "text", "str"), (lambda: asyncio.ensure_future(asyncio.sleep(0)), "Task"), (dict, "dict")],
)
async def test_an_executor_that_returns_no_coroutine_fails_without_blaming_the_arguments(make, kind):
    made = harmless("t", None)
    made.executor.start = lambda _: make()
    async with Runtime.open(tools=[made], approve="wait") as rt:
        result = await rt.call("t", {}, surface=await rt.surface())
    expected = f"`start` of the executor returned {kind!r}, not a coroutine; declare it `async def`"
    assert (result.error.error_class, result.error.message) == ("execution_failed", expected)
    assert result.error.retry.arguments_must_change is False
    assert "arguments" not in result.content[0].text


async def test_a_sensitive_value_that_names_a_member_of_the_shared_context_is_masked_in_the_journal():
    @tool(read_only=True, open_world=False, changes_context=True, sensitive=["pin"])
    async def put(pin: str, ctx: Context) -> str:
        """Set the context. Not for reading."""
        ctx.change_shared({pin: 1, "plain": 2})
        return "set"

    async with Runtime.open(tools=[put], approve="wait") as rt:
        assert (await rt.call("put", {"pin": "4711-0815"}, surface=await rt.surface())).ok
        assert rt.calls.shared == {"4711-0815": 1, "plain": 2}
        records = [str(each) async for each in rt.journal.export()]
    assert [each for each in records if "4711-0815" in each] == []
    assert [each for each in records if "plain" in each] != []


async def test_a_tool_without_changes_context_cannot_change_the_shared_context():
    @tool(read_only=True, open_world=False, changes_context=True)
    async def put(ctx: Context) -> str:
        """Set the context. Not for reading."""
        ctx.change_shared({"a": {"b": 1}})
        return "set"

    @tool(read_only=True, open_world=False)
    async def spoil(ctx: Context) -> int:
        """Change what it was given. Not for reading."""
        ctx.shared["a"]["b"] = 666
        return ctx.shared["a"]["b"]

    async with Runtime.open(tools=[put, spoil], approve="wait") as rt:
        surface = await rt.surface()
        await rt.call("put", {}, surface=surface)
        assert (await rt.call("spoil", {}, surface=surface)).structured_content == 1
        rt.calls.shared["a"]["b"] = 7
        assert rt.calls.shared == {"a": {"b": 1}}
