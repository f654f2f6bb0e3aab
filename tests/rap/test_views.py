"""What people see beside the conversation comes in the order in which it was told."""

import asyncio
import json

from agenttool.rap import Call


async def test_a_report_that_was_long_on_its_way_does_not_outlive_its_call(make, serving, serve_app):
    provider, reported, taken, has_result = make(), asyncio.Event(), [], asyncio.Event()

    async def runtime(scope, receive, send):
        message = json.loads((await receive())["body"])
        if message.get("content"):
            reported.set()
            await has_result.wait()
            await asyncio.sleep(0.1)  # whatever does not wait for this one is quicker
        taken.append(message.get("content", "result"))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        if message["type"] == "tool_result":
            has_result.set()

    @provider.tool
    async def work(call: Call) -> None:
        """Work."""
        call.report("half done", percent=50)
        await reported.wait()

    async with serve_app(runtime, lifespan="off") as url, serving(provider) as client:
        await client.invoke("work", callback_url=url)
        async with asyncio.timeout(60):
            while len(taken) < 3:
                await asyncio.sleep(0.01)
    assert (taken[0], taken[1]["message"], taken[2]) == ("result", "half done", {})
