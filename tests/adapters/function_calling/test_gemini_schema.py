"""Schemas for Gemini: the documented part, and nothing shut out that the schema itself takes."""

import pytest

from agenttool import Runtime
from agenttool.adapters.function_calling.gemini_schema import documented
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, ErrorClass, RuleSource
from agenttool.testing.fakes import scripted_tool
from agenttool.testing.replies import Asked, reply

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


def test_a_loop_stays_in_optional_members_only_because_the_api_takes_it_nowhere_else():
    node = documented(TREE)["$defs"]["Node"]["properties"]
    assert node["left"] == {"$ref": "#/$defs/Node"}
    assert node["right"] == {"anyOf": [{"description": "Again as Node."}, {"type": "null"}]}
    assert node["leaf"] == {"$ref": "#/$defs/Leaf"}
    assert documented(TREE)["properties"]["tree"] == {"$ref": "#/$defs/Node"}


def test_a_reference_to_anything_but_a_definition_is_left_open():
    properties = {"a": {"$ref": "#"}, "b": {"$ref": "#/properties/a"}, "c": {"$ref": "#/$defs/nobody"}}
    assert documented({"type": "object", "properties": properties})["properties"] == {"a": {}, "b": {}, "c": {}}


def test_a_reference_stands_alone_and_definitions_have_one_place():
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/definitions/A", "description": "words"}},
        "definitions": {"A": {"type": "string"}},
    }
    assert documented(schema) == {
        "type": "object",
        "properties": {"a": {"description": "words", "anyOf": [{"$ref": "#/$defs/A"}]}},
        "$defs": {"A": {"type": "string"}},
    }


def test_choices_are_words_and_numbers_or_left_open():
    properties = {"a": {"const": "x"}, "b": {"enum": [1, 2.5]}, "c": {"enum": [True, None]}, "d": {"const": {"x": 1}}}
    spelled = documented({"type": "object", "properties": properties})["properties"]
    assert spelled == {"a": {"enum": ["x"]}, "b": {"enum": [1, 2.5]}, "c": {}, "d": {}}


def test_members_that_patterns_let_through_are_not_shut_out():
    schema = {"type": "object", "patternProperties": {"^x": {"type": "string"}}, "additionalProperties": False}
    assert documented(schema) == {"type": "object"}


def test_a_member_may_have_the_name_of_a_keyword():
    properties = {"$ref": {"type": "string"}, "required": {"type": "string"}, "$defs": {"type": "string"}}
    assert documented({"type": "object", "properties": properties})["properties"] == properties


TEXT, NUMBER = {"type": "string"}, {"type": "number"}


@pytest.mark.parametrize(
    ("schema", "spelled"),
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
def test_a_choice_is_spelled_so_that_the_api_reads_it_and_what_it_cannot_say_is_told(schema, spelled):
    whole = documented({"type": "object", "properties": {"a": schema}, "$defs": {"A": TEXT}})
    assert whole["properties"]["a"] == spelled


async def test_what_fits_two_branches_of_which_one_must_fit_is_refused_though_the_api_cannot_be_told():
    schema = {"type": "object", "properties": {"a": {"oneOf": [NUMBER, {"type": "integer"}]}}}
    allow = Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))
    asked = [Asked(name="pick", arguments={"a": number}, call_id=f"call_{number}") for number in (1, 1.5)]
    async with Runtime.open(tools=[scripted_tool("pick", schema=schema)], rules=[allow]) as rt:
        model = await rt.tools_for("gemini")
        assert "oneOf" not in str(model.request())
        first, second = (await model.answer(reply("gemini", *asked))).results
    assert first.error.error_class == ErrorClass.SCHEMA_VALIDATION_FAILED
    assert second.error is None
