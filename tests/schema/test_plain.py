"""What is called plain can be compiled, whatever is in it, and costs little to use."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.schema.compile import Checker, is_costly
from agenttool.schema.plain import is_plain

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
    assert is_plain(schema)
    assert Checker(schema) is not None
    assert not is_costly(schema)


def test_the_largest_plain_schema_is_not_costly():
    member = {"items": {}, "anyOf": [{}] * 8}
    schema = {"type": "object", "properties": {str(number): member for number in range(1000)}}
    assert is_plain(schema)
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
