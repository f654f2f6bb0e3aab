"""One gateway with several servers and callers: a call that hangs, waits or loses its server affects no other call."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from mcp_clients import Running, Silent, connected, end, text_of

from agenttool import Runtime
from agenttool.adapters.mcp.settings import McpServer

FIXTURE = Path(__file__).resolve().parents[1] / "support" / "mcp_fixture_server.py"
NAMES = ("asks", "dies", "hangs", "well")


def server(name, **settings):
    """Return a server. Calls that may write run one after another at a server unless its owner allows otherwise."""
    settings = {"parallel": name == "dies", **settings}
    return McpServer(name, command=sys.executable, args=("-I", "-S", str(FIXTURE)), **settings)


async def test_a_hanging_tool_an_open_question_and_a_killed_server_affect_no_other_call(mode):
    silent = Silent()
    rules = [{"behavior": "allow", "tool": f"{each}.*"} for each in NAMES]
    async with (
        asyncio.timeout(60),
        Runtime.open(sources=[*map(server, NAMES)], rules=rules, approve="wait") as rt,
        connected(rt, mode, silent, actor="user:ada") as ada,
        connected(rt, mode, actor="user:bob") as bob,
    ):
        hanging, crashing = Running(ada, "hangs__slow"), Running(ada, "dies__slow")
        asking = asyncio.create_task(ada.call_tool("asks__ask", {}))
        for each in (hanging.runs, crashing.runs, silent.asked):
            await each.wait()
        before = text_of(await bob.call_tool("dies__pid", {}))
        os.kill(int(before), signal.SIGKILL)
        crashed = await crashing.task
        after = text_of(await bob.call_tool("dies__pid", {}))
        calls = [(client, each) for client in (ada, bob) for each in NAMES if each != "hangs"]
        echoed = [text_of(await client.call_tool(f"{each}__echo", {"text": each})) for client, each in calls]
        still_open = [not each.done() for each in (hanging.task, asking)]
        await end(hanging.task, asking)
    assert crashed.is_error
    assert "the server 'dies' was lost during the call" in text_of(crashed)
    assert after.isdigit()
    assert after != before
    assert echoed == [each for _, each in calls]
    assert still_open == [True, True]


async def a_call_is_queued(rt):
    async for _, event in rt.journal.events():
        if event.event_type == "tool.invocation.queued":
            return


async def test_with_a_session_for_each_actor_a_hanging_call_delays_only_the_calls_of_its_actor(mode):
    source, rules = server("fx", sessions="actor"), [{"behavior": "allow", "tool": "fx.*"}]
    async with (
        asyncio.timeout(60),
        Runtime.open(sources=[source], rules=rules, approve="wait") as rt,
        connected(rt, mode, actor="user:ada") as ada,
        connected(rt, mode, actor="user:bob") as bob,
    ):
        pids = [text_of(await each.call_tool("pid", {})) for each in (ada, bob)]
        hanging = Running(ada, "slow")
        await hanging.runs.wait()
        others = [text_of(await bob.call_tool("echo", {"text": each})) for each in ("one", "two")]
        behind = asyncio.create_task(ada.call_tool("echo", {"text": "ada"}))
        await a_call_is_queued(rt)
        still_open = [not each.done() for each in (hanging.task, behind)]
        hanging.task.cancel()
        after = text_of(await behind)
    assert len({*pids}) == 2
    assert others == ["one", "two"]
    assert still_open == [True, True]
    assert after == "ada"
