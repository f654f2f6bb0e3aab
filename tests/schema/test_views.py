import copy
import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agenttool.errors import ConfigError
from agenttool.schema.compile import Checker
from agenttool.schema.traverse import properties_of
from agenttool.schema.views import mark_internal, model_view, pointers_to

INTERNAL = frozenset({"tenant", "trace"})
OPEN = ("path", "limit", "filter", "default", "properties", "required")


def text(**more):
    return {"type": "string", **more}


def obj(properties, required=(), **more):
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {}), **more}


def test_a_hidden_field_leaves_every_keyword_that_could_name_it():
    schema = obj(
        {"path": text(), "tenant": text(), "nested": {"$ref": "#/$defs/Nested"}},
        ["path", "tenant"],
        additionalProperties=False,
        minProperties=2,
        maxProperties=3,
        dependentRequired={"path": ["tenant", "nested"], "tenant": ["path"]},
        dependentSchemas={"tenant": {"required": ["path"]}, "path": {"required": ["tenant"]}},
        propertyNames={"enum": ["path", "tenant", "nested"]},
        allOf=[{"properties": {"tenant": {"minLength": 1}}}],
        anyOf=[{"required": ["tenant"]}, {"required": ["path"]}],
        discriminator={"propertyName": "tenant"},
        examples=[{"path": "a", "tenant": "t", "nested": {"tenant": "t"}}],
        **{"$defs": {"Nested": obj({"tenant": text(), "id": text(default="x")}, ["tenant"], default={"tenant": "t"})}},
    )
    assert model_view(schema, ["tenant"]) == obj(
        {"path": text(), "nested": {"$ref": "#/$defs/Nested"}},
        ["path"],
        additionalProperties=False,
        minProperties=2,
        maxProperties=3,
        dependentRequired={"path": ["nested"]},
        dependentSchemas={"path": {}},
        propertyNames={"enum": ["path", "nested"]},
        allOf=[{"properties": {}}],
        anyOf=[{}, {"required": ["path"]}],
        examples=[{"path": "a", "nested": {}}],
        **{"$defs": {"Nested": obj({"id": text(default="x")}, [], default={})}},
    )


@pytest.mark.parametrize(
    ("schema", "closed"),
    [
        (obj({"path": text()}), True),
        (obj({"path": text()}, additionalProperties=True), True),
        (obj({"path": text()}, additionalProperties=text()), False),
        (obj({"path": text()}, allOf=[obj({"limit": text()})]), False),
    ],
)
def test_the_outermost_object_is_closed_where_that_breaks_nothing(schema, closed):
    assert (model_view(schema, ["tenant"]).get("additionalProperties") is False) == closed


def test_an_inner_object_that_lost_a_field_takes_no_others():
    schema = obj({"filter": obj({"tenant": text()}, maxProperties=3), "other": obj({"path": text()})})
    view = model_view(schema, ["tenant"])
    assert view["properties"] == {
        "filter": obj({}, maxProperties=2, additionalProperties=False),
        "other": obj({"path": text()}),
    }


def test_a_choice_that_needs_a_hidden_field_is_no_choice_of_the_model():
    schema = obj({"a": {"enum": [{"tenant": 1}, 2]}, "b": {"const": {"tenant": 1}}, "c": {"const": [1, {"tenant": 1}]}})
    assert model_view(schema, ["tenant"])["properties"] == {"a": {"enum": [2]}, "b": {"not": {}}, "c": {"not": {}}}


def test_a_definition_that_only_hidden_fields_used_is_hidden_too():
    schema = obj(
        {"tenant": {"$ref": "#/$defs/Tenant"}, "path": {"$ref": "#/$defs/a~1b"}},
        **{"$defs": {"Tenant": {"$ref": "#/$defs/Id"}, "Id": text(), "a/b": {"items": {"$ref": "#/$defs/a~1b"}}}},
    )
    assert model_view(schema, ["tenant"])["$defs"] == {"a/b": {"items": {"$ref": "#/$defs/a~1b"}}}


def test_definitions_stay_when_their_users_are_unknown():
    schema = obj({"tenant": text(), "path": {"$ref": "#far"}}, **{"$defs": {"Far": {"$anchor": "far"}, "X": True}})
    assert model_view(schema, ["tenant"])["$defs"] == schema["$defs"]


def test_what_the_schema_marks_as_internal_is_hidden_without_being_listed():
    schema = obj({"path": text(), "trace": text(visibility="internal")}, ["trace"])
    assert model_view(schema, []) == obj({"path": text()}, [], additionalProperties=False)


def test_without_internal_fields_the_view_is_the_schema():
    schema = obj({"path": text()})
    assert model_view(schema, []) is schema


def test_a_field_must_be_named_and_not_pointed_at():
    with pytest.raises(ConfigError, match="'/filter/tenant'"):
        model_view(obj({"filter": obj({"tenant": text()})}), ["/filter/tenant"])
    assert model_view(obj({"/odd": text()}), ["/odd"])["properties"] == {}


def test_a_visible_field_may_not_point_into_a_hidden_one():
    schema = obj({"tenant": obj({"id": text()}), "path": {"$ref": "#/properties/tenant/properties/id"}})
    with pytest.raises(ConfigError, match="refers into the internal-only field 'tenant'"):
        model_view(schema, ["tenant"])


