"""A schema of an older draft, spelled upgraded, takes exactly what it took; and the newest draft knows all its words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.schema.compile import compile_schema
from agenttool.schema.drafts import upgrade_schema

DRAFTS = {
    "4": "http://json-schema.org/draft-04/schema#",
    "6": "http://json-schema.org/draft-06/schema",
    "7": "http://json-schema.org/draft-07/schema#",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
}
TEXT, NUMBER = {"type": "string"}, {"type": "number"}
ANYWHERE = [
    {"type": "array", "items": [TEXT, NUMBER]},
    {"type": "array", "items": [TEXT], "additionalItems": NUMBER},
    {"items": [TEXT, NUMBER], "additionalItems": {"items": [NUMBER]}, "minItems": 1},
    {"items": NUMBER, "additionalItems": TEXT},
    {"$ref": "#/definitions/N", "description": "a number"},
    {"$ref": "#/definitions/N", "maximum": 1},
    {"anyOf": [{"items": [TEXT]}, NUMBER]},
    TEXT,
]
BEFORE_2019 = [{"dependencies": {"a": ["b"], "b": {"required": ["c"]}}}]
IN_THE_FOURTH = [
    {"type": "number", "minimum": 1, "exclusiveMinimum": True},
    {"type": "number", "maximum": 2, "exclusiveMaximum": True, "minimum": 1, "exclusiveMinimum": False},
]


@st.composite
def schemas(draw):
    draft = draw(st.sampled_from([*DRAFTS]))
    known = [*ANYWHERE, *(BEFORE_2019 if draft != "2019-09" else ()), *(IN_THE_FOURTH if draft == "4" else ())]
    properties = draw(st.dictionaries(st.sampled_from("abc"), st.sampled_from(known), max_size=3))
    root = {"type": "object", "properties": properties, "definitions": {"N": {**NUMBER, "minimum": 0}}}
    more = draw(st.sampled_from([{}, *(BEFORE_2019 if draft != "2019-09" else ())]))
    return {"$schema": DRAFTS[draft], **root, **more}


scalars = st.sampled_from([None, -1, 0, 1, 1.5, 2, "", "x"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
arguments = st.dictionaries(st.sampled_from("abc"), values, max_size=3)


@given(schemas(), st.lists(arguments, max_size=6))
def test_an_upgraded_schema_accepts_the_same_values(schema, given):
    upgraded = upgrade_schema(schema)
    assert "$schema" not in upgraded
    taken = compile_schema(schema).accepts
    assert [compile_schema(upgraded).accepts(each) for each in given] == [taken(each) for each in given]


@pytest.mark.parametrize("named", [None, 7, "https://json-schema.org/draft/2020-12/schema", "https://example.org/own"])
def test_a_schema_of_no_older_draft_is_the_very_same(named):
    schema = {"$schema": named, "properties": {"a": {"items": NUMBER}}}
    assert upgrade_schema(schema) is schema


def test_a_place_that_is_named_by_its_id_is_named_by_its_anchor():
    schema = {
        "$schema": DRAFTS["7"],
        "properties": {"a": {"$ref": "#n"}},
        "definitions": {"N": {"$id": "#n", **NUMBER}},
    }
    upgraded = compile_schema(upgrade_schema(schema))
    assert [upgraded.accepts({"a": each}) for each in (1, "x")] == [True, False]
