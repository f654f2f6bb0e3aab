"""Open a runtime with existing tools, so that they can be called."""

import asyncio
import sys

from agenttool import Runtime
from agenttool.testing.fakes import scripted_tool
from bench.process import print_cost


async def main() -> None:
    """Open one runtime."""
    tools = [
        scripted_tool(
            f"tool_{number}",
            namespace=f"ns{number % 100}",
            schema={
                "type": "object",
                "properties": {f"text_{number}": {"type": "string"}, "limit": {"type": "integer"}},
            },
        )
        for number in range(int(sys.argv[1]))
    ]
    print_cost(lambda: Runtime.open(tools=tools))


if __name__ == "__main__":
    asyncio.run(main())
