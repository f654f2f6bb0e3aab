import datetime as dt
import enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from pydantic import BaseModel, Field

from agenttool.schema.compile import Checker
from agenttool.schema.signature import signature_of
from agenttool.testing.strategies import json_values


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
    ("kind", "default", "told"),
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
def test_a_default_is_told_in_json(kind, default, told):
    def tool(value: kind = default): ...

    found = signature_of(tool)
    assert found.defaults == {"value": told}
    assert found.model_input_schema["properties"]["value"]["default"] == told
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
def test_a_default_that_json_cannot_tell_is_left_to_python(kind, default):
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
def test_a_told_default_is_what_the_function_would_have_got(default):
    def tool(value: object = default): ...

    found = signature_of(tool)
    assert found.arguments({**found.defaults}) == {"value": default}
    assert Checker(found.model_input_schema).accepts(found.defaults)
