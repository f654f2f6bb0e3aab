"""Outputs that have no place in a result."""

import dataclasses
import io
import subprocess
import sys
import textwrap
import threading

import pytest

from agenttool import tool


class NoRepr:
    def __repr__(self):
        raise RuntimeError("no words")

    __str__ = __repr__


class Trap(dict):
    def items(self):
        raise KeyError("trap")

    values = keys = __iter__ = items


class Leaving:
    def __eq__(self, other):
        raise SystemExit(5)

    __hash__ = None


class Template(str):
    """As template libraries have them."""

    __slots__ = ()


@dataclasses.dataclass
class Holder:
    value: object


def endless():
    value = []
    value.append(value)
    return value


def deep():
    value = []
    for _ in range(100_000):
        value = [value]
    return value


def kind_of(value):
    return type(value).__name__


def giving(value):
    @tool
    async def give():
        """Give something odd. Not for sense."""
        return value

    return give


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (endless(), "holds itself"),
        ({"a": endless()}, "at /a/0/0"),
        (Holder(endless()), "holds itself"),
        (io.StringIO(), "StringIO"),
        ((each for each in ()), "generator"),
        (float("nan"), "nan"),
        ({"a": [1, float("-inf")]}, "at /a/1"),
        (10**5000, "more than 300 digits"),
        ([{"a": 10**5000}], "at /0/a"),
        (object(), "object"),
        ({"a": NoRepr()}, "at /a is of type NoRepr"),
        (NoRepr(), "NoRepr"),
        (Trap(a=1), "Trap"),
        ([Leaving()], "at /0 is of type Leaving"),
        ("\ud800", "surrogate"),
        ({"a": "\ud800"}, "surrogate"),
        ({(1, 2): 3}, "key of type tuple"),
        ({None: 1, "null": 2}, "two keys"),
        (threading.Lock(), "lock"),
        (ValueError("x"), "ValueError"),
        (int, "type"),
        (1j, "complex"),
        (..., "ellipsis"),
    ],
    ids=kind_of,
)
async def test_a_value_without_json_form_is_rejected_with_its_place_and_advice(once, value, problem):
    result = await once(giving(value), {})
    assert (result.status, result.error.error_class) == ("failed", "result_mapping_failed")
    assert problem in result.error.message
    assert "; " in result.error.message, "what to do instead"
    assert result.error.retry.safe is not True, "it ran"


async def test_a_result_of_a_hundred_thousand_levels_is_refused(once):
    result = await once(giving(deep()), {})
    assert "nested deeper" in result.error.message


@pytest.mark.parametrize(
    ("value", "structured"),
    [
        ({1, 2}, [1, 2]),
        (frozenset({"a", 1, None}), ["a", 1, None]),
        (range(3), [0, 1, 2]),
        ({1.5: 1}, {"1.5": 1}),
        (Holder(Holder(None)), {"value": {"value": None}}),
    ],
    ids=kind_of,
)
async def test_what_has_an_obvious_form_takes_it(once, value, structured):
    result = await once(giving(value), {})
    assert (result.status, result.structured_content) == ("succeeded", structured)


async def test_a_kind_of_text_is_text(once):
    result = await once(giving(Template("hello")), {})
    assert (result.status, result.model_facing_content[0].text) == ("succeeded", "hello")


@pytest.mark.parametrize("value", [b"\x00\xff\x01", bytearray(b"\x00\xff"), memoryview(b"\xff\x00")], ids=kind_of)
async def test_bytes_become_a_ref_and_never_text(once, value):
    result = await once(giving(value), {})
    assert result.status == "succeeded"
    assert all(item.type == "file" for item in result.content)


async def test_a_result_that_is_not_what_was_declared_is_refused_with_its_place(once):
    @tool
    async def lie() -> list[int]:
        """Promise numbers. Not for trust."""
        return [1, "two"]

    result = await once(lie, {})
    assert result.error.error_class == "result_mapping_failed"
    assert "/1 must be integer" in result.error.message


LAUGHS = """
    import asyncio, resource
    from agenttool import Runtime, tool
    from agenttool.policy.rules import Rule
    from agenttool.records import Behavior, RuleSource

    @tool
    async def laugh():
        "Return a little that is a lot. Not for sense."
        value = ["ha"]
        for _ in range(40):
            value = [value, value]
        return value

    async def main():
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
        rules = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]
        async with Runtime.open(tools=[laugh], rules=rules) as rt:
            result = await rt.call("laugh", {}, surface=await rt.surface())
            print(result.error.error_class, result.error.error_code)

    asyncio.run(main())
"""


@pytest.mark.slow
def test_a_small_value_that_is_huge_when_written_is_refused_before_it_fills_the_memory():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LAUGHS)], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.split() == ["result_mapping_failed", "too_many_values"]
