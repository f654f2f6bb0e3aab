import asyncio
import threading

from agenttool import Runtime, tool


async def test_no_call_runs_beside_an_exclusive_thread_that_could_not_be_stopped(allow, call):
    proceed, order = threading.Event(), []

    @tool(open_world=False, timeout_s=0.05)
    def write() -> str:
        """Write for a long time. Not for reading."""
        proceed.wait(30)
        order.append("written at last")
        return "written"

    @tool(open_world=False)
    async def next_write() -> str:
        """Write. Not for reading."""
        order.append("next")
        return "next"

    async with Runtime.open(tools=[write, next_write], rules=allow) as rt:
        first = await call(rt, "write", {})
        second = asyncio.ensure_future(call(rt, "next_write", {}))
        for _ in range(5):
            await asyncio.sleep(0)
        assert (first.error.error_class, order) == ("timeout", [])
        proceed.set()
        assert (await second).status == "succeeded"
    assert order == ["written at last", "next"]
