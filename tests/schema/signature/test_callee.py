"""Annotations written as text, as `from __future__ import annotations` makes all of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import pytest
from pydantic import Field

from agenttool.errors import ConfigError
from agenttool.schema.signature import signature_of

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
        (positional, "parameter 'a' of positional() is positional-only, but arguments travel by name; move the '/'"),
        (many, "parameter 'numbers' of many() takes any number of values; declare one list parameter instead"),
        (named, "parameter 'options' of named() takes any names; declare each parameter, or one dict parameter"),
        (bare, "parameter 'a' of bare() has no annotation, so no value of it could be checked; annotate it"),
        (Toolbox.method, "parameter 'self' of method() has no annotation, so no value of it could be checked; bind"),
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
