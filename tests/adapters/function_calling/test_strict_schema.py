"""Strict schemas accept exactly what the original schema accepts, within the size limits of a provider."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.adapters.function_calling.schema_analysis import matches_branch, resolve, union_branches
from agenttool.adapters.function_calling.strict_schema import (
    ANTHROPIC,
    OPENAI,
    NotStrictError,
    exceeded_limit,
    remove_placeholder_nulls,
    strict_schema,
)
from agenttool.schema.compile import compile_schema

NAMES = ["a", "b", "kind", "next"]
SCALARS = [None, True, False, 0, 1, 2.5, -3, "", "x", "yes"]


def strict_or_reason(schema, dialect):
    """Return the strict form of a schema, or the reason why there is none."""
    try:
        return strict_schema(schema, dialect)
    except NotStrictError as error:
        return str(error)


def an_object(properties, required, *, is_open=False, **more):
    closed = {} if is_open else {"additionalProperties": False}
    return {"type": "object", "properties": properties, "required": required, **closed, **more}


@st.composite
def objects(draw, inner):
    properties = draw(st.dictionaries(st.sampled_from(NAMES), inner, max_size=3))
    required = [name for name in properties if draw(st.booleans())]
    return an_object(properties, required, is_open=draw(st.integers(0, 19)) == 0)


def unions(inner):
    tagged = st.lists(inner, min_size=1, max_size=2).map(
        lambda each: [an_object({"kind": {"const": place}, "a": schema}, ["kind"]) for place, schema in enumerate(each)]
    )
    branches = st.one_of(st.lists(inner, min_size=1, max_size=3), tagged)
    return st.builds(lambda keyword, each: {keyword: each}, st.sampled_from(["anyOf", "oneOf"]), branches)


good = st.one_of(
    st.sampled_from([{"type": each} for each in ("string", "integer", "number", "boolean", "null")]),
    st.sampled_from([{"type": "integer", "minimum": 1}, {"type": "string", "default": "x", "description": "words"}]),
    st.sampled_from([{"type": ["integer", "null"], "default": None}, {"$ref": "#/$defs/N"}]),
    st.lists(st.sampled_from(SCALARS), min_size=1, max_size=3).map(lambda each: {"enum": each}),
    st.sampled_from(SCALARS).map(lambda each: {"const": each}),
)
bad = st.sampled_from(
    [{}, True, {"not": {"type": "null"}}, {"type": "string", "minLength": 1}, {"type": ["string", "null"]}]
)
leaves = st.integers(0, 19).flatmap(lambda each: good if each else bad)
nodes = st.recursive(
    leaves,
    lambda inner: st.one_of(
        objects(inner),
        unions(inner),
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda each: {"allOf": [each], "description": "wrapped"}, inner),
    ),
    max_leaves=6,
)
DEFINITIONS = {"N": an_object({"a": {"type": "integer"}, "next": {"$ref": "#/$defs/N"}}, ["a"])}
plain_roots = objects(nodes).map(lambda schema: {**schema, "$defs": DEFINITIONS})
besides = st.sampled_from(
    [{}, {}, {"title": "words"}, {"required": ["b"]}, {"properties": {"b": {"type": "null"}}}, {"minProperties": 1}]
)
wrapped_roots = st.builds(
    lambda schema, besides, wrap: {**wrap, **besides, "$defs": {**DEFINITIONS, "R": schema}},
    objects(nodes),
    besides,
    st.sampled_from([{"$ref": "#/$defs/R"}, {"allOf": [{"$ref": "#/$defs/R"}]}]),
)
roots = st.one_of(plain_roots, plain_roots, wrapped_roots)
values = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)),
    max_leaves=8,
)


@st.composite
def fitting(draw, schema, root, depth=0):
    """Draw a value that probably fits a schema, with nulls for optional members."""
    node = resolve(schema, root) if isinstance(schema, dict) else {}
    branches = union_branches(node)
    if branches:
        return draw(fitting(draw(st.sampled_from(branches)), root, depth))
    if "const" in node or "enum" in node:
        return draw(st.sampled_from([node["const"]] if "const" in node else node["enum"]))
    kind = node.get("type")
    kind = draw(st.sampled_from(kind)) if isinstance(kind, list) else kind
    if kind == "object":
        chosen = {
            name: draw(st.none()) if name not in node["required"] and (depth > 3 or draw(st.booleans())) else
            draw(fitting(inner, root, depth + 1))
            for name, inner in node["properties"].items()
        }  # fmt: skip
        extra = {} if node.get("additionalProperties") is False else {"more": 1}
        return extra | {name: value for name, value in chosen.items() if value is not None or draw(st.integers(0, 3))}
    if kind == "array":
        return draw(st.lists(fitting(node["items"], root, depth + 1), max_size=2))
    kinds = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None)}
    likely = [each for each in SCALARS if kind is None or isinstance(each, kinds[kind])]
    return draw(
        st.sampled_from([each for each in likely if kind == "boolean" or not isinstance(each, bool)] or SCALARS)
    )


def filled(value, schema, root):
    """Write absent members as null, as a model must in OpenAI's strict mode."""
    node = resolve(schema, root) if isinstance(schema, dict) else {}
    branch = next((each for each in union_branches(node) if matches_branch(value, each, root)), None)
    if branch is not None:
        return filled(value, branch, root)
    if isinstance(value, dict):
        properties = node.get("properties", {})
        whole = {name: filled(inner, properties.get(name), root) for name, inner in value.items()}
        return {**dict.fromkeys(properties), **whole}
    return [filled(each, node.get("items"), root) for each in value] if isinstance(value, list) else value


