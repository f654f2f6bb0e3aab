"""Objects of a few plain values."""

import pytest

from agenttool.codec import UNREADABLE, flat_reader, flat_values


def test_values_come_in_the_order_of_the_members_not_in_that_of_the_document() -> None:
    read = flat_reader({"a": int, "b": str})
    assert flat_values(read(b'{"b": "x", "a": 1}')) == (1, "x")


@pytest.mark.parametrize(
    "written",
    [b"", b"[]", b"null", b'{"a": 1}', b'{"a": "1", "b": "x"}', b'{"a": 1, "b": "x", "c": 0}', b'{"b": "\xff"}'],
)
def test_anything_else_is_refused(written: bytes) -> None:
    with pytest.raises(UNREADABLE):
        flat_reader({"a": int, "b": str})(written)
