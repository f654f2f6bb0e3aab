"""No library: a line is written and synced to disk before the sum and after it."""

import os
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from bench.contestants.shapes import ARGUMENTS

LINE = b"x" * 700 + b"\n"
"""About as much as our journal writes each time."""

Path("build").mkdir(exist_ok=True)


@asynccontextmanager
async def opened() -> AsyncGenerator[Mapping[str, Callable[[], Awaitable[object]]]]:
    """Open a fresh file."""
    with tempfile.TemporaryFile(dir="build", buffering=0) as file:

        async def add() -> int:
            os.write(file.fileno(), LINE)
            os.fdatasync(file.fileno())
            total = ARGUMENTS["a"] + ARGUMENTS["b"]
            os.write(file.fileno(), LINE)
            os.fdatasync(file.fileno())
            return total

        yield {"add": add}
