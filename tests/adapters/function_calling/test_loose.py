"""Schemas without strict mode: taken by every provider, and wide enough for every member that the schema takes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.adapters.function_calling.loose import argument_names, loose_form
from agenttool.schema.compile import compile_schema

TEXT = {"type": "string"}


def test_a_union_at_the_root_is_said_in_words_and_its_members_are_shown():
    schema = {
        "type": "object",
        "properties": {"project": TEXT},
        "anyOf": [{"required": ["title"], "properties": {"title": TEXT}}, {"required": ["project"]}],
    }
    loose = loose_form(schema)
    assert loose.schema == {"type": "object", "properties": {"project": TEXT, "title": TEXT}}
    assert json.loads(loose.remark.partition(": ")[2]) == {"anyOf": schema["anyOf"]}


def test_a_reference_at_the_root_is_written_out():
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}, "additionalProperties": False}
    loose = loose_form({"$ref": "#/$defs/N", "$defs": {"N": node}})
    assert loose.schema == {**node, "$defs": {"N": node}}
    assert loose.remark is None


@pytest.mark.parametrize("wrap", [{"$ref": "#/$defs/N"}, {"allOf": [{"$ref": "#/$defs/N"}]}])
def test_what_stands_beside_a_reference_at_the_root_is_shown_too(wrap):
    node = {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}
    schema = {**wrap, "properties": {"b": TEXT}, "required": ["b"], "$defs": {"N": node}}
    loose = loose_form(schema)
    assert loose.schema["properties"] == {"a": TEXT, "b": TEXT}
    assert loose.schema["required"] == ["b"]
    assert json.loads(loose.remark.partition(": ")[2]) == {"allOf": [{"$ref": "#/$defs/N"}]}
    assert [*argument_names(schema)] == ["b", "a"]


def test_what_goes_without_saying_is_said_where_providers_want_to_hear_it():
    loose = loose_form(
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "properties": {"a": {"type": "array"}}}
    )
    assert loose.schema == {"type": "object", "properties": {"a": {"type": "array", "items": {}}}}


parts = st.sampled_from(
    [
        {"required": ["a"]},
        {"properties": {"a": TEXT}, "required": ["a"], "additionalProperties": False},
        {"properties": {"b": {"type": "integer"}}},
        {"properties": {"b": TEXT}, "type": "object"},
        {"$ref": "#/$defs/N"},
        {"enum": [{"a": "x"}, {"b": 1}]},
    ]
)
roots = st.builds(
    lambda own, keyword, branches: {**own, keyword: branches, "$defs": {"N": {"properties": {"c": TEXT}}}},
    parts,
    st.sampled_from(["anyOf", "oneOf", "allOf"]),
    st.lists(parts, min_size=1, max_size=3),
)
values = st.dictionaries(st.sampled_from("abcd"), st.sampled_from([1, "x", None]))


@given(roots, values)
def test_a_loose_form_shuts_out_no_member_that_the_schema_accepts(schema, value):
    loose = loose_form(schema)
    assert loose.schema["type"] == "object"
    assert not {"anyOf", "oneOf", "allOf", "enum", "const", "not"} & loose.schema.keys()
    if compile_schema(schema).accepts(value):
        anything = {name: {} for name in loose.schema.get("properties", {})}
        assert compile_schema({**loose.schema, "properties": anything}).accepts(value)
