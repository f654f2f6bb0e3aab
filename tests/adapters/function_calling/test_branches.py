"""Branches are told apart without comparing each of very many with each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.adapters.function_calling import branches
from agenttool.adapters.function_calling.branches import MOST_COMPARED, are_apart

VALUES = st.sampled_from([None, True, 1, 1.0, 0, "", "1", "x"])


@given(st.lists(st.one_of(st.builds(lambda each: {"const": each}, VALUES), st.just({"enum": ["x", 0]})), max_size=4))
def test_lists_of_values_are_apart_if_no_value_is_on_two(schemas):
    listed = [{*map(repr_of, each.get("enum", [each.get("const")]))} for each in schemas]
    assert are_apart(schemas, {}) == (sum(map(len, listed)) == len(set().union(*listed)))


def repr_of(value):
    """Spell a value so that 1 and 1.0 are one, and True is another."""
    return repr(int(value)) if isinstance(value, float) else repr(value)


@pytest.mark.parametrize("is_listed", [True, False])
def test_of_a_strangers_ten_thousand_branches_none_is_compared_with_each_other(is_listed, monkeypatch):
    compared = []
    monkeypatch.setattr(branches, "_cannot_meet", lambda *pair: compared.append(pair) or True)
    schemas = [{"const": number} if is_listed else {"minimum": number} for number in range(10_000)]
    assert are_apart(schemas, {}) == is_listed
    assert len(compared) <= MOST_COMPARED**2
