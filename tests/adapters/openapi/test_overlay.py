"""OpenAPI Overlay 1.0 and 1.1: targets and actions."""

import pytest

from agenttool.adapters.openapi.document import DocumentError
from agenttool.adapters.openapi.overlay import apply_overlay


def applied(root, *actions):
    return apply_overlay(root, {"overlay": "1.0.0", "info": {"title": "o", "version": "1"}, "actions": [*actions]}, [])


def root():
    return {
        "info": {"title": "A"},
        "tags": [{"name": "x"}, {"name": "y"}],
        "paths": {"/a": {"get": {"tags": ["x"], "deprecated": True}, "put": {"tags": ["y"]}}, "/b": {"get": {}}},
    }


def test_updates_merge_objects_extend_lists_and_replace_values():
    before = root()
    found = applied(
        before,
        {"target": "$", "update": {"info": {"title": "B", "version": "2"}}},
        {"target": "$.paths['/a'].get", "update": {"tags": ["z"], "summary": "s"}},
        {"target": "$.tags", "update": {"name": "new"}},
        {"target": "$.paths.*.get", "update": {"x-all": 1}},
        {"target": "$..tags[0]", "update": "first"},
    )
    assert found["info"] == {"title": "B", "version": "2"}
    assert found["paths"]["/a"]["get"] == {"tags": ["first", "z"], "deprecated": True, "summary": "s", "x-all": 1}
    assert found["paths"]["/b"]["get"] == {"x-all": 1}
    assert found["tags"][-1] == {"name": "new"}
    assert before == root()


def test_removals_select_by_name_index_and_filter():
    found = applied(
        root(),
        {"target": "$.tags[?@.name=='x']", "remove": True},
        {"target": "$.paths['/a'][?(@.deprecated == true)]", "remove": True},
        {"target": '$.paths["/b"]', "remove": True},
        {"target": "$.paths.nothing", "remove": True},
    )
    assert found == {"info": {"title": "A"}, "tags": [{"name": "y"}], "paths": {"/a": {"put": {"tags": ["y"]}}}}


@pytest.mark.parametrize(
    ("target", "left"),
    [
        ("$.o[?(@.id != 'a' && @.old == true)]", ["a", "c"]),
        ("$.o[?@.id == 'a' || @.id == 'c' && @.old]", ["b", "c"]),
        ("$.o[?@['id'] == 'a || b']", ["a", "b", "c"]),
        ("$..[?(@['old'] == true)]", ["c"]),
        ("$.o['*']", ["a", "b", "c"]),
        ("$..['*']", ["a", "b", "c"]),
        ("$.o[-1]", ["a", "b"]),
    ],
)
def test_a_target_selects_what_it_says_and_no_more(target, left):
    things = {"o": [{"id": "a", "old": True}, {"id": "b", "old": True}, {"id": "c"}]}
    assert [each["id"] for each in applied(things, {"target": target, "remove": True})["o"]] == left


def test_copies_merge_one_value_into_the_target():
    found = applied(root(), {"target": "$.paths['/b'].get", "copy": "$.paths['/a'].put"})
    assert found["paths"]["/b"]["get"] == {"tags": ["y"]}


@pytest.mark.parametrize("action", [{}, {"move": "$.tags"}, {"copy": "$.paths.*"}, {"copy": "$.nothing"}])
def test_an_action_that_is_not_supported_is_refused(action):
    with pytest.raises(DocumentError, match=";"):
        applied(root(), {"target": "$.tags", **action})


@pytest.mark.parametrize(
    "target",
    [
        "paths",
        "$.a[(1)]",
        "$.tags[?!@.a]",
        "$.tags[?@.a < 3]",
        "$.tags[?@.a == b]",
        "$.tags[?(@.a) && (@.b)]",
        "$.tags[1:2]",
        3,
    ],
)
def test_a_target_that_is_not_supported_is_refused(target):
    with pytest.raises(DocumentError, match=";"):
        applied(root(), {"target": target, "remove": True})
