"""A file holds a document per line, or one document over many lines."""

import io

import pytest

from agenttool.conformance.validate.documents import Document, read_documents
from agenttool.conformance.validate.finding import flaw


def pieces(text, **options):
    return [
        tuple(piece) if isinstance(piece, Document) else piece for piece in read_documents(io.BytesIO(text), **options)
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b'{"a":1}\n\n{"b":2}\r\n{"c":3}', [(1, b'{"a":1}'), (3, b'{"b":2}'), (4, b'{"c":3}')]),
        (b'\n \n{"a":1}', [(3, b'{"a":1}')]),
        (b'{\n"a":1\n}', [(1, b'{\n"a":1\n}')]),
        (b'{"a": [\n  {"b":1}\n]}', [(1, b'{"a": [\n  {"b":1}\n]}')]),
        (b'\n\n [\n[{"a":1}],\n1\n]', [(3, b'[\n[{"a":1}],\n1\n]')]),
        (b'hello\n{"a":1}\n', [(1, b"hello"), (2, b'{"a":1}')]),
    ],
)
def test_documents_are_found_in_each_format(text, found):
    assert pieces(text) == found


def test_a_first_line_that_was_cut_off_does_not_hide_the_others():
    for cut in (b'{"a"', b'{"a', b'{"a":"so far:', b'{"a":1', b'{"a":1,'):
        assert pieces(cut + b'\n{"b":2}\n{"c":3}\n') == [(1, cut), (2, b'{"b":2}'), (3, b'{"c":3}')]


def test_a_byte_order_mark_is_reported_and_skipped():
    assert pieces(b'\xef\xbb\xbf{"a":1}') == [flaw("byte_order_mark", line=1), (1, b'{"a":1}')]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_other_encodings_are_recognised_by_their_first_bytes(encoding):
    assert pieces('{"a":1}'.encode(encoding)) == [flaw("wide_encoding", line=1)]


@pytest.mark.parametrize("text", [b"", b" ", b"\n" * 100, b"\xef\xbb\xbf"])
def test_a_file_without_a_record_is_reported(text):
    assert pieces(text)[-1] == flaw("no_document", line=1)


def test_every_byte_is_counted_once():
    for text in (b'{"a":1}\n' * 1000, b"{\n" + b"1,\n" * 1000 + b"1}", b"x" * 5000 + b"\n{}\n"):
        sizes = []
        list(read_documents(io.BytesIO(text), max_record=4000, on_bytes=sizes.append))
        assert sum(sizes) == len(text)


def test_a_line_over_the_limit_is_skipped_and_the_next_one_read():
    text = b'{"a":"' + b"x" * 5000 + b'"}\n{"b":2}\n{"c":"' + b"x" * 5000 + b'"}\n{"d":2}'
    assert pieces(text, max_record=1000) == [
        flaw("too_large", line=1),
        (2, b'{"b":2}'),
        flaw("too_large", line=3),
        (4, b'{"d":2}'),
    ]
    assert isinstance(next(iter(read_documents(io.BytesIO(text), max_record=6000))), Document)


def test_a_document_over_many_lines_and_over_the_limit_is_skipped():
    text = b"{\n" + b'"a":1,\n' * 1000 + b'"b":2}'
    assert list(read_documents(io.BytesIO(text), max_record=1000)) == [flaw("too_large", line=1)]
