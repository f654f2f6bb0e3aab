"""The call shapes that are measured, and the tools that all contestants share.

Every contestant that `bench.calls` compares shape by shape offers one call per row of `SHAPES`, under the shape's name.
The functions are shared, so that both sides do the same work. Uses only the standard library.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

A, B = 41_000_000, 1_234_567
ARGUMENTS = {"a": A, "b": B}
ARGUMENTS_JSON = f'{{"a":{A},"b":{B}}}'
SUM = str(A + B)
"""Does not occur in a result by chance."""

NAP_S = 0.01


def contains_sum(result: object) -> bool:
    """Return whether a contestant's result contains the sum."""
    return SUM in repr(result)


PIN = "0123456789abcdef"


class Shape(NamedTuple):
    """One way in which tools are declared and called.

    Attributes:
        name: the name of the call in every contestant.
        title: what the table of figures shows.
        function: the tool, without anything that belongs to a library.
        arguments: the arguments as a model writes them.
        at_most: limit of our time over that of openai-agents; None for no limit.
        clock: `processor` for calls that run on one thread, `seconds` where they wait for a thread or a disk.
    """

    name: str
    title: str
    function: Callable[..., Awaitable[int] | int]
    arguments: str
    at_most: float | None = 1.5
    clock: str = "processor"


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def add_default(a: int, b: int = B) -> int:
    """Add two numbers, the second of which has a default."""
    return a + b


async def add_nested(amounts: dict[str, int], labels: list[str]) -> int:
    """Add the amounts of some labels."""
    return sum(amounts[label] for label in labels)


async def add_sensitive(a: int, b: int, pin: str) -> int:
    """Add two numbers for the holder of a secret number."""
    return a + b


def add_sync(a: int, b: int) -> int:
    """Add two numbers in a plain function."""
    return a + b


async def add_checked(a: int, b: int) -> int:
    """Add two numbers after a check of their values."""
    return a + b


async def add_hooked(a: int, b: int) -> int:
    """Add two numbers after a hook has seen the call."""
    return a + b


async def add_allowed(a: int, b: int) -> int:
    """Add two numbers if a rule allows it."""
    return a + b


async def add_durable(a: int, b: int) -> int:
    """Add two numbers; the call and its result are stored on disk."""
    return a + b


SHAPES = (
    Shape("add", "all arguments given", add, ARGUMENTS_JSON, at_most=1),
    Shape("add_default", "optional argument left out", add_default, f'{{"a":{A}}}'),
    Shape(
        "add_nested",
        "nested arguments",
        add_nested,
        f'{{"amounts":{{"x":{A},"y":{B},"z":0}},"labels":["x","y","z"]}}',
    ),
    Shape("add_sensitive", "sensitive field", add_sensitive, f'{{"a":{A},"b":{B},"pin":"{PIN}"}}', at_most=2.5),
    Shape("add_sync", "sync function", add_sync, ARGUMENTS_JSON, at_most=1, clock="seconds"),
    Shape("add_checked", "tool with a check", add_checked, ARGUMENTS_JSON),
    Shape("add_hooked", "hooked tool", add_hooked, ARGUMENTS_JSON),
    Shape("add_allowed", "approval rule allows", add_allowed, ARGUMENTS_JSON),
    Shape("add_durable", "durable, one caller", add_durable, ARGUMENTS_JSON, at_most=None, clock="seconds"),
)

DURABLE = "add_durable"
"""The shape that needs a store on disk; contestants without one make a plain call."""
