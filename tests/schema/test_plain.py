"""A plain schema can be compiled and costs little to use; a typed reader reads what the schema accepts."""

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agenttool.codec import UNREADABLE
from agenttool.codec.decode import read_object
from agenttool.records import JsonObject
from agenttool.schema.compile import Checker, compile_schema, is_costly, is_plain
from agenttool.schema.plain import typed_reader

DRAFTS = ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"]
TYPES = ["string", "integer", "number", "boolean", "null", "array", "object"]
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
number = st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False))
scalar = st.one_of(text, st.booleans(), st.none(), number)
count = st.integers(0, 2**31)
VALUE = {
    "type": st.sampled_from(TYPES),
    "title": text,
    "description": text,
    "format": st.one_of(text, st.sampled_from(["uri", "date-time", "regex", "no such"])),
    "default": scalar,
    "enum": st.lists(scalar, max_size=3),
    **dict.fromkeys(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], number),
    **dict.fromkeys(["minLength", "maxLength", "minItems", "maxItems"], count),
}
value = st.fixed_dictionaries({}, optional=VALUE)
member = st.fixed_dictionaries({}, optional={**VALUE, "items": value, "anyOf": st.lists(value, min_size=1, max_size=8)})
plain = st.fixed_dictionaries(
    {"type": st.just("object")},
    optional={
        "$schema": st.sampled_from(DRAFTS),
        "title": text,
        "description": text,
        "properties": st.dictionaries(text, member, max_size=4),
        "required": st.lists(text, max_size=4, unique=True),
        "additionalProperties": st.booleans(),
    },
)


@given(plain)
def test_what_is_plain_can_be_used(schema):
    assume(is_plain(schema))
    assert Checker(schema) is not None
    assert not is_costly(schema)


@pytest.mark.parametrize(
    "said",
    [
        {"required": ["a", "a"]},
        {"required": "a"},
        {"properties": {"a": {"type": "text"}}},
        {"properties": {"a": {"type": ["string", "string"]}}},
        {"properties": {"a": {"pattern": "("}}},
        {"properties": {"a": {"anyOf": []}}},
        {"properties": {"a": {"items": None}}},
        {"properties": {"a": {"minLength": -1}}},
        {"properties": {"a": {"$ref": "https://a.test"}}},
        {"properties": {"a": None}},
        {"properties": []},
        {"$ref": "#/$defs/a"},
        {"$schema": "https://a.test/draft"},
        {"additionalProperties": {"type": "text"}},
        {"title": 1},
    ],
)
def test_what_may_be_unusable_is_not_plain(said):
    assert not is_plain({"type": "object", **said})
    assert is_plain({"$schema": DRAFTS[1], "type": "object", "properties": {"a": {"anyOf": [{"enum": [1]}, True]}}})


CAT = {"kind": {"const": "cat", "type": "string"}, "lives": {"type": "integer"}, "name": {"type": "string"}}
CLOSED = {"type": "object", "additionalProperties": False}
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "title": "Count"},
        "name": {"type": "string"},
        "dry": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "sizes": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}},
        "unit": {"enum": ["m", "ft"], "type": "string"},
        "level": {"enum": [1, 2, "high"]},
        "ratio": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None},
        "few": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]}},
        "pet": {"$ref": "#/$defs/Pet"},
        "a-b": {"$ref": "#/$defs/Cat"},
    },
    "required": ["count", "name"],
    "additionalProperties": False,
    "$defs": {
        "Pet": {"anyOf": [{"$ref": "#/$defs/Cat"}, {"type": "null"}]},
        "Cat": {**CLOSED, "properties": CAT, "required": ["kind"]},
    },
}

_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
_values = _scalars | st.lists(_scalars, max_size=2) | st.dictionaries(st.text(), st.lists(_scalars), max_size=2)
_members = st.sampled_from([*SCHEMA["properties"], "Name", "extra"])
_pets = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from(["cat", "cow", 1]),
        "lives": st.integers(-1, 2) | st.just(1.0),
        "name": st.text(max_size=3),
    },
)
_likely = st.fixed_dictionaries(
    {"count": st.integers() | _values, "name": st.text() | _values},
    optional={
        "dry": st.booleans() | _values,
        "tags": st.lists(st.text()) | _values,
        "sizes": st.dictionaries(st.text(), st.lists(st.integers() | st.just(1.0))) | _values,
        "unit": st.sampled_from(["m", "ft", "x", 1]),
        "level": st.sampled_from([1, 2, "high", "1", 1.0, True, None]),
        "ratio": _scalars,
        "few": st.lists(_scalars, max_size=2),
        "pet": _pets | st.none(),
        "a-b": _pets | st.none(),
    },
)


