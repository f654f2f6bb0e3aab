import re
from collections.abc import Callable, Iterator
from typing import Annotated, Literal, Self

import msgspec
import pytest
from pydantic import AliasChoices, BaseModel, Field, WithJsonSchema

from agenttool.errors import ConfigError
from agenttool.schema.compile import Checker
from agenttool.schema.markers import Internal, Sensitive
from agenttool.schema.signature import signature_of


class Struct(msgspec.Struct):
    a: int


class Unfinished(BaseModel):
    a: "Nowhere"  # noqa: F821 -- that it is nowhere is the point


@pytest.mark.parametrize(
    "kind",
    [
        Struct,
        Unfinished,
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
        (Annotated[int, Field(default=1)], 2, "parameter 'b' of tool() has two defaults; keep the one after the '='"),
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
    assert (found.sensitive_fields, found.internal_only_fields) == (("key",), ("actor",))
    assert found.model_input_schema["properties"] == {"key": {"type": "string"}}


def test_bounds_may_be_as_wide_as_64_bits():
    def tool(a: Annotated[int, Field(ge=-(2**63), le=2**64 - 1)]): ...

    check = Checker(signature_of(tool).model_input_schema)
    assert check.accepts({"a": 2**63})
    assert not check.accepts({"a": -(2**63) - 1})


def test_classes_of_one_name_are_kept_apart():
    def made(kind):
        class Arguments(BaseModel):
            a: kind

        return Arguments

    def tool(one: made(int), two: made(str)): ...

    check = Checker(signature_of(tool).model_input_schema)
    assert check.accepts({"one": {"a": 1}, "two": {"a": "x"}})
    assert not check.accepts({"one": {"a": "x"}, "two": {"a": "x"}})
