"""FastMCP as a program: `fastmcp_server.py [PORT] [SETTINGS]`; stdio if the port is 0.

With a file of settings it is a proxy of the servers in it.
"""
# pyright: basic, reportMissingImports=false

import json
import sys
from pathlib import Path

from fastmcp import FastMCP
from fastmcp.server import create_proxy


def _tools() -> FastMCP:
    server = FastMCP("bench")

    @server.tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    _ = add
    return server


if __name__ == "__main__":
    port, settings = int(sys.argv[1]), sys.argv[2:]
    made = create_proxy(json.loads(Path(settings[0]).read_text())) if settings else _tools()
    if port:
        made.run(transport="http", port=port, show_banner=False, log_level="ERROR")
    else:
        made.run(show_banner=False, log_level="ERROR")
