"""An echo tool of FastMCP over HTTP: `fastmcp_echo.py PORT`."""
# pyright: basic, reportMissingImports=false

import sys

from fastmcp import FastMCP

server = FastMCP("bench")


@server.tool
async def echo(text: str) -> str:
    """Return a text."""
    return text


if __name__ == "__main__":
    server.run(transport="http", port=int(sys.argv[1]), show_banner=False, log_level="ERROR")
