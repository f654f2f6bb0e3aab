import datetime as dt
import enum
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import msgspec
import pytest
from hypothesis import given
from pydantic import AliasChoices, BaseModel, Field, WithJsonSchema
from strategies import json_values

from agenttool.errors import ConfigError
from agenttool.schema.compile import Checker
from agenttool.schema.markers import Internal, Sensitive
from agenttool.schema.signature import signature_of


class Struct(msgspec.Struct):
    a: int


class PendingOutput(BaseModel):
    a: "Nowhere"  # noqa: F821 -- that it is nowhere is the point


@pytest.mark.parametrize(
    "kind",
    [
        Struct,
        PendingOutput,
        Self,
        5,
        type[int],
        Callable[[], int],
        Iterator[int],
        Literal[1] | Struct,
        Annotated[str, Field(pattern="(?P<a>(?P<a>x))")],
        Annotated[int, WithJsonSchema({"type": "whole"})],
        Annotated[int, WithJsonSchema({"$ref": "https://example.com/schema"})],
    ],
    ids=str,
)
def test_a_type_without_a_schema_is_refused_by_the_name_of_its_parameter(kind):
    def tool(a: int, b: kind, c: str): ...

    with pytest.raises(ConfigError, match=r"parameter 'b' of tool\(\) has a type without a usable schema"):
        signature_of(tool)


@pytest.mark.parametrize(
    ("kind", "default", "refusal"),
    [
        (Annotated[int, Field(default=1)], 2, "parameter 'b' of tool() has two defaults; remove the one in Field()"),
        (
            Annotated[int, Field(alias="a")],
            2,
            "parameter 'b' of tool() is sent as 'a', and so is 'a'; change one alias",
        ),
        (
            Annotated[int, Field(validation_alias=AliasChoices("c", "d"))],
            2,
            "parameter 'b' of tool() has several names",
        ),
        (5, Field(5), "parameter 'b' of tool()"),
    ],
)
def test_what_says_two_things_at_once_is_refused(kind, default, refusal):
    def tool(a: int, b: kind = default): ...

    with pytest.raises(ConfigError, match=re.escape(refusal)):
        signature_of(tool)


def test_a_mark_survives_a_schema_written_by_hand():
    def tool(
        key: Annotated[str, Sensitive, WithJsonSchema({"type": "string", "examples": ["sk-1"]})],
        actor: Annotated[str, WithJsonSchema({"type": "string"}), Internal] = "me",
    ): ...

    found = signature_of(tool)
    assert (found.fields[Sensitive], found.fields[Internal]) == (("key",), ("actor",))
    assert found.model_input_schema["properties"] == {"key": {"type": "string"}}


def test_bounds_may_be_as_wide_as_64_bits():
    def tool(a: Annotated[int, Field(ge=-(2**63), le=2**64 - 1)]): ...

    check = Checker(signature_of(tool).model_input_schema)
    assert check.accepts({"a": 2**63})
    assert not check.accepts({"a": -(2**63) - 1})


def test_classes_of_one_name_are_distinguished():
    def made(kind):
        class Arguments(BaseModel):
            a: kind

        return Arguments

    def tool(one: made(int), two: made(str)): ...

    check = Checker(signature_of(tool).model_input_schema)
    assert check.accepts({"one": {"a": 1}, "two": {"a": "x"}})
    assert not check.accepts({"one": {"a": "x"}, "two": {"a": "x"}})


class Color(enum.StrEnum):
    RED = "red"


class Point(BaseModel):
    x: int = 0
    share: float = float("nan")


class Rebel:
    def __eq__(self, other):
        raise ValueError

    __hash__ = None


@pytest.mark.parametrize(
    ("kind", "default", "written"),
    [
        (int, 5, 5),
        (float, 1, 1.0),
        (str | None, None, None),
        (dt.date, dt.date(2026, 2, 28), "2026-02-28"),
        (Color, Color.RED, "red"),
        (Path, Path("a"), "a"),
        (set[str], {"c", "a", "b"}, ["a", "b", "c"]),
        (list[Point], [Point(x=1, share=2)], [{"x": 1, "share": 2.0}]),
        (int, Field(5, ge=1), 5),
    ],
)
def test_a_default_is_written_as_json(kind, default, written):
    def tool(value: kind = default): ...

    found = signature_of(tool)
    assert found.defaults == {"value": written}
    assert found.model_input_schema["properties"]["value"]["default"] == written
    assert "required" not in found.model_input_schema


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        (float, float("nan")),
        (float, float("inf")),
        (int, 2**60),
        (int, None),
        (int, True),
        (str, Color.RED),
        (str, "\ud800"),
        (list[str], ("a",)),
        (bytes, b"hi"),
        (object, object()),
        (object, {1: 2}),
        (object, Rebel()),
        (Any, print),
        (Point, Point()),
        (list[int], Field(default_factory=lambda: [1])),
        (int, Field(0, ge=1)),
    ],
)
def test_a_default_without_json_form_is_left_to_python(kind, default):
    def tool(value: kind = default): ...

    found = signature_of(tool)
    assert found.defaults == {}
    assert "default" not in found.model_input_schema["properties"]["value"]
    assert Checker(found.model_input_schema).accepts({})


def test_a_default_that_python_does_not_know_itself_is_filled_in():
    def tool(a: list[int] = Field(default_factory=lambda: [1]), b: int = Field(2)): ...  # noqa: B008

    assert signature_of(tool).arguments({}) == {"a": [1], "b": 2}


def test_a_field_without_a_default_must_be_sent():
    def tool(a: int = Field(description="how many")): ...

    assert signature_of(tool).model_input_schema["required"] == ["a"]


@given(json_values())
def test_a_written_default_is_what_the_function_would_have_got(default):
    def tool(value: object = default): ...

    found = signature_of(tool)
    assert found.arguments({**found.defaults}) == {"value": default}
    assert Checker(found.model_input_schema).accepts(found.defaults)
