"""Annotations written as text, as `from __future__ import annotations` makes all of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from agenttool.errors import ConfigError
from agenttool.schema.signature import signature_of
from agenttool.schema.signature.callables import parse_docstring

if TYPE_CHECKING:
    from decimal import Decimal


class Toolbox:
    def method(self, a: int) -> None: ...


def text(a: Annotated[list[int], Field(min_length=1)], b: Toolbox | None = None) -> dict[str, int]: ...
def positional(a: int, /): ...
def many(*numbers: int): ...
def named(**options: int): ...
def bare(a): ...
def unknown(a: int, b: Decimal): ...
def returns_unknown() -> list[Decimal]: ...
def nonsense(a: int): ...


nonsense.__annotations__["a"] = "1 +"


def test_annotations_as_text_are_resolved_where_the_function_was_written():
    found = signature_of(text, context_type=Toolbox)
    assert found.model_input_schema["properties"] == {
        "a": {"type": "array", "items": {"type": "integer"}, "minItems": 1}
    }
    assert found.context_parameter == "b"
    assert found.output_schema == {"type": "object", "additionalProperties": {"type": "integer"}}


@pytest.mark.parametrize(
    ("function", "refusal"),
    [
        (positional, "parameter 'a' of positional() is positional-only, but arguments are sent by name; move the '/'"),
        (many, "parameter 'numbers' of many() takes any number of values; declare one list parameter instead"),
        (named, "parameter 'options' of named() takes any names; declare each parameter, or one dict parameter"),
        (bare, "parameter 'a' of bare() has no annotation, so no value of it could be checked; annotate it"),
        (
            Toolbox.method,
            "parameter 'self' of method() has no annotation, so no value of it could be checked; leave @tool off",
        ),
        (unknown, "the annotation of parameter 'b' of unknown() cannot be resolved, got 'Decimal'"),
        (returns_unknown, "the return annotation of returns_unknown() cannot be resolved, got 'list[Decimal]'"),
        (nonsense, "the annotation of parameter 'a' of nonsense() cannot be resolved, got '1 +'"),
        (max, "max() has no readable signature; wrap it"),
        (Toolbox, "is not a function; declare a function, a bound method or a callable object"),
        (5, "5 is not a function"),
    ],
)
def test_what_cannot_be_called_by_name_is_refused_with_a_way_out(function, refusal):
    with pytest.raises(ConfigError, match=re.escape(refusal)):
        signature_of(function)


GOOGLE = """Do it.

Even more.

Args:
    a: First: with a colon
        and a second line.
    b (int, optional): Second.
    *rest: Others.

Returns:
    The thing
    in two lines.

Raises:
    ValueError: If not.

Note:
    Be careful.

Example:
    >>> do(1)
    2
"""

NUMPY = """Do it.

Parameters
----------
a : int
    First.
b, c : str, optional
    Both.

Returns
-------
str
    The thing.

Examples
--------
>>> do(1)
2
"""

SPHINX = """Do it.

:param a: first
    goes on
:param int b: second
:returns: the thing
:raises ValueError: if not"""


@pytest.mark.parametrize(
    ("text", "docs"),
    [
        (
            GOOGLE,
            (
                (
                    "Do it.\n\nEven more.\n\nReturns:\n    The thing\n    in two lines.\n\nRaises:\n    ValueError: If not."
                    "\n\nNote:\n    Be careful.\n\nExample:\n    >>> do(1)\n    2"
                ),
                {"a": "First: with a colon\nand a second line.", "b": "Second."},
            ),
        ),
        (
            NUMPY,
            (
                "Do it.\n\nReturns:\n    str: The thing.\n\nExamples:\n    >>> do(1)\n    2",
                {"a": "First.", "b": "Both.", "c": "Both."},
            ),
        ),
        (
            SPHINX,
            (
                "Do it.\n\nReturns:\n    the thing\n\nRaises:\n    ValueError: if not",
                {"a": "first\ngoes on", "b": "second"},
            ),
        ),
        ("Do: it.\n\n    indented\n", ("Do: it.\n\n    indented", {})),
        ("Args:\n    z: Not a parameter.", ("Args:\n    z: Not a parameter.", {})),
        ("", ("", {})),
    ],
)
def test_a_docstring_is_taken_apart_in_its_own_style(text, docs):
    assert parse_docstring(text, {"a", "b", "c"}) == docs


LINES = st.sampled_from(
    ["Args:", "Parameters", "----------", ":param a: x", ":type a:", "    a: x", "a : int", "    ", "a", "Returns:", ":param",
     "\\d [", "    >>> a", ":raises", "    a (", "    *a", "Yields:", "    : ", ".. deprecated:: 1", "Attributes:", "\x00"]
)  # fmt: skip


@given(st.lists(LINES | st.text(max_size=8), max_size=12).map("\n".join))
def test_no_text_is_too_odd_to_be_read(text):
    _, parameters = parse_docstring(text, {"a"})
    assert set(parameters) <= {"a"}


def test_a_parser_that_trips_costs_only_the_structure(monkeypatch):
    def trip(*_, **__):
        raise IndexError

    monkeypatch.setattr("griffe.Docstring.parse", trip)
    assert parse_docstring(GOOGLE, {"a"}) == (GOOGLE.strip(), {})
