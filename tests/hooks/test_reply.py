from hypothesis import given
from strategies import json_values

from agenttool.hooks.reply import changed_fields


def test_changes_are_named_by_the_deepest_pointer_that_says_it():
    before = {"a": 1, "b": {"c": [1, 2], "d/e": "x"}, "gone": None}
    after = {"a": True, "b": {"c": [1, 3], "d/e": "x"}, "new": 1}
    assert changed_fields(before, after) == ("/a", "/b/c", "/gone", "/new")


@given(json_values())
def test_nothing_differs_from_itself(value):
    assert changed_fields({"v": value}, {"v": value}) == ()
