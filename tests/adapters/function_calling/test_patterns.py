"""Patterns: simple ones are sent to everybody, and no other is taken for one of them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.adapters.function_calling.patterns import is_simple


@pytest.mark.parametrize(
    "pattern",
    ["", "^a+$", r"^\d{3}-\d{4}$", "(?:ab|c)+", r"[^\w.-]+@[a-z]+\.[a-z]{2,}", "[(?=]", r"\(?=", r"\x41\u00e4", "ä|ö"],
)
def test_a_pattern_that_every_provider_reads_is_simple(pattern):
    assert is_simple(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *("(?=a)", "(?!a)b", "(?<=a)b", "(?<!a)b", "a(b(?!c))", r"\\(?!a)"),
        *(r"(a)\1", r"(?<n>a)\k<n>", "(?P<n>a)", "(?i)a", "(?>a)", "a(?#note)"),
        *(r"\bword\b", r"\Ba", r"\p{L}", r"\Aa\Z", "[[:alpha:]]", None, 7),
    ],
)
def test_a_pattern_that_some_provider_refuses_is_not_simple(pattern):
    assert not is_simple(pattern)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@given(st.text(alphabet="ab()?=!<:[]\\1d^$|+", max_size=12))
def test_whatever_is_simple_looks_neither_ahead_nor_back(pattern):
    try:
        re.compile(pattern)
    except re.error:
        return
    if is_simple(pattern):
        outside = re.sub(r"\\.|\[\^?(\\.|[^\]\\])+\]", "x", pattern)
        assert not re.search(r"\(\?[^:]", outside)
