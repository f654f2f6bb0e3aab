"""The demo of a server without settings: its calls run beside each other, also after a restart."""

import asyncio
from contextlib import aclosing, asynccontextmanager

import pytest
from starting import begin

from agenttool import Runtime
from agenttool.server.demo_catalog import DEMO_RULES, demo_tools, make_calls


@asynccontextmanager
async def open_demo(folder):
    """Open the demo on a store, and yield its runtime once the slow call runs."""
    running = asyncio.Event()
    tools = demo_tools(folder / "files")
    async with (
        Runtime.open(store=f"sqlite:{folder / 'calls.db'}", tools=tools, rules=DEMO_RULES, approve="wait") as rt,
        asyncio.TaskGroup() as group,
    ):
        start = rt.start

        async def noted(name, arguments, **options):
            started = await start(name, arguments, **options)
            if name == "demo.slow_report":
                group.create_task(note_progress(started, running))
            return started

        rt.start = noted
        calls = group.create_task(make_calls(rt))
        await asyncio.wait_for(running.wait(), 60)
        yield rt
        calls.cancel()


async def note_progress(started, running):
    async with aclosing(started.progress()) as updates:
        await anext(updates)
    running.set()


@pytest.mark.slow
async def test_an_approved_call_of_the_demo_runs_beside_the_slow_one_also_after_a_restart(tmp_path):
    async with open_demo(tmp_path) as rt:
        (asked,) = await rt.approvals.list()
        await rt.approvals.decide(asked, "allow")
        invoice = await rt.calls.get(asked.invocation_id).result(60)
        assert invoice is not None
        assert not invoice.is_error
    async with open_demo(tmp_path) as rt:
        written = await begin(rt, "files.write_file", {"name": "a.txt", "content": "text"})
        (asked,) = await rt.approvals.list()
        await rt.approvals.decide(asked, "allow")
        result = await rt.calls.get(written.invocation_id).result(60)
        assert result is not None
        assert not result.is_error
    assert (tmp_path / "files" / "a.txt").read_text() == "text"
