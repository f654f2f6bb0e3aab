"""A call that would wait for the call whose tool makes it is refused at once."""

import asyncio

import pytest

from agenttool import Context, Runtime, tool

BOUND_S = 60
ALLOW = [{"behavior": "allow", "tool": "x.*"}]


def calling(make):
    """Return an exclusive tool that makes another call, and the other tool; `make` gets the runtime."""
    opened = []

    @tool(namespace="x")
    async def inner(number: int) -> str:
        """Count. Not for words."""
        await asyncio.sleep(0)
        return f"inner {number}"

    @tool(namespace="x")
    async def outer(*, later: bool, ctx: Context) -> str:
        """Make another call. Not for counting."""
        if later:
            await asyncio.sleep(0)
        result = await make(opened[0], ctx)
        return result.text if result.ok else f"{result.error.error_code}: {result.error.message}"

    return opened, [inner, outer]


async def directly(rt, _ctx):
    return await rt.call("inner", {"number": 1})


async def in_a_task(rt, _ctx):
    return (await asyncio.gather(rt.call("inner", {"number": 1}), rt.call("inner", {"number": 2})))[1]


async def nested(_rt, ctx):
    return await ctx.call("inner", {"number": 1})


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("make", [directly, in_a_task])
async def test_an_exclusive_call_within_an_exclusive_call_is_refused_at_once(tmp_path, make, later, kind):
    opened, tools = calling(make)
    store = "memory:" if kind == "memory" else tmp_path / "calls.db"
    async with Runtime.open(store=store, tools=tools, rules=ALLOW) as rt, asyncio.timeout(BOUND_S):
        opened.append(rt)
        result = await rt.call("outer", {"later": later})
        assert result.text.startswith("would_deadlock: the tool that makes this call runs alone")
        assert "make the call with `ctx.call`" in result.text
        assert (await rt.call("inner", {"number": 3})).text == "inner 3"


async def test_a_nested_call_of_an_exclusive_call_runs_within_it():
    opened, tools = calling(nested)
    async with Runtime.open(tools=tools, rules=ALLOW) as rt, asyncio.timeout(BOUND_S):
        opened.append(rt)
        assert (await rt.call("outer", {"later": False})).text == "inner 1"


async def test_calls_beside_an_exclusive_call_still_wait_for_it():
    opened, tools = calling(nested)
    async with Runtime.open(tools=tools, rules=ALLOW) as rt, asyncio.timeout(BOUND_S):
        opened.append(rt)
        calls = [rt.call("outer", {"later": True}), *(rt.call("inner", {"number": n}) for n in range(3))]
        results = await asyncio.gather(*calls)
        assert [each.text for each in results] == ["inner 1", "inner 0", "inner 1", "inner 2"]
