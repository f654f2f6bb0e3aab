"""Tools that call tools: the same surface, the same rules, one tree of records, and one end."""

import asyncio

import pytest

from agenttool import Context, Runtime, tool

SAFE = {"read_only": True, "concurrency_safe": True, "open_world": False}


@tool(**SAFE)
async def double(n: int) -> int:
    """Double a number. Not for halving."""
    return 2 * n


@tool(**SAFE)
async def quadruple(n: int, context: Context) -> int:
    """Double a number twice. Not for halving."""
    once = await context.call("double", {"n": n})
    twice = await context.call("double", {"n": once.structured_content})
    return twice.structured_content


async def test_a_tool_calls_others_and_each_call_names_the_one_that_made_it(call, sound_export):
    async with Runtime.open(tools=[double, quadruple]) as rt:
        result = await call(rt, "quadruple", {"n": 3}, actor_ref="user:ada")
        records = await sound_export(rt)
    assert result.structured_content == 12
    calls = [each for each in records if each["record_type"] == "tool_invocation"]
    inner = [each for each in calls if each["tool_id"] == "tool_local.double"]
    assert [each["parent_invocation_id"] for each in inner] == [result.invocation_id] * 2
    assert [each["actor_ref"] for each in inner] == ["user:ada"] * 2


async def test_a_plain_function_calls_others_from_its_thread(call):
    @tool(**SAFE)
    def sextuple(n: int, context: Context) -> int:
        """Double a number and add. Not for halving."""
        return context.call_and_wait("double", {"n": n}).structured_content * 3

    async with Runtime.open(tools=[double, sextuple]) as rt:
        assert (await call(rt, "sextuple", {"n": 2})).structured_content == 12


async def test_a_nested_call_gets_no_more_than_its_caller(call, rule):
    @tool(open_world=False)
    async def pay(amount: int) -> str:
        """Pay. Not for getting paid."""
        return f"paid {amount}"

    @tool(**SAFE)
    async def shop(context: Context) -> str:
        """Shop. Not for window shopping."""
        return (await context.call("pay", {"amount": 1})).error.error_class.value

    async with Runtime.open(tools=[pay, shop], rules=[rule("deny", "local.pay")]) as rt:
        surface = await rt.surface()
        assert (await rt.call("shop", {}, surface=surface)).content[0].text == "permission_denied"
        narrow = await rt.surface(only=["local.shop"])
        assert (await rt.call("shop", {}, surface=narrow)).content[0].text == "blocked_tool"


async def test_an_exclusive_tool_may_call_another_exclusive_one(allow, call):
    @tool(open_world=False)
    async def write(text: str) -> str:
        """Write. Not for reading."""
        return text

    @tool(open_world=False)
    async def rewrite(text: str, context: Context) -> str:
        """Write twice. Not for reading."""
        first = await context.call("write", {"text": text})
        second = await context.call("write", {"text": text})
        return f"{first.status} {second.status}"

    async with Runtime.open(tools=[write, rewrite], rules=allow) as rt:
        assert (await call(rt, "rewrite", {"text": "x"})).content[0].text == "succeeded succeeded"


@pytest.mark.parametrize("how", ["in its own task", "in tasks of its own"])
async def test_a_caller_that_stops_a_call_stops_the_calls_it_made(allow, call, begun, call_records, how):
    @tool(**SAFE)
    async def hang() -> str:
        """Hang. Not for standing."""
        await asyncio.Event().wait()
        return "never"

    @tool(**SAFE)
    async def outer(context: Context) -> str:
        """Make calls. Not for waiting."""
        if how == "in its own task":
            await context.call("hang", {})
        else:
            await asyncio.gather(context.call("hang", {}), context.call("hang", {}))
        return "never"

    async with Runtime.open(tools=[hang, outer], rules=allow) as rt:
        calling = asyncio.ensure_future(call(rt, "outer", {}))
        await begun(rt, tool_id="tool_local.hang")
        (outermost,) = [
            each.invocation_id
            async for each in rt.journal.export()
            if getattr(each, "tool_id", None) == "tool_local.outer" and each.__class__.__name__ == "ToolInvocation"
        ]
        assert await rt.cancel(outermost)
        result = await calling
        ends = [
            (each.tool_id, each.status.value)
            async for each in rt.journal.export()
            if each.__class__.__name__ == "ToolInvocation"
        ]
    assert result.status == "canceled"
    assert {status for _, status in ends} == {"canceled"}


async def test_a_tool_that_calls_itself_comes_to_an_end(call):
    @tool(**SAFE)
    async def again(n: int, context: Context) -> str:
        """Call itself. Not for anything else."""
        inner = await context.call("again", {"n": n + 1})
        return inner.content[0].text

    async with Runtime.open(tools=[again]) as rt:
        result = await call(rt, "again", {"n": 0})
    assert "end the recursion" in result.content[0].text


async def test_a_call_without_a_waiting_caller_is_stopped(allow, call, records):
    left = []

    @tool(**SAFE)
    async def hang() -> str:
        """Hang. Not for standing."""
        await asyncio.Event().wait()
        return "never"

    @tool(**SAFE)
    async def careless(context: Context) -> str:
        """Leave a call behind. Not for care."""
        left.append(asyncio.ensure_future(context.call("hang", {})))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return "done"

    async with Runtime.open(tools=[hang, careless], rules=allow) as rt:
        assert (await call(rt, "careless", {})).status == "succeeded"
        assert (await left[0]).abort_reason == "fallback"


async def test_changes_of_the_shared_context_are_made_recorded_or_refused(allow, call, call_records):
    @tool(open_world=False, changes_context=True)
    async def go_to(place: str, context: Context) -> str:
        """Change the place. Not for staying."""
        before = context.shared.get("place", "nowhere")
        context.change_shared({"place": place})
        return f"from {before}"

    @tool(**SAFE)
    async def sneak(context: Context) -> str:
        """Change the place without a word. Not for staying."""
        context.change_shared({"place": "elsewhere"})
        return "done"

    async with Runtime.open(tools=[go_to, sneak], rules=allow) as rt:
        first = await call_records(rt, await call(rt, "go_to", {"place": "home"}))
        second = await call(rt, "go_to", {"place": "work"})
        third = await call_records(rt, await call(rt, "sneak", {}))
        assert rt.calls.shared == {"place": "work"}
    assert second.content[0].text == "from home"
    assert first.events[-1]["data"]["context_modifiers"] == {"fate": "applied", "members": ["place"]}
    assert third.events[-1]["data"]["context_modifiers"] == {"fate": "rejected", "members": ["place"]}
