import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.schema.signature.docs import Docs, read_docs

GOOGLE = """Do it.

Even more.

Args:
    a: First: with a colon
        and a second line.
    b (int, optional): Second.
    *rest: Others.

Returns:
    The thing
    in two lines.

Raises:
    ValueError: If not.

Note:
    Be careful.

Example:
    >>> do(1)
    2
"""

NUMPY = """Do it.

Parameters
----------
a : int
    First.
b, c : str, optional
    Both.

Returns
-------
str
    The thing.

Examples
--------
>>> do(1)
2
"""

SPHINX = """Do it.

:param a: first
    goes on
:param int b: second
:returns: the thing
:raises ValueError: if not"""


@pytest.mark.parametrize(
    ("text", "docs"),
    [
        (
            GOOGLE,
            Docs(
                description="Do it.\n\nEven more.\n\nReturns:\n    The thing\n    in two lines.\n\nRaises:\n    ValueError: If not."
                "\n\nNote:\n    Be careful.\n\nExample:\n    >>> do(1)\n    2",
                parameters={"a": "First: with a colon\nand a second line.", "b": "Second."},
            ),
        ),
        (
            NUMPY,
            Docs(
                description="Do it.\n\nReturns:\n    str: The thing.\n\nExamples:\n    >>> do(1)\n    2",
                parameters={"a": "First.", "b": "Both.", "c": "Both."},
            ),
        ),
        (
            SPHINX,
            Docs(
                description="Do it.\n\nReturns:\n    the thing\n\nRaises:\n    ValueError: if not",
                parameters={"a": "first\ngoes on", "b": "second"},
            ),
        ),
        ("Do: it.\n\n    indented\n", Docs(description="Do: it.\n\n    indented")),
        ("Args:\n    z: Not a parameter.", Docs(description="Args:\n    z: Not a parameter.")),
        ("", Docs(description="")),
    ],
)
def test_a_docstring_is_taken_apart_in_its_own_style(text, docs):
    assert read_docs(text, {"a", "b", "c"}) == docs


LINES = st.sampled_from(
    ["Args:", "Parameters", "----------", ":param a: x", ":type a:", "    a: x", "a : int", "    ", "a", "Returns:", ":param",
     "\\d [", "    >>> a", ":raises", "    a (", "    *a", "Yields:", "    : ", ".. deprecated:: 1", "Attributes:", "\x00"]
)  # fmt: skip


@given(st.lists(LINES | st.text(max_size=8), max_size=12).map("\n".join))
def test_no_text_is_too_odd_to_be_read(text):
    docs = read_docs(text, {"a"})
    assert set(docs.parameters) <= {"a"}


def test_a_parser_that_trips_costs_only_the_structure(monkeypatch):
    def trip(*_, **__):
        raise IndexError

    monkeypatch.setattr("griffe.Docstring.parse", trip)
    assert read_docs(GOOGLE, {"a"}) == Docs(description=GOOGLE.strip())
