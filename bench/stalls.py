"""Print how long the worst inputs, outputs and messages stall the event loop: `python -m bench.stalls [NAME…]`.

A task that only yields runs beside each call. The figure is its longest pause, in milliseconds.
"""

import asyncio
import datetime as dt
import sys
import time
from collections.abc import Callable
from typing import Annotated

from pydantic import Field

from agenttool import Context, Runtime, Sensitive, tool
from agenttool.records import JsonObject

VALUES = 100_000
CHARS = 1_000_000
LOOK_AHEAD = r"(?=.*[a-z])(?=.*[A-Z])(?=.*\d).{8,}"
EXPLODING = r"^(?:a|b|ab|ba|[ab]a[ab]{20})*c$"

OUTPUTS: dict[str, Callable[[], object]] = {
    "integers": lambda: list(range(VALUES)),
    "integers over the limit": lambda: tuple(range(2_100_000)),
    "small lists": lambda: [[each] for each in range(VALUES // 2)],
    "members": lambda: {str(each): str(each) for each in range(VALUES)},
    "moments": lambda: [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)] * (VALUES // 10),
    "text": lambda: "a b " * (CHARS // 4),
    "text in base64": lambda: "QUJD" * (CHARS // 4),
    "heads of data URLs": lambda: ("data:" + ";a=" * 20) * (CHARS // 650) + "base64,",
    "bytes": lambda: bytes(CHARS * 10),
}
INPUTS: dict[str, tuple[str, list[str]]] = {
    "pattern with look-ahead": ("look", ["a" * 30_000]),
    "pattern with look-ahead, many texts": ("look", ["a" * 200] * 2000),
    "pattern with many states": ("explode", ["abaab" * 20_000]),
}


values = {name: build() for name, build in OUTPUTS.items()}


@tool(read_only=True, open_world=False)
async def make(name: str, pin: Annotated[str, Sensitive] = "hunter22") -> object:
    """Return one of the outputs. Not for inputs."""
    return values[name]


@tool(read_only=True, open_world=False)
async def look(texts: list[Annotated[str, Field(json_schema_extra={"pattern": LOOK_AHEAD})]]) -> str:
    """Take texts. Not for outputs."""
    return str(len(texts))


@tool(read_only=True, open_world=False)
async def explode(texts: list[Annotated[str, Field(json_schema_extra={"pattern": EXPLODING})]]) -> str:
    """Take texts. Not for outputs."""
    return str(len(texts))


@tool(read_only=True, open_world=False)
async def fail(pin: Annotated[list[str], Sensitive]) -> str:
    """Fail with a long message. Not for success."""
    raise ValueError("x" * 10 * CHARS + pin[0])


@tool(read_only=True, open_world=False)
async def report(context: Context, pin: Annotated[list[str], Sensitive]) -> str:
    """Report a long message. Not for short ones."""
    context.report("x" * 10 * CHARS + pin[0])
    return "done"


async def _longest_pause(stop: asyncio.Event) -> float:
    longest, before = 0.0, time.perf_counter()
    while not stop.is_set():
        await asyncio.sleep(0)
        now = time.perf_counter()
        longest, before = max(longest, now - before), now
    return longest


async def main() -> None:
    """Measure every case, or those whose names are given."""
    secrets = [f"secret-{number}" for number in range(50)]
    cases: dict[str, tuple[str, JsonObject]] = {f"output: {name}": ("make", {"name": name}) for name in OUTPUTS}
    cases |= {f"input: {name}": (called, {"texts": [*texts]}) for name, (called, texts) in INPUTS.items()}
    cases |= {f"message: {name}": (name, {"pin": [*secrets]}) for name in ("fail", "report")}
    async with Runtime.open(tools=[make, look, explode, fail, report]) as runtime:
        surface = await runtime.surface()
        for name, (called, arguments) in cases.items():
            if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
                continue
            stop = asyncio.Event()
            pause = asyncio.ensure_future(_longest_pause(stop))
            await asyncio.sleep(0)
            result = await runtime.call(called, arguments, surface=surface)
            stop.set()
            sys.stdout.write(f"{name:48}{await pause * 1000:10.1f} ms  {result.status}\n")


if __name__ == "__main__":
    asyncio.run(main())
