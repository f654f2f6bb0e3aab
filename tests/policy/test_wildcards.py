import fnmatch
import itertools

from hypothesis import given
from hypothesis import strategies as st

from agenttool.policy.wildcards import Depth, Wild, patterns_overlap, step

letters = st.text("ab", max_size=5)
wilds = st.text("ab*?", max_size=5)
SHORT = ["".join(each) for size in range(5) for each in itertools.product("ab", repeat=size)]


@given(wilds, letters)
def test_a_wildcard_accepts_what_the_standard_library_accepts(pattern, text):
    assert Wild(pattern).accepts(text) == fnmatch.fnmatchcase(text, pattern)


@given(wilds, wilds)
def test_two_wildcards_meet_if_some_text_fits_both(left, right):
    shared = any(Wild(left).accepts(text) and Wild(right).accepts(text) for text in SHORT)
    if shared or len(left) + len(right) <= 4:
        assert patterns_overlap((Wild(left),), (Wild(right),)) == shared


def test_brackets_are_plain_because_file_names_have_them():
    assert Wild("app/[id]*.tsx").accepts("app/[id].page.tsx")
    assert not Wild("[ab]?").accepts("ax")


def naive(pattern, path):
    """The textbook definition, by recursion."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        return naive(pattern[1:], path) or (bool(path) and naive(pattern, path[1:]))
    return bool(path) and fnmatch.fnmatchcase(path[0], pattern[0]) and naive(pattern[1:], path[1:])


@given(
    st.lists(st.sampled_from(["a", "b", "*", "a*", "**"]), max_size=5),
    st.lists(st.sampled_from(["a", "b", "ab"]), max_size=5),
)
def test_a_pattern_meets_a_path_as_the_textbook_says(pattern, path):
    steps = tuple(step(each) for each in pattern)
    assert patterns_overlap(steps, tuple(path)) == naive(pattern, path)
    assert patterns_overlap(tuple(path), steps) == naive(pattern, path)


def test_any_depth_meets_any_depth():
    assert patterns_overlap(("a", Depth.ANY, "c"), (Depth.ANY, "b", Depth.ANY))
    assert not patterns_overlap(("a", Depth.ANY), ("b", Depth.ANY))


def test_a_hostile_pattern_takes_no_time():
    assert not Wild("*a" * 40 + "b").accepts("a" * 4000)
    assert not patterns_overlap((Depth.ANY, "a") * 30, ("a",) * 200 + ("b",))