def test_fields_are_marked_on_every_level_and_nothing_else_changes():
    schema = obj(
        {"tenant": True, "trace": False, "items": {"items": obj({"tenant": text()})}},
        default={"properties": {"tenant": 1}},
    )
    assert mark_internal(schema, INTERNAL) == obj(
        {
            "tenant": {"visibility": "internal"},
            "trace": False,
            "items": {"items": obj({"tenant": text(visibility="internal")})},
        },
        default={"properties": {"tenant": 1}},
    )


def test_a_misspelled_internal_field_is_refused():
    with pytest.raises(ConfigError, match="no internal-only field 'tenent'"):
        mark_internal(obj({"tenant": text()}), ["tenent"])


def test_what_a_model_sends_all_the_same_is_found_on_every_level():
    sent = {"tenant": {"trace": 1}, "list": [{"a/b": {"trace": 1}}], "path": "tenant"}
    assert pointers_to(sent, INTERNAL) == ["/tenant", "/tenant/trace", "/list/0/a~1b/trace"]
    assert pointers_to({"path": "tenant"}, INTERNAL) == []


LEAVES = st.sampled_from(
    [
        *(text(), text(minLength=1), {"type": "integer"}, {}, {"enum": ["a", 1, {"tenant": 1}]}),
        *({"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}),
    ]
)
HIDDEN = st.sets(st.sampled_from(sorted(INTERNAL))).map(lambda names: dict.fromkeys(names, text(default="d")))


def objects(inner):
    """Objects with internal fields, each with a default."""
    visible = st.dictionaries(st.sampled_from(OPEN), inner, max_size=3)
    rest = st.sampled_from([{}, {"additionalProperties": True}, {"additionalProperties": False}])
    required = st.sets(st.sampled_from([*OPEN, *INTERNAL]), max_size=4)
    return st.builds(
        lambda shown, hidden, needed, more: obj({**shown, **hidden}, sorted(needed & {*shown, *hidden}), **more),
        *(visible, HIDDEN, required, rest),
    )


def opened(schema):
    """Without the word that would let one branch refuse the fields of another."""
    return {k: v for k, v in schema.items() if k != "additionalProperties"} if isinstance(schema, dict) else schema


def branches(inner):
    parts = st.lists(inner.map(opened), min_size=1, max_size=2)
    return st.builds(lambda keyword, parts: {keyword: parts}, st.sampled_from(["allOf", "anyOf"]), parts)


ANY = st.recursive(
    LEAVES, lambda inner: objects(inner) | branches(inner) | st.builds(lambda of: {"items": of}, inner), max_leaves=6
)
SCHEMAS = st.builds(
    lambda schema, a, b: {**schema, "$defs": {"A": opened(a), "B": opened(b)}}, objects(ANY), objects(ANY), objects(ANY)
)


def document(draw, schema, root, depth=0):
    """Draw a document that a schema may accept."""
    parts = [document(draw, each, root, depth + 1) for each in (schema.get("allOf") or schema.get("anyOf") or ())]
    if parts:
        made = {k: v for part in parts for k, v in part.items()} if all(map(is_object, parts)) else parts[0]
    elif depth > 6 or "enum" in schema:
        made = draw(st.sampled_from(["a", 1]))
    elif "$ref" in schema:
        made = document(draw, root["$defs"][schema["$ref"][-1]], root, depth + 1)
    elif "items" in schema:
        made = [document(draw, schema["items"], root, depth + 1)] * draw(st.integers(0, 2))
    elif "properties" in schema:
        chosen = [n for n in schema["properties"] if n in schema.get("required", ()) or draw(st.booleans())]
        made = {name: document(draw, schema["properties"][name], root, depth + 1) for name in chosen}
    else:
        made = 1 if schema.get("type") == "integer" else "a"
    return made


def is_object(value):
    return isinstance(value, dict)


def fill(schema, value, root):
    """Put in the defaults of internal fields, as the runtime does before the call."""
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        fill(root["$defs"][schema["$ref"][-1]], value, root)
    for part in [*schema.get("allOf", ()), *schema.get("anyOf", ())]:
        fill(part, value, root)
    for each in value if isinstance(value, list) else ():
        fill(schema.get("items"), each, root)
    for name, inner in schema.get("properties", {}).items() if isinstance(value, dict) else ():
        if name in INTERNAL:
            value.setdefault(name, inner["default"])
        elif name in value:
            fill(inner, value[name], root)


@pytest.mark.requirement("AT-IO-10", "AT-IFACE-28")
@given(SCHEMAS)
def test_no_internal_name_survives_in_the_model_view_and_the_schema_is_left_alone(schema):
    before = copy.deepcopy(schema)
    view = model_view(schema, INTERNAL)
    assert schema == before
    assert not INTERNAL & {name for name, _ in properties_of(view)}
    assert not any(name in json.dumps(view) for name in INTERNAL)
    Checker(view)


@given(SCHEMAS, st.data())
def test_what_the_model_view_accepts_the_runtime_schema_accepts_once_internal_defaults_are_filled(schema, data):
    view = model_view(schema, INTERNAL)
    sent = copy.deepcopy(document(data.draw, view, view))
    assume(Checker(view).accepts(sent))
    fill(schema, sent, schema)
    assert Checker(schema).misfits(sent) == []


@given(SCHEMAS)
def test_the_view_of_a_marked_schema_is_the_view_of_the_schema(schema):
    names = INTERNAL & {name for name, _ in properties_of(schema)}
    assert model_view(mark_internal(schema, names), INTERNAL) == model_view(schema, INTERNAL)
