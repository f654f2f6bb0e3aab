import pytest

from agenttool.codec.size import MAX_DEPTH, is_too_deep


def nested(levels, inner):
    for level in range(levels):
        inner = [inner] if level % 2 else {"a": inner}
    return inner


@pytest.mark.parametrize(("levels", "is_deep"), [(0, False), (MAX_DEPTH, False), (MAX_DEPTH + 1, True)])
def test_levels_are_counted_to_the_last(levels, is_deep):
    assert is_too_deep(nested(levels, 1)) is is_deep


def test_breadth_is_not_depth():
    assert not is_too_deep({str(n): [n] for n in range(10_000)})
