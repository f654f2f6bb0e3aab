"""What comes too late: calls after the close, nested calls after their parent, and answers after a change."""

import asyncio

import pytest
from starting import begin

from agenttool import Context, Runtime, tool
from agenttool.call.approval import remember
from agenttool.errors import ConfigError
from agenttool.ports.calls import ToolCall

BOUND_S = 60


@pytest.fixture
def ran():
    """The names of the tools that ran."""
    return []


@pytest.fixture
def pay(ran):
    """A tool that changes something."""

    @tool
    async def pay(number: int = 1) -> str:
        """Pay."""
        ran.append("pay")
        return f"paid {number}"

    return pay


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    """A store of each kind."""
    return "memory:" if request.param == "memory" else f"sqlite:{tmp_path}/state.db"


async def _asked(rt):
    async with asyncio.timeout(BOUND_S):
        while True:
            for question in await rt.approvals.list():
                return question.approval_id
            await asyncio.sleep(0.01)


async def _are_open(rt, count):
    async with asyncio.timeout(BOUND_S):
        while True:
            if len(rt.calls.open_ids()) == count:
                return
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("form", ["coroutine", "task"])
async def test_a_call_that_was_made_before_the_close_and_started_after_it_does_not_run(store, pay, allow, ran, form):
    async with Runtime.open(tools=[pay], rules=allow, store=store, approve="wait") as rt:
        call = rt.call("pay", {}, surface=await rt.surface())
        if form == "task":
            call = asyncio.ensure_future(call)
    async with asyncio.timeout(BOUND_S):
        result = await call
    assert result.error.error_class in {"canceled", "dependency_unavailable"}  # the journal is closed, too
    assert ran == []


async def test_a_nested_call_after_its_parent_has_returned_does_not_run_and_holds_up_no_other(store, pay, allow, ran):
    late = []

    @tool(read_only=True, concurrency_safe=True)
    async def leave(context: Context) -> str:
        """Leave a nested call behind."""
        late.append(asyncio.ensure_future(context.call("pay", {})))
        return "done"

    async with (
        Runtime.open(tools=[pay, leave], rules=allow, store=store, approve="wait") as rt,
        asyncio.timeout(BOUND_S),
    ):
        surface = await rt.surface()
        assert (await rt.call("leave", {}, surface=surface)).status == "succeeded"
        (nested,) = await asyncio.gather(*late)
        assert (nested.error.error_class, nested.error.error_code) == ("canceled", "parent_ended")
        assert ran == []
        assert (await rt.call("pay", {}, surface=surface)).status == "succeeded"


async def test_an_approval_does_not_cover_a_tool_that_was_retired_meanwhile(store, pay, ran):
    async with Runtime.open(tools=[pay], store=store, approve="wait") as rt, asyncio.timeout(BOUND_S):
        calling = asyncio.ensure_future(rt.call("pay", {}, surface=await rt.surface()))
        approval_id = await _asked(rt)
        rt.retire("local.pay")
        await rt.approvals.decide(approval_id, "allow")
        result = await calling
        assert result.error.error_code == "declaration_changed"
        assert ran == []


async def test_a_call_that_a_new_rule_denies_after_a_restart_ends_without_an_answer(tmp_path, pay, rule, ran):
    store = f"sqlite:{tmp_path}/state.db"
    async with Runtime.open(tools=[pay], store=store, approve="wait") as rt:
        started = await begin(rt, "pay", {}, surface=await rt.surface())
    deny = [rule("deny", "local.pay")]
    async with Runtime.open(tools=[pay], rules=deny, store=store, approve="wait") as rt, asyncio.timeout(BOUND_S):
        result = await rt.calls.get(started.invocation_id).result()
        assert result.error.error_class == "permission_denied"
        assert ran == []


async def test_a_call_that_waits_for_its_turn_is_denied_by_a_rule_that_was_added_meanwhile(
    store, pay, allow, rule, ran
):
    proceed = asyncio.Event()

    @tool
    async def block() -> str:
        """Block all other calls."""
        await proceed.wait()
        return "done"

    async with (
        Runtime.open(tools=[pay, block], rules=allow, store=store, approve="wait") as rt,
        asyncio.timeout(BOUND_S),
    ):
        surface = await rt.surface()
        calls = [asyncio.ensure_future(rt.call(name, {}, surface=surface)) for name in ("block", "pay")]
        await _are_open(rt, 2)
        remember(rt._core, rule("deny", "local.pay"))
        proceed.set()
        _, result = await asyncio.gather(*calls)
        assert result.error.error_class == "permission_denied"
        assert ran == []


async def test_a_batch_ends_if_the_runtime_closes_while_one_of_its_calls_waits_for_an_answer(store, pay):
    async with Runtime.open(tools=[pay], store=store, approve="wait") as rt:
        surface = await rt.surface()
        running = asyncio.ensure_future(rt.batch([ToolCall(name="pay", arguments={})], surface=surface))
        await _asked(rt)
    async with asyncio.timeout(BOUND_S):
        (result,) = await running
    assert result.is_error


async def test_calls_of_a_canceled_batch_that_had_not_started_have_results(store, pay, allow, ran):
    @tool(read_only=True)
    async def slow() -> str:
        """Wait."""
        await asyncio.sleep(BOUND_S)
        return "done"

    async with (
        Runtime.open(tools=[pay, slow], rules=allow, store=store, approve="wait") as rt,
        asyncio.timeout(BOUND_S),
    ):
        surface = await rt.surface()
        wanted = [ToolCall(name="slow", arguments={}), ToolCall(name="pay", arguments={}, depends_on=(0,))]
        running = asyncio.ensure_future(rt.batch(wanted, surface=surface))
        await _are_open(rt, 2)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert rt.calls.open_ids() == ()
        await rt._core.journal.log.settle()
        results = [each async for each in rt.journal.export() if type(each).__name__ == "ToolResult"]
        assert [each.status for each in results] == ["canceled", "canceled"]
        assert ran == []


async def test_waiting_for_an_unknown_call_is_an_error(store, pay):
    async with Runtime.open(tools=[pay], store=store, approve="wait") as rt:
        for unknown, fault in (
            ("inv_nope", "has no call"),
            (None, "a text, got None"),
            (rt.calls.new_id(), "has no call"),
        ):
            with pytest.raises(ConfigError, match=fault):
                await rt.calls.get(unknown).result()


async def test_a_wait_ends_with_the_runtime(tmp_path, pay):
    async with Runtime.open(tools=[pay], store=f"sqlite:{tmp_path}/state.db", approve="wait") as rt:
        started = await begin(rt, "pay", {}, surface=await rt.surface())
        waiting = asyncio.ensure_future(rt.calls.get(started.invocation_id).result())
        await asyncio.sleep(0)
    with pytest.raises(ConfigError, match="closed before"):
        await waiting
