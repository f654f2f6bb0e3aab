"""Opening a runtime with tools that are there before: their records checked, their names known, ready to be called."""

import asyncio
import sys

from agenttool import Runtime
from agenttool.testing.fakes import scripted_tool
from bench.openers.growth import tell


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
    tell(lambda: Runtime.open(tools=tools))


if __name__ == "__main__":
    asyncio.run(main())