def without_default_nulls(value, schema, root):
    """Remove the nulls of members whose default is null."""
    node = resolve(schema, root) if isinstance(schema, dict) else {}
    branch = next((each for each in union_branches(node) if matches_branch(value, each, root)), None)
    if branch is not None:
        return without_default_nulls(value, branch, root)
    if isinstance(value, dict):
        properties, required = node.get("properties", {}), node.get("required", ())
        same = {name for name, inner in properties.items() if name not in required and inner.get("default", 0) is None}
        present = {name: inner for name, inner in value.items() if inner is not None or name not in same}
        return {name: without_default_nulls(inner, properties.get(name), root) for name, inner in present.items()}
    return (
        [without_default_nulls(each, node.get("items"), root) for each in value] if isinstance(value, list) else value
    )


@given(st.data())
def test_what_openais_strict_form_accepts_is_exactly_what_the_schema_accepts(data):
    schema = data.draw(roots)
    strict = strict_or_reason(schema, OPENAI)
    if isinstance(strict, str):
        return
    fits, fits_strict = compile_schema(schema).accepts, compile_schema(strict).accepts
    value = data.draw(st.one_of(fitting(schema, schema), values))
    if fits_strict(value):
        assert fits(remove_placeholder_nulls(value, schema, schema))
    if fits(value) and isinstance(value, dict):
        written = filled(value, schema, schema)
        assert fits_strict(written)
        assert remove_placeholder_nulls(written, schema, schema) == without_default_nulls(value, schema, schema)


@given(st.data())
def test_anthropics_strict_form_accepts_the_very_same_values(data):
    schema = data.draw(roots)
    strict = strict_or_reason(schema, ANTHROPIC)
    if isinstance(strict, str):
        return
    value = data.draw(st.one_of(fitting(schema, schema), values))
    if isinstance(value, dict):
        assert compile_schema(strict).accepts(value) == compile_schema(schema).accepts(value)


@given(roots)
def test_a_strict_form_closes_every_object_and_names_every_member(schema):
    strict = strict_or_reason(schema, OPENAI)
    pending = [] if isinstance(strict, str) else [strict]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            if node.get("type") == "object":
                assert node["additionalProperties"] is False
                assert node["required"] == list(node["properties"])
            pending += node.values()
        elif isinstance(node, list):
            pending += node


@pytest.mark.parametrize(
    "node",
    [
        {"$ref": "#/$defs/D"},
        {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/D"}]},
        {"anyOf": [{"type": "string"}, {"allOf": [{"$ref": "#/$defs/E"}]}]},
    ],
)
def test_a_definition_that_leads_back_to_itself_without_a_member_has_no_strict_form(node):
    definitions = {"D": node, "E": {"oneOf": [{"$ref": "#/$defs/D"}]}}
    for dialect in (OPENAI, ANTHROPIC):
        found = strict_or_reason({**an_object({"a": {"$ref": "#/$defs/D"}}, ["a"]), "$defs": definitions}, dialect)
        assert isinstance(found, str)
        assert "only refers to itself" in found


@pytest.mark.parametrize(
    ("node", "why"),
    [
        ({"type": "string", "minLength": 1}, "uses minLength"),
        ({}, "has no type"),
        (True, "accepts any value"),
        ({"type": "object", "properties": {}}, "accepts members that it does not name"),
        ({"type": "array"}, "has no schema for its items"),
        ({"enum": [{"a": 1}]}, "objects or arrays"),
        ({"oneOf": [{"type": "string"}, {"enum": ["a"]}]}, "branches overlap"),
        ({"$ref": "#/properties/a"}, "other than a definition"),
        ({"allOf": [{"type": "string"}, {"type": "string"}]}, "uses allOf"),
    ],
)
def test_a_schema_without_a_strict_form_has_a_reason(node, why):
    found = strict_or_reason(an_object({"a": node}, ["a"]), OPENAI)
    assert isinstance(found, str)
    assert why in found
    assert "/properties/a" in found


def test_an_optional_nullable_member_is_strict_only_if_null_is_its_default():
    nullable = {"type": ["string", "null"]}
    different = strict_or_reason(an_object({"a": nullable}, []), OPENAI)
    assert "null is not its default" in different
    same = strict_schema(an_object({"a": {**nullable, "default": None}}, []), OPENAI)
    assert same["properties"]["a"] == nullable
    assert strict_schema(an_object({"a": nullable}, []), ANTHROPIC)["required"] == []


def sized(properties):
    return {"type": "object", "properties": properties, "additionalProperties": False}


def members(count):
    return sized({str(number): {} for number in range(count)})


def nested(levels):
    return sized({"a": nested(levels - 1)}) if levels > 1 else sized({})


def choices(count, length):
    return sized({"a": {"enum": [f"{number:0{length}}" for number in range(count)]}})


@pytest.mark.parametrize(
    ("within", "beyond", "message"),
    [
        (nested(10), nested(11), "nested more than 10 levels"),
        (choices(1000, 4), choices(1001, 4), "more than 1000 choices"),
        (choices(250, 100), choices(251, 100), "250 choices and more are longer than 15000"),
        (members(5000), members(5001), "more than 5000 properties"),
        (sized({"a" * 119_999: {}}), sized({"a" * 120_001: {}}), "longer than 120000"),
        (choices(1, 119_000), {**choices(1, 119_000), "$defs": {"d" * 1001: {}}}, "longer than 120000"),
    ],
)
def test_a_schema_that_exceeds_a_limit_is_rejected(within, beyond, message):
    assert exceeded_limit(within) is None
    assert message in exceeded_limit(beyond)
