import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.results.outline import (
    abbreviated,
    outline_diff,
    outline_members,
    outline_table,
    outline_troubles,
    shape_of,
)
from agenttool.testing.strategies import json_values


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (None, "null"),
        (True, "boolean"),
        (1, "integer"),
        (1.5, "number"),
        ("x", "string"),
        ("x" * 81, "string of 81 characters"),
        ([], "empty array"),
        ({}, "object with 0 members"),
        ([1, 2], "array of 2, each integer"),
        ([1, "a", None, True], "array of 4, each integer or string or null or …"),
        ([{"a": 1}, {"b": "x"}], 'array of 2, each {"b": string, "a": integer}'),
        ({"a": {"b": {"c": {"d": 1}}}}, '{"a": {"b": {"c": object with 1 members}}}'),
    ],
)
def test_a_shape_tells_names_types_and_lengths(value, shape):
    assert shape_of(value) == shape


def test_an_object_with_many_members_names_some_and_counts_the_rest():
    assert shape_of({f"k{number}": 1 for number in range(25)}).endswith('"k19": integer, … 5 more}')


@given(json_values(max_leaves=30), st.integers(20, 300))
def test_a_value_is_written_whole_or_described(value, room):
    shown = abbreviated(value, room)
    assert len(shown) <= room
    whole = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    assert len(shown) < len(whole) or len(whole) <= room


@given(json_values(max_leaves=30), st.integers(0, 300))
def test_members_never_take_more_room_than_there_is(value, room):
    assert len(outline_members(value, room)) <= room


def test_a_table_and_a_diff_and_a_text_without_news():
    assert outline_table('"a,1",b\r\nx,y\n', ",") == "1 rows of 2 columns: a,1, b"
    assert outline_diff("no diff at all") == ""
    assert outline_troubles("all is well\n") == ""


def test_many_troubles_are_not_all_listed():
    assert outline_troubles("error\n" * 20) == "lines that speak of errors: 1, 2, 3, 4, 5, 6, 7, 8, …"
