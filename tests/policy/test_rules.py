import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import json_values

from agenttool.errors import ConfigError
from agenttool.policy.fields import steps_of
from agenttool.policy.rules import AUTHORITY, ArgumentTest, RuleBook, json_equal
from agenttool.records import RuleSource


def at(pointer, **tests):
    return ArgumentTest(pointer=pointer, steps=steps_of(pointer), **tests)


@pytest.mark.parametrize(
    ("test", "arguments", "covered", "hit"),
    [
        (at("/a", equals=1), {"a": 1}, True, True),
        (at("/a", equals=1), {"a": 1.0}, True, True),
        (at("/a", equals=1), {"a": True}, False, False),
        (at("/a", equals=5000), {"a": "5000"}, False, True),
        (at("/a", equals=5000), {"a": "5E3"}, False, True),
        (at("/a", one_of=[1, 5000.0]), {"a": ["7", "5_000.00"]}, False, True),
        (at("/a", equals="5000"), {"a": 5000}, False, True),
        (at("", equals={"a": [5000]}), {"a": ["5e3"]}, False, True),
        (at("/a", equals=5000), {"a": "5001"}, False, False),
        (at("/a", equals=5000), {"a": "sNaN"}, False, False),
        (at("/a", equals="05000"), {"a": "5000"}, False, False),
        (at("/a", equals=1), {"a": "true"}, False, False),
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
    assert json_equal(wanted, wanted)


def test_a_pointer_without_a_slash_is_refused():
    with pytest.raises(ValueError, match="write '/limit'"):
        steps_of("limit")


plain = st.fixed_dictionaries(
    {"name": st.sampled_from("abcdef"), "behavior": st.sampled_from(["allow", "deny"]), "tool": st.just("*")}
)


@given(st.lists(plain, unique_by=lambda rule: rule["name"]), st.randoms(use_true_random=False))
def test_books_with_the_same_rules_are_the_same_book(rules, members, rng):
    read = list(rules(*members))
    shuffled = read.copy()
    rng.shuffle(shuffled)
    assert [*RuleBook(read)] == [*RuleBook(shuffled)]
    assert RuleBook(read).version == RuleBook(shuffled).version


def test_a_book_never_changes(book, rules):
    [added] = rules({"name": "x", "behavior": "deny", "tool": "*"})
    first = book({"name": "a", "behavior": "allow", "tool": "*"})
    second = first.with_rule(added)
    assert [rule.ref for rule in first] == ["project_settings:a"]
    assert {rule.ref for rule in second} == {"project_settings:a", "project_settings:x"}
    assert [*second.without(added.ref)] == [*first]
    assert second.version != first.version
    assert second.get(added.ref) is added
    assert first.get(added.ref) is None
    assert len(second.with_rule(added)) == 2


def test_two_rules_of_one_name_are_refused_with_both_places(rules):
    twice = rules({"name": "x", "behavior": "deny", "tool": "*"}, {"name": "x", "behavior": "ask", "tool": "*"})
    with pytest.raises(ConfigError, match=r"agenttool.toml:1 and .*agenttool.toml:2; rename one"):
        RuleBook(twice)


def test_every_source_of_the_standard_has_its_place():
    assert set(AUTHORITY) == set(RuleSource)


def test_a_rule_without_a_name_goes_by_its_place(rules):
    [rule] = rules({"behavior": "deny", "tool": "*"}, source="local_settings")
    assert (rule.ref, rule.origin) == ("local_settings:agenttool.toml:1", "local_settings, agenttool.toml:1")
    [elsewhere] = rules({"behavior": "deny", "tool": "*", "name": "n"}, source="elsewhere", file=None)
    assert elsewhere.origin == "elsewhere"
    assert elsewhere.authority > rule.authority
