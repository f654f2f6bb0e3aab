"""Unions are compared without comparing all of very many branches, and portable patterns are recognized."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.adapters.function_calling import schema_analysis
from agenttool.adapters.function_calling.schema_analysis import MAX_COMPARED_BRANCHES, are_disjoint, is_portable_pattern

VALUES = st.sampled_from([None, True, 1, 1.0, 0, "", "1", "x"])


@given(st.lists(st.one_of(st.builds(lambda each: {"const": each}, VALUES), st.just({"enum": ["x", 0]})), max_size=4))
def test_lists_of_values_are_disjoint_if_no_value_is_on_two(schemas):
    listed = [{*map(repr_of, each.get("enum", [each.get("const")]))} for each in schemas]
    assert are_disjoint(schemas, {}) == (sum(map(len, listed)) == len(set().union(*listed)))


def repr_of(value):
    """Write a value so that 1 and 1.0 are equal, and True differs."""
    return repr(int(value)) if isinstance(value, float) else repr(value)


@pytest.mark.parametrize("is_listed", [True, False])
def test_ten_thousand_branches_are_not_compared_pairwise(is_listed, monkeypatch):
    compared = []
    monkeypatch.setattr(schema_analysis, "_differ", lambda *pair: compared.append(pair) or True)
    schemas = [{"const": number} if is_listed else {"minimum": number} for number in range(10_000)]
    assert are_disjoint(schemas, {}) == is_listed
    assert len(compared) <= MAX_COMPARED_BRANCHES**2


@pytest.mark.parametrize(
    "pattern",
    ["", "^a+$", r"^\d{3}-\d{4}$", "(?:ab|c)+", r"[^\w.-]+@[a-z]+\.[a-z]{2,}", "[(?=]", r"\(?=", r"\x41\u00e4", "ä|ö"],
)
def test_a_pattern_that_every_provider_reads_is_portable(pattern):
    assert is_portable_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *("(?=a)", "(?!a)b", "(?<=a)b", "(?<!a)b", "a(b(?!c))", r"\\(?!a)"),
        *(r"(a)\1", r"(?<n>a)\k<n>", "(?P<n>a)", "(?i)a", "(?>a)", "a(?#note)"),
        *(r"\bword\b", r"\Ba", r"\p{L}", r"\Aa\Z", "[[:alpha:]]", None, 7),
    ],
)
def test_a_pattern_that_some_provider_rejects_is_not_portable(pattern):
    assert not is_portable_pattern(pattern)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@given(st.text(alphabet="ab()?=!<:[]\\1d^$|+", max_size=12))
def test_a_portable_pattern_has_no_lookaround(pattern):
    try:
        re.compile(pattern)
    except re.error:
        return
    if is_portable_pattern(pattern):
        outside = re.sub(r"\\.|\[\^?(\\.|[^\]\\])+\]", "x", pattern)
        assert not re.search(r"\(\?[^:]", outside)
