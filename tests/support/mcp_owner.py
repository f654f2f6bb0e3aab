"""Open a runtime with the small MCP server, print `ready`, and wait to be killed; the arguments go to the server."""

import asyncio
import sys
from pathlib import Path

from agenttool import McpServer, Runtime


async def main() -> None:
    fixture = Path(__file__).with_name("mcp_fixture_server.py")
    server = McpServer("fx", command=sys.executable, args=("-I", "-S", str(fixture), *sys.argv[1:]))
    async with Runtime.open(sources=[server], approve=lambda _: True) as rt:
        assert (await rt.call("fx.echo", {"text": "hi"})).ok
        print("ready", flush=True)
        await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(main())
