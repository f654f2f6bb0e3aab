"""Declare tools, each with a schema of its own, and add them to a FastMCP server."""
# pyright: basic, reportMissingImports=false
# The peer is not installed where types are checked.

import sys

from fastmcp import FastMCP
from fastmcp.tools.base import Tool

from bench.process import print_cost


def main() -> None:
    """Fill one server."""

    def fill() -> object:
        server = FastMCP("filled")
        for number in range(int(sys.argv[1])):
            fields = {
                f"text_{number}": {"type": "string", "description": f"Text {number}."},
                "limit": {"type": "integer", "default": number},
            }
            tool = Tool(
                name=f"ns{number % 100}.tool_{number}",
                description=f"The tool tool_{number}, for tests.",
                parameters={"type": "object", "properties": fields, "required": [f"text_{number}"]},
            )
            server.add_tool(tool)
        return server

    print_cost(fill)


if __name__ == "__main__":
    main()
