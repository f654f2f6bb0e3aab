import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.conformance.validate.depth import MAX_DEPTH, is_too_deep


def nest(levels):
    return b"[" * levels + b"]" * levels


def true_depth(value):
    if isinstance(value, dict):
        return 1 + max(map(true_depth, value.values()), default=0)
    return 1 + max(map(true_depth, value), default=0) if isinstance(value, list) else 0


def test_the_limit_itself_is_allowed_and_one_more_is_not():
    assert not is_too_deep(nest(MAX_DEPTH))
    assert is_too_deep(nest(MAX_DEPTH + 1))


@pytest.mark.parametrize("levels", [10_000, 1_000_000])
def test_any_depth_is_told_without_recursion(levels):
    assert is_too_deep(nest(levels))
    assert is_too_deep(b"[" * levels)
    assert is_too_deep(b'{"a":' * levels)
    assert is_too_deep(b'[{"a":"]"},' * (levels // 10) + b"0" + b"]" * levels)


def test_brackets_in_strings_are_text():
    assert not is_too_deep(b'["' + b"[" * 1000 + b'"]')
    assert not is_too_deep(b'["' + b"\\\\[" * 1000 + b'"]')
    assert not is_too_deep(b'["' + b'\\"[' * 1000 + b'"]')
    assert is_too_deep(b'["\\\\",' * 1000)


def test_breadth_is_not_depth():
    assert not is_too_deep(b"[" + b"[[]]," * 1000 + b"[]]")


JSON = st.recursive(
    st.none() | st.text(st.sampled_from('ab\\"[]{}'), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.sampled_from('a"\\[}')), inner, max_size=3),
    max_leaves=40,
)


@given(JSON, st.integers(1, 8))
def test_it_agrees_with_a_parser_on_every_document(value, limit):
    assert is_too_deep(json.dumps(value).encode(), limit) == (true_depth(value) > limit)
