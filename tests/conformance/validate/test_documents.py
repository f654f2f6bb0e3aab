"""A file is split into documents: JSON Lines, or one JSON text over many lines."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.conformance.validate.documents import Document, FileFlaw, read_documents, split_text
from agenttool.conformance.validate.finding import flaw


def pieces(text, **options):
    return [tuple(piece) for piece in read_documents(io.BytesIO(text), **options)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b'{"a":1}\n\n{"b":2}\r\n{"c":3}', [(1, b'{"a":1}'), (3, b'{"b":2}'), (4, b'{"c":3}')]),
        (b'\n \n{"a":1}', [(3, b'{"a":1}')]),
        (b'{\n"a":1\n}', [(1, b'{\n"a":1\n}')]),
        (b'{\n"a":1\n}\n{\n"b":2\n}\n', [(1, b'{\n"a":1\n}'), (4, b'{\n"b":2\n}')]),
        (b'{"a": [\n  {"b":1}\n]}', [(1, b'{"a": [\n  {"b":1}\n]}')]),
        (b'\n\n [{"a":1},\n{"b":2}]', [(3, b'{"a":1}'), (4, b'{"b":2}')]),
        (b'[{"a":1}]{"b":1}', [(1, b'{"a":1}'), (1, b'{"b":1}')]),
        (b"[1, [2]]", [(1, b"1"), (1, b"[2]")]),
        (b'hello\n{"a":1}\n', [(1, b"hello"), (2, b'{"a":1}')]),
    ],
)
def test_documents_are_found_in_each_format(text, found):
    assert pieces(text) == found


def test_a_first_line_that_was_cut_off_does_not_hide_the_others():
    for cut in (b'{"a"', b'{"a', b'{"a":"so far:', b'{"a":1', b'{"a":1,'):
        assert pieces(cut + b'\n{"b":2}\n{"c":3}\n') == [(1, cut), (2, b'{"b":2}'), (3, b'{"c":3}')]


VALUES = st.recursive(
    st.none() | st.integers() | st.text(st.sampled_from('a"\\[]{}\n,é'), max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
)
OBJECTS = st.lists(st.dictionaries(st.text(max_size=3), VALUES, max_size=3), min_size=1, max_size=4)


@given(OBJECTS, st.sampled_from([None, 0, 2]), st.booleans())
def test_documents_come_out_as_they_went_in(objects, indent, as_array):
    if as_array:
        text = json.dumps(objects, indent=indent).encode()
    else:
        text = "\n".join(json.dumps(each, indent=indent) for each in objects).encode()
    found = list(split_text(text))
    assert [json.loads(piece.data) for piece in found] == objects
    for piece in found:
        assert piece.data.split(b"\n")[0] in text.split(b"\n")[piece.line - 1]


def test_numbers_that_json_cannot_hold_do_not_hide_the_elements_of_an_array():
    element = b'{"a": NaN, "b": ' + b"1" * 5000 + b"}"
    assert pieces(b"[" + element + b"]") == [(1, element)]


@pytest.mark.parametrize(
    "text",
    [
        b'[{"a":1}\n{"b":1}]',
        b'[{"a":1},,{"b":1}]',
        b'[,{"a":1}]',
        b'[{"a":1},\n]',
        b'[{"a":1}',
        b'[{"a":1},\n{"b": [1',
        b'[{"a":1}]}}\n',
        b"[" * 100_000,
        b'{\n"a":' * 100_000,
        b"[\xff\n]",
        b"{\n" + b"\x80" * 10,
    ],
)
def test_a_text_that_no_parser_can_split_is_one_document(text):
    assert pieces(text) == [(1, text.strip())]


def test_a_byte_order_mark_is_reported_and_skipped():
    assert pieces(b'\xef\xbb\xbf{"a":1}') == [(1, flaw("byte_order_mark")), (1, b'{"a":1}')]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_other_encodings_are_recognised_by_their_first_bytes(encoding):
    assert pieces('{"a":1}'.encode(encoding)) == [(1, flaw("wide_encoding"))]


@pytest.mark.parametrize("text", [b"", b" ", b"\n" * 100, b"[]", b"[ ]\n", b"\xef\xbb\xbf"])
def test_a_file_without_a_record_is_reported(text):
    assert pieces(text)[-1] == (1, flaw("no_document"))


def test_every_byte_is_counted_once():
    for text in (b'{"a":1}\n' * 1000, b"[\n" + b"1,\n" * 1000 + b"1]", b"x" * 5000 + b"\n{}\n"):
        sizes = []
        list(read_documents(io.BytesIO(text), max_record=4000, on_bytes=sizes.append))
        assert sum(sizes) == len(text)


def test_a_line_over_the_limit_is_skipped_and_the_next_one_read():
    text = b'{"a":"' + b"x" * 5000 + b'"}\n{"b":2}\n{"c":"' + b"x" * 5000 + b'"}\n{"d":2}'
    assert pieces(text, max_record=1000) == [
        (1, flaw("too_large")),
        (2, b'{"b":2}'),
        (3, flaw("too_large")),
        (4, b'{"d":2}'),
    ]
    assert isinstance(next(iter(read_documents(io.BytesIO(text), max_record=6000))), Document)


def test_an_array_over_the_limit_is_skipped():
    text = b"[\n" + b'{"a":1},\n' * 1000 + b"{}]"
    assert list(read_documents(io.BytesIO(text), max_record=1000)) == [FileFlaw(1, flaw("too_large"))]
