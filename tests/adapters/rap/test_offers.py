"""What a runtime has of servers that come one after the other: nobody takes anything away from another."""

import asyncio

import pytest

from agenttool import tool
from agenttool.adapters.rap import discovery
from agenttool.server.handlers import status_of


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch):
    monkeypatch.setattr(discovery, "FIRST_DELAY_S", 0.01)
    monkeypatch.setattr(discovery, "LONGEST_DELAY_S", 0.02)


async def until(true):
    """Wait until something is so."""
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110 -- what is awaited tells nobody
            await asyncio.sleep(0.01)


async def there(rt):
    """Wait until the first server has said what it offers."""
    await until(lambda: rt.rap.standings[0].is_ready)


async def test_a_server_that_comes_later_takes_no_name_from_one_that_offers_it(away, tool_server, caplog):
    early = tool_server(tools=["read_probe", "water"])
    async with away(early) as (rt, late):
        late.manifest["tools"].append({"name": "dig", "description": "d", "inputSchema": {"type": "object"}})
        surface = await rt.surface()
        first = await rt.start("read_probe", {"bed": 1}, surface=surface)
        invoked = await early.invoked()
        await there(rt)
        await until(lambda: not rt.rap.awaits("tool_s0.dig"))
        current = await rt.current(surface)
        assert {"tool_s1.read_probe", "tool_s1.water", "tool_s0.dig"} <= set(current.tool_refs)
        assert "tool_s0.read_probe" not in current.tool_refs
        second = await rt.start("read_probe", {"bed": 2}, surface=current)
        await early.settle(invoked, "wet")
        assert (await rt.wait(first.invocation_id)).content[0].text == "wet"
        assert (await rt.call("s0.read_probe", {"bed": 1}, surface=current)).error.error_class == "blocked_tool"
        assert late.invocations == []
        await early.settle(await early.invoked(2), "dry")
        assert (await rt.wait(second.invocation_id)).content[0].text == "dry"
        [fault] = rt.rap.faults
        assert "tools of 's0' cannot be offered: 'read_probe', for 's1' came first and keeps that name" in fault
        assert caplog.text.count(fault) == 1
        told = await status_of(rt)
        assert told["faults"] == [fault]
        assert [(each["name"], each["withheld"]) for each in told["sources"]] == [("s0", ["read_probe"]), ("s1", [])]


async def test_a_name_that_nobody_offers_stays_so_whoever_comes_later(away, tool_server):
    one, other = tool_server(tools=["read_probe", "water"]), tool_server(tools=["read_probe"])
    async with away(one, other) as (rt, _):
        await there(rt)
        await until(lambda: not rt.rap.awaits("tool_s0.read_probe"))
        assert [each for each in (await rt.surface()).tool_refs if each.endswith("read_probe")] == []
        assert [each["withheld"] for each in (await status_of(rt))["sources"]] == [["read_probe"]] * 3


async def test_a_late_tool_that_the_runtime_cannot_have_costs_no_other(away):
    @tool(namespace="s0")
    def read_probe() -> str:
        """Read."""
        return "ours"

    async with away(options={"tools": [read_probe]}) as (rt, server):
        assert (await rt.call("s0.read_probe", {}, surface=await rt.surface())).content[0].text == "ours"
        server.manifest["tools"].append({"name": "water", "description": "d", "inputSchema": {"type": "object"}})
        await there(rt)
        (fault,) = rt.rap.faults
        assert "'read_probe' of 's0' cannot be offered" in fault
        surface = await rt.surface()
        assert "tool_s0.water" in surface.tool_refs
        assert (await rt.call("s0.read_probe", {}, surface=surface)).content[0].text == "ours"
