import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.errors import ConfigError
from agenttool.policy.rules import AUTHORITY, RuleBook
from agenttool.records import RuleSource

plain = st.fixed_dictionaries(
    {"name": st.sampled_from("abcdef"), "behavior": st.sampled_from(["allow", "deny"]), "tool": st.just("*")}
)


@given(st.lists(plain, unique_by=lambda rule: rule["name"]), st.randoms(use_true_random=False))
def test_books_with_the_same_rules_are_the_same_book(rules, members, rng):
    read = list(rules(*members))
    shuffled = read.copy()
    rng.shuffle(shuffled)
    assert RuleBook(read) == RuleBook(shuffled)
    assert RuleBook(read).version == RuleBook(shuffled).version
    assert len({RuleBook(read), RuleBook(shuffled)}) == 1


def test_a_book_never_changes(book, rules):
    [added] = rules({"name": "x", "behavior": "deny", "tool": "*"})
    first = book({"name": "a", "behavior": "allow", "tool": "*"})
    second = first.with_rule(added)
    assert [rule.ref for rule in first] == ["project_settings:a"]
    assert {rule.ref for rule in second} == {"project_settings:a", "project_settings:x"}
    assert second.without(added.ref) == first
    assert second.version != first.version
    assert second.get(added.ref) is added
    assert first.get(added.ref) is None
    assert len(second.with_rule(added)) == 2
    assert first != "a book"


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
