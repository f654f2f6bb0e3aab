"""Add existing tools to a FastMCP server."""
# pyright: basic, reportMissingImports=false
# The peer is not installed where types are checked.

import sys

from fastmcp import FastMCP
from fastmcp.tools.base import Tool

from bench.process import print_cost


def main() -> None:
    """Fill one server."""
    tools = [
        Tool(
            name=f"ns{number % 100}.tool_{number}",
            description=f"The tool tool_{number}, for tests.",
            parameters={
                "type": "object",
                "properties": {f"text_{number}": {"type": "string"}, "limit": {"type": "integer"}},
            },
        )
        for number in range(int(sys.argv[1]))
    ]

    def fill() -> object:
        server = FastMCP("filled")
        for tool in tools:
            server.add_tool(tool)
        return server

    print_cost(fill)


if __name__ == "__main__":
    main()
