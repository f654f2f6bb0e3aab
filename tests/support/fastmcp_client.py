"""Uses a gateway with the client of FastMCP, and prints what it saw as JSON: `python fastmcp_client.py URL`."""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp_tasks import call_tool_task


async def use(url, mode):
    asked = []

    async def answer(message, response_type, params, context):
        asked.append(message)
        return {"decision": "allow"}

    async def run(name, **arguments):
        return await client.call_tool("tool_call", {"name": name, "arguments": arguments}, raise_on_error=False)

    async with Client(url, mode=mode, elicitation_handler=answer) as client:
        seen = {"version": client.protocol_version, "listed": [each.name for each in await client.list_tools()]}
        found = await client.call_tool("tool_search", {"query": "add two numbers"})
        seen["found"] = found.structured_content["matches"][0]["name"]
        seen["called"] = (await run("add", a=19, b=23)).structured_content
        seen["sent"] = (await run("send", to="ada")).content[0].text
        seen["asked"] = len(asked)
        large = await run("much")
        uri = next(each.uri for each in large.content if each.type == "resource_link")
        seen["read"] = len((await client.read_resource(str(uri)))[0].text)
        waiting = asyncio.ensure_future(run("wait"))
        await asyncio.sleep(2)
        waiting.cancel()
        if mode == "auto":
            arguments = {"name": "compute", "arguments": {"seconds": 0.5}}
            task = await call_tool_task(client, "tool_call", arguments)
            seen["task"] = (await task.result()).content[0].text
    return seen


if __name__ == "__main__":
    print(json.dumps([asyncio.run(use(sys.argv[1], mode)) for mode in ("auto", "legacy")]))
