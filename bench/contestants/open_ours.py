"""Declare tools, each with a schema of its own, and open a runtime with them, so that they can be called."""

import asyncio
import sys

from agenttool import Runtime, make_tool
from agenttool.ports.tool import DeclaredTool
from agenttool.records import JsonObject
from bench.process import print_cost


async def run(**fields: object) -> str:
    """Answer a call of any tool."""
    return str(fields)


def declared(number: int) -> DeclaredTool:
    """Return one tool; no two share a name, a description or a schema."""
    fields: JsonObject = {
        f"text_{number}": {"type": "string", "description": f"Text {number}."},
        "limit": {"type": "integer", "default": number},
    }
    return make_tool(
        f"tool_{number}",
        {"properties": fields, "required": [f"text_{number}"]},
        run,
        namespace=f"ns{number % 100}",
        description=f"The tool tool_{number}, for tests.",
    )


async def main() -> None:
    """Declare the tools and open one runtime."""
    print_cost(lambda: Runtime.open(tools=[declared(number) for number in range(int(sys.argv[1]))]))


if __name__ == "__main__":
    asyncio.run(main())
