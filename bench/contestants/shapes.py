"""The call shapes that are measured, and the tools that all contestants share.

Every contestant that `bench.calls` compares shape by shape offers one call per row of `SHAPES`, under the shape's name.
The functions are shared, so that both sides do the same work. Uses only pydantic, which all their environments have.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple

from pydantic import BaseModel

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
    function: Callable[..., Awaitable[object] | object]
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


async def add_approved(a: int, b: int) -> int:
    """Add two numbers once a function has approved it."""
    return a + b


async def add_text(a: int, b: int, text: str) -> int:
    """Add two numbers; a text explains them."""
    return a + b


async def add_long_text(a: int, b: int, text: str) -> int:
    """Add two numbers; a long text explains them."""
    return a + b


class Unit(Enum):
    """The unit of an amount."""

    METRE = "metre"
    MILE = "mile"


class Amount(BaseModel):
    """An amount with its unit, of which the model leaves out the scale."""

    value: int
    unit: Unit
    scale: int = 1
    labels: list[str] = []


class Credit(BaseModel):
    """An amount to add."""

    kind: Literal["credit"]
    value: int


class Debit(BaseModel):
    """An amount to subtract."""

    kind: Literal["debit"]
    value: int


@dataclass
class Entry:
    """An amount with a name."""

    name: str
    value: int


async def add_model(first: Amount, b: int) -> int:
    """Add a number to an amount."""
    return first.value * first.scale + b


async def add_dataclass(entry: Entry, mode: Literal["add", "subtract"], other: int | str) -> int:
    """Add a number, or one that is written as text, to an entry."""
    return entry.value + int(other) if mode == "add" else entry.value - int(other)


async def add_models(amounts: list[Amount]) -> int:
    """Add the values of amounts."""
    return sum(amount.value for amount in amounts)


async def add_choices(entries: list[Credit | Debit]) -> int:
    """Add credits and subtract debits."""
    return sum(each.value if each.kind == "credit" else -each.value for each in entries)


async def add_twenty(  # noqa: PLR0913, PLR0917 -- the shape
    a: int,
    b: int,
    c: int,
    d: int,
    e: str,
    f: str,
    g: str,
    h: str,
    i: bool,  # noqa: FBT001 -- the shape
    j: bool,  # noqa: FBT001 -- the shape
    k: float,
    l: float,  # noqa: E741 -- the shape
    m: int = 0,
    n: int = 0,
    o: str = "",
    p: str = "",
    q: bool = False,  # noqa: FBT001, FBT002 -- the shape
    r: float = 0.5,
    s: int | None = None,
    t: str | None = None,
) -> int:
    """Add the numbers among twenty parameters."""
    return a + b + c + d + m + n


async def add_matrix(rows: list[list[int]]) -> int:
    """Add the numbers of a matrix."""
    return sum(map(sum, rows))


_ROWS = [{"name": f"row {number}", "value": number, "notes": ["x" * 100], "is_new": False} for number in range(100)]


async def add_output(a: int, b: int) -> dict[str, object]:
    """Add two numbers; return the sum beside a table of a hundred rows."""
    return {"sum": a + b, "rows": _ROWS}


async def add_durable(a: int, b: int) -> int:
    """Add two numbers; the call and its result are stored on disk."""
    return a + b


_TEXT = json.dumps("A sentence of the text, which explains the numbers. " * 200)
_LONG_TEXT = json.dumps("A sentence of the text, which explains the numbers.\n" * 4000)
_AMOUNT = '{"value":%d,"unit":"mile"}'
_AMOUNTS = [f'{{"value":{value},"unit":"mile","scale":1,"labels":["x"]}}' for value in (A, B, *[0] * 98)]
_ENTRIES = [f'{{"kind":"credit","value":{A}}}', f'{{"kind":"credit","value":{B}}}', '{"kind":"debit","value":0}']
_TWELVE = f'"a":{A},"b":{B},"c":0,"d":0,"e":"e","f":"f","g":"g","h":"h","i":true,"j":false,"k":0.5,"l":1'

SHAPES = (
    Shape("add", "two integers", add, ARGUMENTS_JSON, at_most=1.4),
    Shape("add_default", "default left out", add_default, f'{{"a":{A}}}'),
    Shape(
        "add_nested",
        "dict and list",
        add_nested,
        f'{{"amounts":{{"x":{A},"y":{B},"z":0}},"labels":["x","y","z"]}}',
    ),
    Shape("add_sensitive", "sensitive field", add_sensitive, f'{{"a":{A},"b":{B},"pin":"{PIN}"}}', at_most=2.3),
    Shape("add_model", "model and enum", add_model, f'{{"first":{_AMOUNT % A},"b":{B}}}', at_most=2.2),
    Shape(
        "add_dataclass",
        "dataclass, literal, union",
        add_dataclass,
        f'{{"entry":{{"name":"x","value":{A}}},"mode":"add","other":"{B}"}}',
        at_most=2.2,
    ),
    Shape("add_text", "10 kB of text", add_text, f'{{"a":{A},"b":{B},"text":{_TEXT}}}', at_most=1.7),
    Shape("add_long_text", "200 kB of text", add_long_text, f'{{"a":{A},"b":{B},"text":{_LONG_TEXT}}}', at_most=1.4),
    Shape("add_models", "100 models", add_models, f'{{"amounts":[{",".join(_AMOUNTS)}]}}', at_most=1.2),
    Shape("add_choices", "union of models", add_choices, f'{{"entries":[{",".join(_ENTRIES)}]}}', at_most=2.2),
    Shape("add_twenty", "20 parameters", add_twenty, f"{{{_TWELVE}}}", at_most=2.2),
    Shape("add_matrix", "list of lists", add_matrix, json.dumps({"rows": [[A, B], *[[0] * 10] * 10]}), at_most=2.2),
    Shape("add_output", "large output", add_output, ARGUMENTS_JSON, at_most=2.2),
    Shape("add_sync", "sync function", add_sync, ARGUMENTS_JSON, at_most=1.1, clock="seconds"),
    Shape("add_checked", "tool with a check", add_checked, ARGUMENTS_JSON),
    Shape("add_hooked", "hooked tool", add_hooked, ARGUMENTS_JSON, at_most=2.5),
    Shape("add_allowed", "allowed by a rule", add_allowed, ARGUMENTS_JSON),
    Shape("add_approved", "approved by a function", add_approved, ARGUMENTS_JSON, at_most=6),
    Shape("add_durable", "durable, one caller", add_durable, ARGUMENTS_JSON, at_most=None, clock="seconds"),
)

DURABLE = "add_durable"
"""The shape that needs a store on disk; contestants without one make a plain call."""
