"""Lenient schemas: every provider takes them, and no member is excluded that the original schema accepts."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool import Runtime
from agenttool.adapters.function_calling.lenient_schema import argument_names, gemini_schema, lenient_schema
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, ErrorClass, RuleSource
from agenttool.schema.compile import compile_schema
from agenttool.testing.fakes import scripted_tool
from agenttool.testing.replies import ModelCall, reply

TEXT = {"type": "string"}


def test_a_union_at_the_root_moves_to_the_remark_and_its_members_are_shown():
    schema = {
        "type": "object",
        "properties": {"project": TEXT},
        "anyOf": [{"required": ["title"], "properties": {"title": TEXT}}, {"required": ["project"]}],
    }
    lenient, remark = lenient_schema(schema)
    assert lenient == {"type": "object", "properties": {"project": TEXT, "title": TEXT}}
    assert json.loads(remark.partition(": ")[2]) == {"anyOf": schema["anyOf"]}


def test_a_reference_at_the_root_is_resolved():
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}, "additionalProperties": False}
    lenient, remark = lenient_schema({"$ref": "#/$defs/N", "$defs": {"N": node}})
    assert lenient == {**node, "$defs": {"N": node}}
    assert remark is None


@pytest.mark.parametrize("wrap", [{"$ref": "#/$defs/N"}, {"allOf": [{"$ref": "#/$defs/N"}]}])
def test_members_beside_a_reference_at_the_root_are_shown(wrap):
    node = {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}
    schema = {**wrap, "properties": {"b": TEXT}, "required": ["b"], "$defs": {"N": node}}
    lenient, remark = lenient_schema(schema)
    assert lenient["properties"] == {"a": TEXT, "b": TEXT}
    assert lenient["required"] == ["b"]
    assert json.loads(remark.partition(": ")[2]) == {"allOf": [{"$ref": "#/$defs/N"}]}
    assert [*argument_names(schema)] == ["b", "a"]


def test_keywords_that_some_providers_require_are_added():
    lenient, _ = lenient_schema(
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "properties": {"a": {"type": "array"}}}
    )
    assert lenient == {"type": "object", "properties": {"a": {"type": "array", "items": {}}}}


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
def test_a_lenient_schema_excludes_no_member_that_the_schema_accepts(schema, value):
    lenient, _ = lenient_schema(schema)
    assert lenient["type"] == "object"
    assert not {"anyOf", "oneOf", "allOf", "enum", "const", "not"} & lenient.keys()
    if compile_schema(schema).accepts(value):
        anything = {name: {} for name in lenient.get("properties", {})}
        assert compile_schema({**lenient, "properties": anything}).accepts(value)


@pytest.mark.parametrize("declared", ["array", ["array", "null"]])
def test_an_array_without_items_gets_them(declared):
    lenient, _ = lenient_schema({"type": "object", "properties": {"a": {"type": declared}}})
    assert lenient["properties"]["a"] == {"type": declared, "items": {}}


def test_gemini_gets_no_boolean_schemas_and_no_undefined_required_members():
    schema = {
        "type": "object",
        "properties": {"a": True, "b": {"type": "array", "items": True}, "c": {"anyOf": [True, {"type": "null"}]}},
        "required": ["a", "missing"],
        "additionalProperties": False,
    }
    assert gemini_schema(schema) == {
        "type": "object",
        "properties": {"a": {}, "b": {"type": "array", "items": {}}, "c": {"anyOf": [{}, {"type": "null"}]}},
        "required": ["a"],
        "additionalProperties": False,
    }


TREE = {
    "type": "object",
    "properties": {"tree": {"$ref": "#/$defs/Node"}},
    "required": ["tree"],
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {
                "left": {"$ref": "#/$defs/Node"},
                "right": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
                "leaf": {"$ref": "#/$defs/Leaf"},
            },
            "required": ["right", "leaf"],
        },
        "Leaf": {"type": "string"},
    },
}


def test_a_description_replaces_a_recursive_reference():
    node = gemini_schema(TREE)["$defs"]["Node"]["properties"]
    assert node["left"] == {"description": "Again as Node."}
    assert node["right"] == {"anyOf": [{"description": "Again as Node."}, {"type": "null"}]}
    assert node["leaf"] == {"$ref": "#/$defs/Leaf"}
    assert gemini_schema(TREE)["properties"]["tree"] == {"$ref": "#/$defs/Node"}


def test_a_reference_to_anything_but_a_definition_is_left_open():
    properties = {"a": {"$ref": "#"}, "b": {"$ref": "#/properties/a"}, "c": {"$ref": "#/$defs/missing"}}
    assert gemini_schema({"type": "object", "properties": properties})["properties"] == {"a": {}, "b": {}, "c": {}}


def test_a_reference_stands_alone_and_definitions_have_one_place():
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/definitions/A", "description": "words"}},
        "definitions": {"A": {"type": "string"}},
    }
    assert gemini_schema(schema) == {
        "type": "object",
        "properties": {"a": {"description": "words", "anyOf": [{"$ref": "#/$defs/A"}]}},
        "$defs": {"A": {"type": "string"}},
    }


def test_choices_other_than_texts_and_numbers_are_removed():
    properties = {"a": {"const": "x"}, "b": {"enum": [1, 2.5]}, "c": {"enum": [True, None]}, "d": {"const": {"x": 1}}}
    rewritten = gemini_schema({"type": "object", "properties": properties})["properties"]
    assert rewritten == {"a": {"enum": ["x"]}, "b": {"enum": [1, 2.5]}, "c": {}, "d": {}}


def test_members_that_patterns_allow_are_not_excluded():
    schema = {"type": "object", "patternProperties": {"^x": {"type": "string"}}, "additionalProperties": False}
    assert gemini_schema(schema) == {"type": "object"}


def test_a_member_may_have_the_name_of_a_keyword():
    properties = {"$ref": {"type": "string"}, "required": {"type": "string"}, "$defs": {"type": "string"}}
    assert gemini_schema({"type": "object", "properties": properties})["properties"] == properties


NUMBER = {"type": "number"}


@pytest.mark.parametrize(
    ("schema", "rewritten"),
    [
        ({"oneOf": [TEXT, NUMBER]}, {"anyOf": [TEXT, NUMBER]}),
        (
            {"oneOf": [NUMBER, {"type": "integer"}]},
            {"anyOf": [NUMBER, {"type": "integer"}], "description": "It fits exactly one of these."},
        ),
        (
            {"description": "So many.", "oneOf": [{"minimum": 1}, {"maximum": 9}]},
            {"description": "So many. It fits exactly one of these.", "anyOf": [{"minimum": 1}, {"maximum": 9}]},
        ),
        (
            {"anyOf": [TEXT, NUMBER], "oneOf": [TEXT]},
            {"anyOf": [TEXT, NUMBER], "description": 'It also fits exactly one of these: [{"type":"string"}]'},
        ),
        ({"allOf": [{"$ref": "#/$defs/A"}], "title": "An A"}, {"title": "An A", "anyOf": [{"$ref": "#/$defs/A"}]}),
        (
            {"type": "number", "allOf": [{"minimum": 1}, {"maximum": 9}]},
            {"type": "number", "description": 'It also fits all of these: [{"minimum":1},{"maximum":9}]'},
        ),
        ({"oneOf": "rubbish", "allOf": []}, {}),
    ],
)
def test_combinations_become_unions_or_sentences_in_the_description(schema, rewritten):
    whole = gemini_schema({"type": "object", "properties": {"a": schema}, "$defs": {"A": TEXT}})
    assert whole["properties"]["a"] == rewritten


async def test_the_runtime_enforces_one_of_though_gemini_does_not_get_it():
    schema = {"type": "object", "properties": {"a": {"oneOf": [NUMBER, {"type": "integer"}]}}}
    allow = Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))
    asked = [ModelCall(name="pick", arguments={"a": number}, call_id=f"call_{number}") for number in (1, 1.5)]
    async with Runtime.open(tools=[scripted_tool("pick", schema=schema)], rules=[allow]) as rt:
        model = await rt.tools_for("gemini")
        assert "oneOf" not in str(model.request())
        first, second = (await model.answer(reply("gemini", *asked))).results
    assert first.error.error_class == ErrorClass.SCHEMA_VALIDATION_FAILED
    assert second.error is None
