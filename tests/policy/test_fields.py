import pytest

from agenttool.policy.fields import MatchingField, SchemaSearch, field_named, matching_fields_of

PATH, COMMAND, URL, RESOURCE = MatchingField


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("path", PATH),
        ("filePath", PATH),
        ("source-file", PATH),
        ("paths", PATH),
        ("cwd", PATH),
        ("path2", PATH),
        ("old_pathname", PATH),
        ("command", COMMAND),
        ("cmd", COMMAND),
        ("targetUrl", URL),
        ("uri", URL),
        ("resource_id", RESOURCE),
        ("query", None),
        ("profile", None),
        ("s", None),
    ],
)
def test_an_argument_is_what_it_is_called(name, field):
    assert field_named(name) is field


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
    assert (PATH, place) in SchemaSearch([schema]).places


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
    assert SchemaSearch([schema]).is_open


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
    assert not SchemaSearch([schema]).is_open


def test_a_schema_that_leads_in_circles_comes_to_an_end_and_leaves_room():
    own = {"$ref": "#/$defs/N"}
    wide = closed(properties={f"k{number}": own for number in range(20)})
    assert SchemaSearch([{**own, "$defs": {"N": wide}}]).is_open
    assert SchemaSearch([{"allOf": [{"$ref": "#"}, {"$ref": "#"}]}]).places == []


def schema(**properties):
    return {"type": "object", "properties": properties}


def test_the_schema_states_what_names_do_not():
    found = matching_fields_of(
        [
            schema(
                target={"type": "string", "format": "file-path"},
                where={"type": "string", "format": "uri"},
                run={"x-agenttool": "command"},
                edits={"type": "array", "items": {"$ref": "#/$defs/edit"}},
                choice={"anyOf": [{"type": "string", "format": "path"}, {"type": "null"}]},
                path={"type": "object"},
            )
            | {"$defs": {"edit": schema(file={"type": "string"}, again={"$ref": "#/$defs/edit"})}}
        ],
        None,
    )
    assert set(found.places) == {PATH, URL, COMMAND}
    assert {("target",), ("edits", "*", "file"), ("choice",)} <= set(found.places[PATH])
    assert ("path",) not in found.places[PATH]
    assert found.places[URL] == (("where",),)
    assert found.places[COMMAND] == (("run",),)


def test_what_the_profile_lists_is_all_there_is():
    one = schema(path={"type": "string"}, url={"type": "string"})
    assert matching_fields_of([one], None).has(URL)
    assert not matching_fields_of([one], ("path",)).has(URL)
    assert matching_fields_of([one], ("path",)).places == {PATH: (("path",),)}
    assert not matching_fields_of([one], ()).has(PATH)


def test_a_listed_field_may_say_where_it_is():
    assert matching_fields_of([schema(x={}, y={})], ("path:/x", "url:/y")).places == {PATH: (("x",),), URL: (("y",),)}
    assert matching_fields_of([], ("/deep/file_path", "URL")).places == {PATH: (("deep", "file_path"),)}
    assert matching_fields_of([], ("native operation id", "resource id")).anywhere == {RESOURCE}


def test_a_listed_field_that_is_nowhere_may_be_any_text():
    found = matching_fields_of([schema(x={"type": "string"})], ("path",))
    assert found.places == {}
    assert found.anywhere == {PATH}
    assert found.has(PATH)


def test_a_command_may_hold_paths_and_addresses():
    found = matching_fields_of([schema(command={"type": "string"})], ("command",))
    assert found.has(PATH)
    assert found.has(URL)
    assert not found.has(RESOURCE)
