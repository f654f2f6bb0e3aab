import copy
import datetime as dt
import re
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field, StringConstraints, TypeAdapter
from strategies import json_values
from typing_extensions import TypedDict

from agenttool.errors import ToolFailure
from agenttool.records import ErrorClass, ToolError
from agenttool.schema.compile import Checker
from agenttool.schema.markers import Sensitive
from agenttool.schema.signature import signature_of


class Free(BaseModel, extra="allow"):
    a: Any = None


class Part(TypedDict):
    tags: list[str]


def converter(kind):
    def tool(value: kind): ...

    found = signature_of(tool)
    return found.arguments, Checker(found.model_input_schema)


@pytest.mark.parametrize(
    "kind",
    [str, float, bool, None, str | None, Literal["a", True] | None, str | float, Annotated[str, Field(pattern="a", max_length=3)],
     Annotated[float | None, Field(ge=1)], Annotated[str, "documented"], int | float],
    ids=str,
)  # fmt: skip
def test_plain_values_need_no_conversion_at_all(kind):
    assert converter(kind)[0] is None


@pytest.mark.parametrize(
    "kind",
    [list[str], dict, Any, object, Part, dt.date, tuple[str, ...], Annotated[str, StringConstraints(strip_whitespace=True)],
     Annotated[str, AfterValidator(str.upper)], Annotated[str, Field(pattern=re.compile("a", re.IGNORECASE))], Annotated[str, Field(alias="x")]],
    ids=str,
)  # fmt: skip
def test_whatever_is_changed_or_can_be_changed_is_converted(kind):
    assert converter(kind)[0] is not None


def test_integers_need_no_conversion_but_are_listed_because_the_schema_accepts_whole_floats():
    def tool(name: str, a: int, b: int | None = None, c: Literal[1, 2] = 1, d: float = 0): ...

    found = signature_of(tool)
    assert found.arguments is None
    assert found.integer_fields == {"a", "b", "c"}


SIMPLE = [str, int, float, bool, None, Literal["a", 1], Annotated[int, Field(ge=1)]]
UNIONS = st.sets(st.sampled_from(range(len(SIMPLE))), min_size=1).map(
    lambda chosen: reduce(or_, [SIMPLE[each] for each in sorted(chosen) if SIMPLE[each] is not None] or [type(None)])
)


@given(UNIONS, json_values(max_leaves=1) | st.sampled_from([1, 1.0, "a", True, 2.5, 1e30]))
def test_the_short_way_gives_what_the_annotation_says(kind, value):
    def tool(value: kind): ...

    found = signature_of(tool)
    assume(Checker(found.model_input_schema).accepts({"value": value}))
    if "value" in found.integer_fields and type(value) is float:
        value = int(value)
    made = (found.arguments or dict)({"value": value})["value"]
    assert made == value
    # A float parameter may get an integer, as in Python itself; otherwise nothing is bent into shape.
    TypeAdapter(kind).validate_python(made, strict=True)


INTEGERS = st.lists(st.integers())
CONTAINERS = {
    list[str]: st.lists(st.text()),
    list[int]: INTEGERS,
    dict[str, int]: st.dictionaries(st.text(), st.integers()),
    dict[str, list[int]]: st.dictionaries(st.text(), INTEGERS),
    list[str | None]: st.lists(st.none() | st.text()),
    list[list[bool]] | None: st.none() | st.lists(st.lists(st.booleans())),
}


@given(st.sampled_from([*CONTAINERS]).flatmap(lambda kind: st.tuples(st.just(kind), CONTAINERS[kind])))
def test_simple_containers_get_what_pydantic_would_make_of_them(given):
    kind, value = given
    convert, check = converter(kind)
    assert check.accepts({"value": value})
    assert convert({"value": value}) == {"value": TypeAdapter(kind).validate_python(value)}


@given(json_values(), st.sampled_from([object, Any, dict[str, Any], Free, Part, list[object], dict]))
def test_arguments_share_nothing_with_the_input_that_can_be_changed(value, kind):
    convert, check = converter(kind)
    sent = {"value": {"a": value} if kind is Free else value}
    assume(check.accepts(sent))
    before = copy.deepcopy(sent)
    ruin(convert(sent)["value"])
    assert sent == before


def ruin(value):
    inner = [*vars(value).values(), *value.model_extra.values()] if isinstance(value, BaseModel) else value
    for each in inner.values() if isinstance(inner, dict) else inner if isinstance(inner, list) else ():
        ruin(each)
    if isinstance(value, dict | list):
        value.clear()


def test_what_only_the_type_can_refuse_ends_the_call_with_a_reason_and_no_secret():
    def positive(value: str) -> str:
        raise ValueError(f"{value} is not welcome")

    class Login(BaseModel):
        password: Annotated[str, AfterValidator(positive), Sensitive]

    def tool(day: dt.date, login: Login, names: list[Annotated[str, AfterValidator(positive)]]): ...

    convert = signature_of(tool).arguments
    with pytest.raises(ToolFailure) as failure:
        convert({"day": "2026-02-30", "login": {"password": "hunter2"}, "names": ["bob"]})
    assert failure.value.error == ToolError(
        error_class=ErrorClass.INVALID_ARGUMENTS,
        message="arguments do not fit the tool: '/day': Input should be a valid date or datetime, day value is outside expected"
        " range; '/login/password': not a valid value; '/names/0': Value error, bob is not welcome; correct them and call again",
    )


def test_a_failure_has_no_cause_that_would_quote_the_input():
    convert, _ = converter(dt.date)
    with pytest.raises(ToolFailure) as failure:
        convert({"value": "hunter2"})
    assert (failure.value.__cause__, failure.value.__context__) == (None, None)
    assert "hunter2" not in str(failure.value)
