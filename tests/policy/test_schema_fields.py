import pytest

from agenttool.policy.field_names import MatchingField
from agenttool.policy.schema_fields import search_schemas

PATH = MatchingField.PATH
TEXT = {"type": "string"}
WITH_PATH = {"type": "object", "properties": {"path": TEXT}, "additionalProperties": False}


def closed(**members):
    return {"type": "object", "additionalProperties": False, **members}


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"$ref": "#/$defs/A", "$defs": {"A": WITH_PATH}}, ("path",)),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": WITH_PATH}}, ("path",)),
        (closed(properties={"o": {"$ref": "#/$defs/A", "properties": {"path": TEXT}}}, **{"$defs": {"A": {}}}), ("o", "path")),
        (closed(patternProperties={"^p": WITH_PATH}), ("*", "path")),
        ({"type": "object", "unevaluatedProperties": WITH_PATH}, ("*", "path")),
        ({"type": "object", "if": {}, "then": {"properties": {"path": TEXT}}}, ("path",)),
        ({"type": "object", "if": {}, "else": {"properties": {"path": TEXT}}}, ("path",)),
        ({"type": "object", "dependentSchemas": {"kind": {"properties": {"path": TEXT}}}}, ("path",)),
        (closed(properties={"all": {"type": "array", "contains": WITH_PATH}}), ("all", "*", "path")),
        (closed(properties={"all": {"type": "array", "prefixItems": [WITH_PATH]}}), ("all", "*", "path")),
        (closed(properties={"one": {"oneOf": [{"type": "null"}, WITH_PATH]}}), ("one", "path")),
    ],
    ids=lambda value: "/".join(value) if isinstance(value, tuple) else "",
)  # fmt: skip
def test_a_path_is_found_wherever_a_schema_names_it(schema, place):
    assert (PATH, place) in search_schemas([schema]).places


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "object", "properties": {"n": {"type": "integer"}}},
        closed(properties={"o": {"type": "object", "additionalProperties": TEXT}}),
        closed(properties={"o": {"$ref": "#A"}}),
        closed(properties={"o": {"$ref": "https://example.org/schema"}}),
        closed(properties={"o": {"$dynamicRef": "#A"}}),
        closed(properties={"o": True}),
        closed(properties={"all": {"type": "array"}}),
    ],
    ids=str,
)
def test_a_schema_that_cannot_be_followed_or_names_not_all_leaves_room(schema):
    assert search_schemas([schema]).is_open


@pytest.mark.parametrize(
    "schema",
    [
        closed(),
        closed(properties={"n": {"type": "integer"}, "all": {"type": "array", "items": TEXT}, "one": {"enum": ["a"]}}),
        closed(properties={"n": {"anyOf": [TEXT, {"type": "null"}]}, "o": {"$ref": "#/$defs/A"}}, **{"$defs": {"A": WITH_PATH}}),
        closed(properties={"kind": TEXT}, **{"if": {"properties": {"kind": {"const": "a"}}}}),
    ],
    ids=str,
)  # fmt: skip
def test_a_schema_that_names_all_there_can_be_leaves_none(schema):
    assert not search_schemas([schema]).is_open


def test_a_schema_that_leads_in_circles_comes_to_an_end_and_leaves_room():
    own = {"$ref": "#/$defs/N"}
    wide = closed(properties={f"k{number}": own for number in range(20)})
    assert search_schemas([{**own, "$defs": {"N": wide}}]).is_open
    assert search_schemas([{"allOf": [{"$ref": "#"}, {"$ref": "#"}]}]).places == []
