"""Print how long calls at the documented limits stall the event loop: `python -m bench.stalls [WORD…]`.

A task that only yields runs beside each call. The figures are its longest pause, in milliseconds: the processor time
that this process spent in it, the part of it that the garbage collector took, which depends on all objects of the
process, and the time on the clock, which depends on what else the machine does. The limits are in
`docs/explanation/one-call.md`.
"""

import asyncio
import base64
import datetime as dt
import gc
import secrets
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from operator import sub
from typing import Annotated

from pydantic import Field

from agenttool import Context, Runtime, Sensitive, ToolCall, tool
from agenttool.call.plan import MAX_INPUT_BYTES, MAX_INPUT_VALUES
from agenttool.records import Json, JsonObject
from agenttool.results.jsonable import MAX_DEPTH, MAX_TEXT_CHARS, MAX_VALUES

CHARS = MAX_TEXT_CHARS
RANDOM = secrets.token_bytes(CHARS * 7 // 10)
SECRETS = [f"secret-{number}" for number in range(100)]
LOOK_AHEAD = r"(?=.*[a-z])(?=.*[A-Z])(?=.*\d).{8,}"
EXPLODING = r"^(?:a|b|ab|ba|[ab]a[ab]{20})*c$"


@dataclass(frozen=True)
class Row:
    """One row of a table, as many tools return it."""

    number: int
    name: str
    share: float


def nested(levels: int) -> Json:
    """Return a list of lists that are as deep as allowed."""
    value: Json = 1
    for _ in range(levels - 1):
        value = [value]
    return value


OUTPUTS: dict[str, Callable[[], object]] = {
    "integers": lambda: list(range(MAX_VALUES)),
    "integers over the limit": lambda: tuple(range(2_100_000)),
    "mixed scalars": lambda: [1, "two", 3.5, None, True] * (MAX_VALUES // 5),
    "small lists": lambda: [[each] for each in range(MAX_VALUES // 2)],
    "deep lists": lambda: [nested(MAX_DEPTH - 1) for _ in range(MAX_VALUES // MAX_DEPTH)],
    "members": lambda: {str(each): each % 10 for each in range(MAX_VALUES)},
    "long names": lambda: {f"{each:0180}": each for each in range(CHARS // 200)},
    "secret values": lambda: [{"name": f"{each} and secret-7"} for each in range(MAX_VALUES // 3)],
    "data classes": lambda: [Row(each, "a name", each / 7) for each in range(MAX_VALUES // 4)],
    "moments": lambda: [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)] * (MAX_VALUES - 1),
    "text": lambda: "a b " * (CHARS // 4),
    "lines": lambda: "some line of text\n" * (CHARS // 18),
    "text beyond ASCII": lambda: "für " * (CHARS // 4),
    "invisible characters": lambda: "a\u200b" * (CHARS // 2),
    "joiners": lambda: "a" + "\u200d" * (CHARS - 1),
    "base64": lambda: "QUJD" * (CHARS // 4),
    "base64 in lines": lambda: base64.encodebytes(RANDOM).decode(),
    "base64 after text": lambda: "a b " * (CHARS // 4 - 1000) + "QUJD" * 500,
    "heads of data URLs": lambda: ("data:" + ";a=" * 20) * (CHARS // 650) + "base64,",
    "bytes": lambda: bytes(CHARS * 10),
}
VALUES: dict[str, object] = {}
"""The output of the current case only: the garbage collector visits every object of the process."""


@tool(read_only=True, open_world=False)
async def make(name: str, pins: Annotated[list[str], Sensitive] = SECRETS) -> object:
    """Return one of the outputs. Not for inputs."""
    return VALUES[name]


@tool(read_only=True, open_world=False, max_inline_chars=CHARS * 2)
async def make_inline(name: str) -> object:
    """Return one of the outputs, which is not stored but delivered. Not for inputs."""
    return VALUES[name]


@tool(read_only=True, open_world=False)
async def make_numbers() -> list[int]:
    """Return names instead of numbers. Not for success."""
    return ["a"] * MAX_VALUES  # type: ignore[list-item]


@tool(read_only=True, open_world=False)
async def make_nested(context: Context, name: str) -> object:
    """Return the output of a nested call. Not for inputs."""
    return (await context.call("make_inline", {"name": name})).structured_content


@tool(read_only=True, open_world=False)
async def look(texts: list[Annotated[str, Field(json_schema_extra={"pattern": LOOK_AHEAD})]]) -> str:
    """Take texts. Not for outputs."""
    return str(len(texts))


@tool(read_only=True, open_world=False)
async def explode(texts: list[Annotated[str, Field(json_schema_extra={"pattern": EXPLODING})]]) -> str:
    """Take texts. Not for outputs."""
    return str(len(texts))


@tool(read_only=True, open_world=False)
async def take(value: object, pins: Annotated[object, Sensitive] = None) -> str:
    """Take anything. Not for outputs."""
    return "done"


@tool(read_only=True, open_world=False)
async def count(numbers: list[int]) -> str:
    """Take numbers. Not for outputs."""
    return "done"


@tool(read_only=True, open_world=False)
async def fail(pins: Annotated[list[str], Sensitive]) -> str:
    """Fail with a long message. Not for success."""
    raise ValueError(MESSAGE)


@tool(read_only=True, open_world=False)
async def report(context: Context, pins: Annotated[list[str], Sensitive]) -> str:
    """Report a long message. Not for short ones."""
    context.progress(MESSAGE)
    return "done"


MESSAGE = "x" * 10 * CHARS + SECRETS[0]
INPUTS: dict[str, tuple[str, JsonObject]] = {
    "members": ("take", {"value": {str(each): each for each in range(MAX_INPUT_VALUES - 1)}}),
    "members over the limit": ("take", {"value": {str(each): each % 10 for each in range(100_000)}}),
    "small lists": ("take", {"value": [[each] for each in range(MAX_INPUT_VALUES // 2 - 1)]}),
    "texts and secrets": (
        "take",
        {"value": ["a few words" for _ in range(MAX_INPUT_VALUES - 200)], "pins": [*SECRETS]},
    ),
    "text": ("take", {"value": "a b " * (MAX_INPUT_BYTES // 4 - 100)}),
    "long secret": ("take", {"value": "", "pins": "a b " * (MAX_INPUT_BYTES // 4 - 100)}),
    "misfits": ("count", {"numbers": ["a" for _ in range(MAX_INPUT_VALUES - 1)]}),
}
CASES: dict[str, tuple[str, JsonObject]] = {
    **{f"output: {name}": ("make", {"name": name}) for name in OUTPUTS},
    **{f"inline output: {name}": ("make_inline", {"name": name}) for name in ("small lists", "members", "text")},
    "output: misfits": ("make_numbers", {}),
    "output of a nested call: members": ("make_nested", {"name": "members"}),
    "input: pattern with look-ahead": ("look", {"texts": ["a" * 30_000]}),
    "input: pattern with look-ahead, many texts": ("look", {"texts": ["a" * 200 for _ in range(2000)]}),
    "input: pattern with many states": ("explode", {"texts": ["abaab" * 20_000]}),
    **{f"input: {name}": (called, {**value}) for name, (called, value) in INPUTS.items()},
    "message: fail": ("fail", {"pins": [*SECRETS]}),
    "message: report": ("report", {"pins": [*SECRETS]}),
}


class _Collector:
    """The processor time that the garbage collector took so far."""

    def __init__(self) -> None:
        self.spent = 0.0
        gc.callbacks.append(self._note)

    def _note(self, phase: str, _: dict[str, int]) -> None:
        self.spent += time.process_time() * (1 if phase == "stop" else -1)


COLLECTOR = _Collector()


def _times() -> tuple[float, float, float]:
    return time.process_time(), COLLECTOR.spent, time.perf_counter()


async def _longest_pause(stop: asyncio.Event) -> tuple[float, ...]:
    longest, before = (0.0, 0.0, 0.0), _times()
    while not stop.is_set():
        await asyncio.sleep(0)
        now = _times()
        longest, before = max(longest, tuple(map(sub, now, before))), now
    return longest


async def _measure(name: str, work: Callable[[], Awaitable[str | None]]) -> None:
    if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
        return
    stop = asyncio.Event()
    pause = asyncio.ensure_future(_longest_pause(stop))
    await asyncio.sleep(0)
    status = await work()
    stop.set()
    figures = "".join(f"{each * 1000:9.1f}" for each in await pause)
    sys.stdout.write(f"{name:48}{figures}  {status}\n")


async def main() -> None:
    """Measure every case, or those whose names are given."""
    sys.stdout.write(f"{'longest pause, in milliseconds':48}processor  garbage    clock\n")
    tools = [make, make_inline, make_numbers, make_nested, look, explode, take, count, fail, report]
    async with Runtime.open(tools=tools) as runtime:
        surface = await runtime.surface()
        for name, (called, arguments) in CASES.items():

            async def call(called: str = called, arguments: JsonObject = arguments) -> str | None:
                return (await runtime.call(called, arguments, surface=surface)).status

            output = arguments.get("name")
            if isinstance(output, str):
                VALUES[output] = OUTPUTS[output]()
            await _measure(name, call)
            VALUES.clear()

        async def batch() -> str | None:
            calls = [ToolCall("make_inline", {"name": "rows"}) for _ in range(100)]
            return (await runtime.batch(calls, surface=surface))[-1].status

        VALUES["rows"] = [{"number": each, "name": "a name"} for each in range(300)]
        await _measure("batch of 100 outputs of 900 values", batch)


if __name__ == "__main__":
    asyncio.run(main())