@given(st.dictionaries(_members, _values) | _likely)
def test_what_the_reader_takes_the_schema_accepts_with_the_same_values(value: dict[str, object]) -> None:
    reader = typed_reader(SCHEMA)
    assert reader is not None
    written = msgspec.json.encode(value)
    try:
        taken = reader(written)
    except UNREADABLE:
        return
    read = read_object(written)
    assert compile_schema(SCHEMA).accepts(read)
    assert taken == read
    assert msgspec.json.encode(taken, order="sorted") == msgspec.json.encode(read, order="sorted")


def test_the_reader_takes_what_models_write() -> None:
    reader = typed_reader(SCHEMA)
    assert reader is not None
    written = {
        "count": 1,
        "name": "é",
        "unit": "m",
        "level": "high",
        "ratio": 1,
        "few": ["x"],
        "pet": {"kind": "cat", "name": "😀😀"},
        "a-b": {"kind": "cat", "lives": 1},
    }
    assert reader(msgspec.json.encode(written)) == written


def test_of_a_member_written_twice_the_last_counts_for_both() -> None:
    reader = typed_reader(SCHEMA)
    assert reader is not None
    written = b'{"count": 1, "name": "a", "dry": true, "count": 2}'
    assert reader(written) == {"count": 2, "name": "a", "dry": True}
    assert read_object(written)["count"] == 2


def test_a_schema_that_says_more_is_left_to_the_checker() -> None:
    properties = {"a": {"type": "integer"}}
    flat: JsonObject = {"type": "object", "properties": properties, "required": ["a"], "additionalProperties": False}
    assert typed_reader(flat) is not None
    optional = typed_reader({**flat, "properties": {"a": {"type": "integer", "default": 1}}, "required": []})
    assert optional is not None
    assert optional(b"{}") == {}
    one, other = {**CLOSED, "properties": {"a": {}}}, {**CLOSED, "properties": {"b": {}}}
    for more in (
        {"required": ["b"]},
        {"additionalProperties": True},
        {"minProperties": 1},
        {"properties": {"a": {"type": "integer", "multipleOf": 2}}},
        {"properties": {"a": {"type": "integer", "minimum": 0}}},
        {"properties": {"a": {"type": "string", "maxLength": 1}}},
        {"properties": {"a": {"type": "array", "items": {"type": "integer"}, "minItems": 1}}},
        {"properties": {"a": {"type": "string", "pattern": "a"}}},
        {"properties": {"a": {"type": "string", "format": "date"}}},
        {"properties": {"a": {"type": ["integer", "null"]}}},
        {"properties": {"a": {"$ref": "#/$defs/x"}}},
        {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}},
        {"properties": {"a": {"$ref": "#/$defs/b", "minimum": 1}}, "$defs": {"b": {"type": "integer"}}},
        {"properties": {"a": {"enum": [1, None]}}},
        {"properties": {"a": {"enum": [True]}}},
        {"properties": {"a": {"enum": ["x"], "type": "integer"}}},
        {"properties": {"a": {"const": 1, "type": "number"}}},
        {"properties": {"a": {"const": 1.5}}},
        {"properties": {"a": {"enum": [1, 2**63]}}},
        {"properties": {"a": {"oneOf": [{"type": "integer"}, {"type": "number"}]}}},
        {"properties": {"a": {"anyOf": [one, other]}}},
        {"properties": {"a": {"anyOf": [{"type": "integer"}], "type": "integer"}}},
        {"properties": {"a": {"allOf": [{"type": "integer"}]}}},
        {"properties": {"a": True}},
        {"properties": {"a": {"type": "array"}}},
        {"properties": {"a": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}}},
        {"properties": {"a": {"type": "object", "additionalProperties": False}}},
        {"properties": {"a": {"type": "object", "properties": {"b": {"type": "integer"}}}}},
        {"properties": {"a": {"type": "object", "properties": {}, "additionalProperties": {"type": "integer"}}}},
        {"type": ["object", "null"]},
    ):
        assert typed_reader({**flat, **more}) is None


@pytest.mark.parametrize(
    "written",
    [
        b"",
        b"[]",
        b"null",
        b'{"dry": true}',
        b'{"count": "1", "name": "x"}',
        b'{"count": 1, "name": "x", "c": 0}',
        b'{"name": "\xff"}',
    ],
)
def test_what_does_not_fit_is_refused(written: bytes) -> None:
    reader = typed_reader(SCHEMA)
    assert reader is not None
    with pytest.raises(UNREADABLE):
        reader(written)
