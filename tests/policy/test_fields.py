from agenttool.policy.field_names import MatchingField
from agenttool.policy.fields import fields_of

PATH, COMMAND, URL, RESOURCE = MatchingField


def schema(**properties):
    return {"type": "object", "properties": properties}


def test_the_schema_tells_what_names_do_not():
    found = fields_of(
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
    assert fields_of([one], None).has(URL)
    assert not fields_of([one], ("path",)).has(URL)
    assert fields_of([one], ("path",)).places == {PATH: (("path",),)}
    assert not fields_of([one], ()).has(PATH)


def test_a_listed_field_may_say_where_it_is():
    assert fields_of([schema(x={}, y={})], ("path:/x", "url:/y")).places == {PATH: (("x",),), URL: (("y",),)}
    assert fields_of([], ("/deep/file_path", "URL")).places == {PATH: (("deep", "file_path"),)}
    assert fields_of([], ("native operation id", "resource id")).anywhere == {RESOURCE}


def test_a_listed_field_that_is_nowhere_may_be_any_text():
    found = fields_of([schema(x={"type": "string"})], ("path",))
    assert found.places == {}
    assert found.anywhere == {PATH}
    assert found.has(PATH)


def test_a_command_may_hold_paths_and_addresses():
    found = fields_of([schema(command={"type": "string"})], ("command",))
    assert found.has(PATH)
    assert found.has(URL)
    assert not found.has(RESOURCE)
