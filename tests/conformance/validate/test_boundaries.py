import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.conformance.validate.boundaries import cut_documents, end_of_value
from agenttool.conformance.validate.piece import Document, Gap, Trouble

PLENTY = 1 << 30


def cut(text, size=None, max_record=PLENTY):
    size = size or max(len(text), 1)
    return list(cut_documents([text[at : at + size] for at in range(0, len(text), size)], max_record=max_record))


LEAF = st.none() | st.integers() | st.text(st.sampled_from('a"\\[]{}\n'), max_size=6)
VALUE = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
)
OBJECTS = st.lists(st.dictionaries(st.text(max_size=3), VALUE, max_size=3), min_size=1, max_size=4)


@given(OBJECTS, st.sampled_from([None, 0, 2]), st.integers(1, 9), st.booleans())
def test_documents_come_out_as_they_went_in_however_they_are_written_and_chunked(objects, indent, size, as_array):
    if as_array:
        text = json.dumps(objects, indent=indent)
    else:
        text = "\n".join(json.dumps(each, indent=indent) for each in objects)
    pieces = cut(text.encode(), size)
    assert [json.loads(piece.data) for piece in pieces] == objects
    for piece in pieces:
        place = text.encode().split(b"\n")[piece.line - 1]
        assert piece.data.split(b"\n")[0] in place


@pytest.mark.parametrize(
    ("text", "names", "troubles"),
    [
        (b'[{"a":1}, 3, {"b":1}]', "ab", [(1, Trouble.STRAY_TEXT)]),
        (b'[{"a":1}\n{"b":1}]', "ab", [(2, Trouble.MISSING_COMMA)]),
        (b'[{"a":1},,{"b":1}]', "ab", [(1, Trouble.STRAY_TEXT)]),
        (b'[,{"a":1}]', "a", [(1, Trouble.STRAY_TEXT)]),
        (b'[{"a":1},\n]', "a", [(1, Trouble.STRAY_TEXT)]),
        (b'{"a":1},\n{"b":1}', "ab", [(1, Trouble.STRAY_TEXT)]),
        (b'{"a":1}}}}\n}}{"b":1}', "ab", [(1, Trouble.STRAY_TEXT)]),
        (b'{"a":1}\n\nand "so {on"\n{"b":1}', "ab", [(3, Trouble.STRAY_TEXT)]),
        (b'[{"a":1}', "a", [(1, Trouble.UNCLOSED_ARRAY)]),
        (b'[{"a":1},\n\n', "a", [(3, Trouble.UNCLOSED_ARRAY)]),
        (b'[{"a":1}][{"b":1}]', "ab", []),
        (b'[{"a":1}]{"b":1}', "ab", []),
        (b"[]", "", []),
    ],
)
def test_what_stands_between_documents_is_told_once_and_reading_goes_on(text, names, troubles):
    for size in (1, 2, 3, len(text)):
        pieces = cut(text, size)
        assert [tuple(piece) for piece in pieces if isinstance(piece, Gap)] == troubles
        assert [json.loads(piece.data) for piece in pieces if isinstance(piece, Document)] == [{n: 1} for n in names]


def test_a_document_that_is_cut_off_is_given_as_it_is():
    assert cut(b'{\n"a": [1', 3) == [Document(1, b'{\n"a": [1')]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_document_over_the_limit_is_passed_over_and_the_next_one_read(size):
    text = b'[{"a":"' + b"x" * 100 + b'"},\n{"b":2}]'
    assert cut(text, size, max_record=50) == [Gap(1, Trouble.TOO_LARGE), Document(2, b'{"b":2}')]


@pytest.mark.parametrize(
    ("text", "end"), [(b"{}", 2), (b'{"a":"}"} ', 9), (b"[[1]]]", 5), (b"{", None), (b'{"a', None), (b"}", 1)]
)
def test_the_end_of_a_value_is_where_its_last_bracket_is(text, end):
    assert end_of_value(text) == end
