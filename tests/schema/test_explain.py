import pytest

from agenttool.schema.compile import Checker
from agenttool.schema.explain import Misfit, pointer_of
from agenttool.schema.recursion import alternative_work

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {},
        "a/b": {"type": "object", "properties": {"c~d": {"type": ["string", "integer"]}}},
        "color": {"enum": ["red", "blue"]},
        "share": {"maximum": 100},
        "version": {"const": "0.2.0"},
        "either": {"anyOf": [{"type": "string"}, {"type": "object", "required": ["id"]}]},
    },
    "required": ["name"],
    "additionalProperties": False,
}


def fit(pointer, expected, advice):
    return Misfit(pointer=pointer, expected=expected, advice=advice)


@pytest.mark.parametrize(
    ("document", "misfit"),
    [
        ({}, fit("/name", "a member 'name'", "add 'name'")),
        ({"name": 1, "a/b": {"c~d": None}},
         fit("/a~1b/c~0d", "integer or string", "change it from null, or leave the member out")),
        ({"name": 1, "color": "green"}, fit("/color", "one of red, blue", "use a listed value")),
        ({"name": 1, "share": 101}, fit("/share", "a number of at most 100", "change the value")),
        ({"name": 1, "version": "1"}, fit("/version", "'0.2.0'", "write '0.2.0'")),
        ({"name": 1, "either": 5}, fit("/either", "string or object", "make it fit one of them")),
        ({"name": 1, "x": 1}, fit("", "no other members", "remove 'x'")),
    ],
)  # fmt: skip
def test_a_misfit_says_where_it_is_what_was_expected_and_what_to_do(document, misfit):
    assert Checker(SCHEMA).misfits(document) == [misfit]


@pytest.mark.parametrize(
    ("schema", "document", "misfit"),
    [
        ({"properties": {"a": False}}, {"a": 1}, fit("/a", "nothing here", "leave it out")),
        (
            {"properties": {"a": {"pattern": r"^(a|b|ab)*c\1$"}}},
            {"a": "ab" * 10_000},
            Misfit(pointer="/a", expected="less text for its pattern", advice="shorten it", values=("/a",)),
        ),
    ],
    ids=["false", "hostile pattern"],
)
def test_a_misfit_of_an_odd_schema_is_explained_too(schema, document, misfit):
    assert Checker(schema).misfits(document) == [misfit]


def test_a_misfit_never_quotes_the_document():
    misfits = Checker({"properties": {"token": {"type": "integer", "maximum": 3}}}).misfits({"token": "hunter2"})
    assert "hunter2" not in repr(misfits)


def test_a_pointer_escapes_what_it_must():
    assert pointer_of(["a/b", 0, "~"]) == "/a~1b/0/~0"


POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"anyOf": [POINT, {"type": "null"}]}, {"x": None}, ("/q/x", "integer")),
        ({"anyOf": [POINT, {"type": "null"}]}, {}, ("/q/x", "a member 'x'")),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, [], ("/q", "string or integer")),
        ({"uniqueItems": True}, [1, 1], ("/q", "items that all differ")),
        ({"exclusiveMinimum": 0}, 0, ("/q", "a number more than 0")),
        ({"minLength": 3}, "a", ("/q", "text of at least 3 characters")),
    ],
)
def test_a_misfit_names_the_place_of_the_fault_in_a_sentence(schema, value, expected):
    (misfit,) = Checker({"properties": {"q": schema}}).misfits({"q": value})
    assert (misfit.pointer, misfit.expected) == expected


NODE = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
TREES = {
    "definition": {
        "$defs": {"node": {**NODE, "additionalProperties": {"$ref": "#/$defs/node"}}},
        "$ref": "#/$defs/node",
    },
    "root": {**NODE, "additionalProperties": {"$ref": "#"}},
    "anchor": {"$defs": {"n": {"$anchor": "node", **NODE, "additionalProperties": {"$ref": "#node"}}}, "$ref": "#node"},
    "older draft": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"node": {**NODE, "additionalProperties": {"$ref": "#/definitions/node"}}},
        "allOf": [{"$ref": "#/definitions/node"}],
    },
}


@pytest.mark.parametrize("schema", TREES.values(), ids=TREES)
def test_misfits_of_a_recursive_schema_are_found_on_every_level(schema):
    misfits = Checker(schema).misfits({"x": 1, "a": {"x": "1", "b": {"x": 2, "c": {}}}, "d": {"x": 3}})
    assert [(each.pointer, each.expected, each.values) for each in misfits] == [
        ("/a/x", "integer", ("/a/x",)),
        ("/a/b/c/x", "a member 'x'", ()),
    ]
    assert Checker(schema).misfits({"x": 1, "a": {"x": 2}}) == []


def test_recursion_that_cannot_be_followed_is_named_as_a_whole():
    schema = {"$dynamicAnchor": "node", **NODE, "additionalProperties": {"$dynamicRef": "#node"}}
    assert Checker(schema).misfits({"x": 1, "a": {}}) == [
        Misfit(pointer="", expected="a value that fits the schema", advice="compare it with the schema")
    ]


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
@pytest.mark.parametrize(("levels", "expected"), [(3, "a member 'x'"), (60, "a value that fits the schema")])
def test_a_recursion_in_several_branches_is_explained_if_it_takes_few_attempts(keyword, levels, expected):
    node = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["x"]}
    value = {}
    for _ in range(levels):
        value = {"a": value}
    assert Checker({keyword: [node, node]}).misfits(value)[0].expected == expected


@pytest.mark.parametrize(
    "inside", [{"not": {"$ref": "#"}}, {"if": {"$ref": "#"}}, {"prefixItems": [{"$ref": "#"}] * 2}]
)
def test_every_keyword_with_a_recursion_counts_as_work(inside):
    value = []
    for _ in range(60):
        value = [value, value]
    schema = {"items": {"$ref": "#"}, "contains": {"$ref": "#"}, "maxItems": 1, **inside}
    assert alternative_work(schema, 2000, reads_tags=False)(value)
