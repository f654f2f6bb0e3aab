"""Schemas of plain values: what the reader takes, the schema accepts, and means the same."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from agenttool.codec import UNREADABLE, flat_reader, flat_values, read_object
from agenttool.records import JsonObject
from agenttool.schema.compile import compile_schema
from agenttool.schema.flat import flat_kinds

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "title": "Count"},
        "name": {"type": "string"},
        "dry": {"type": "boolean"},
    },
    "required": ["count", "name", "dry"],
    "additionalProperties": False,
}

_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
_values = _scalars | st.lists(_scalars, max_size=2)
_members = st.sampled_from(["count", "name", "dry", "Name", "extra"])
_likely = st.fixed_dictionaries(
    {"count": st.integers() | _values, "name": st.text() | _values, "dry": st.booleans() | _values}
)


@given(st.dictionaries(_members, _values) | _likely)
def test_what_the_reader_takes_the_schema_accepts_with_the_same_values(value: dict[str, object]) -> None:
    kinds = flat_kinds(SCHEMA)
    assert kinds is not None
    written = msgspec.json.encode(value)
    try:
        taken = flat_values(flat_reader(kinds)(written))
    except UNREADABLE:
        return
    read = read_object(written)
    assert compile_schema(SCHEMA).accepts(read)
    assert list(map(repr, taken)) == [repr(read[name]) for name in kinds]


def test_of_a_member_written_twice_the_last_counts_for_both() -> None:
    kinds = flat_kinds(SCHEMA)
    assert kinds is not None
    written = b'{"count": 1, "name": "a", "dry": true, "count": 2}'
    assert flat_values(flat_reader(kinds)(written)) == (2, "a", True)
    assert read_object(written)["count"] == 2


def test_a_schema_that_says_more_is_left_to_the_checker() -> None:
    properties = {"a": {"type": "integer"}}
    flat: JsonObject = {"type": "object", "properties": properties, "required": ["a"], "additionalProperties": False}
    assert flat_kinds(flat) == {"a": int}
    assert flat_kinds({**flat, "properties": {"a": {"type": "integer", "default": 1}}, "required": []}) == {"a": int}
    for more in (
        {"required": ["b"]},
        {"additionalProperties": True},
        {"minProperties": 1},
        {"properties": {"a": {"type": "integer", "minimum": 0}}},
        {"properties": {"a": {"type": "number"}}},
        {"properties": {"a": {"type": ["integer", "null"]}}},
        {"properties": {"a": {"$ref": "#/$defs/x"}}},
        {"properties": {"a-b": {"type": "integer"}}, "required": ["a-b"]},
        {"properties": {"a": True}},
        {"type": ["object", "null"]},
    ):
        assert flat_kinds({**flat, **more}) is None
