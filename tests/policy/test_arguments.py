import pytest
from hypothesis import given

from agenttool.policy.arguments import ArgumentTest, same
from agenttool.policy.pointers import steps_of
from agenttool.testing.strategies import json_values


def at(pointer, **tests):
    return ArgumentTest(pointer=pointer, steps=steps_of(pointer), **tests)


@pytest.mark.parametrize(
    ("test", "arguments", "covered", "hit"),
    [
        (at("/a", equals=1), {"a": 1}, True, True),
        (at("/a", equals=1), {"a": 1.0}, True, True),
        (at("/a", equals=1), {"a": True}, False, False),
        (at("/a", equals=None), {"a": None}, True, True),
        (at("/a", equals=None), {}, False, False),
        (at("/a", equals=[1, 2]), {"a": [1, 2]}, True, True),
        (at("/a", equals="x"), {"a": ["x", "x"]}, True, True),
        (at("/a", equals="x"), {"a": ["x", "y"]}, False, True),
        (at("/a", one_of=("x", "y")), {"a": ["x", "y"]}, True, True),
        (at("/a", one_of=("x", "y")), {"a": "z"}, False, False),
        (at("/to", glob="*@acme.example"), {"to": ["a@acme.example", "b@acme.example"]}, True, True),
        (at("/to", glob="*@acme.example"), {"to": ["a@acme.example", "b@evil.example"]}, False, True),
        (at("/to", glob="*@acme.example"), {"to": 7}, False, True),
        (at("/to", glob="*@acme.example"), {"to": []}, False, False),
        (at("/a", prefix="x", glob="*z"), {"a": "xyz"}, True, True),
        (at("/a", minimum=1, maximum=3), {"a": 2}, True, True),
        (at("/a", minimum=1, maximum=3), {"a": 4}, False, False),
        (at("/a", minimum=1, maximum=3), {"a": "2"}, False, True),
        (at("/a", minimum=1, maximum=3), {"a": True}, False, True),
        (at("/a", maximum=100), {}, False, False),
        (at("/a", present=False), {}, True, True),
        (at("/a", present=False), {"a": 1}, False, False),
        (at("/a", present=True), {"a": None}, True, True),
        (at("/edits/*/path", prefix="src/"), {"edits": [{"path": "src/a"}, {"path": "b"}]}, False, True),
        (at("/edits/*/path", prefix="src/"), {"edits": [{"path": "src/a"}, {"path": "src/b"}]}, True, True),
        (at("/a~1b/0", equals=1), {"a/b": [1]}, True, True),
        (at("", equals={"a": 1}), {"a": 1}, True, True),
        (at("/a", equals=1), "no object", False, False),
    ],
)
def test_an_allow_needs_every_value_to_pass_and_a_deny_any(test, arguments, covered, hit):
    assert (test.covers(arguments), test.hits(arguments)) == (covered, hit)


@given(json_values(), json_values())
def test_what_an_allow_covers_a_deny_hits(wanted, value):
    test = at("/a", equals=wanted)
    assert not test.covers({"a": value}) or test.hits({"a": value})
    assert test.covers({"a": wanted})
    assert same(wanted, wanted)


def test_a_pointer_without_a_slash_is_refused():
    with pytest.raises(ValueError, match="write '/limit'"):
        steps_of("limit")
