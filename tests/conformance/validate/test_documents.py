import io

import pytest

from agenttool.conformance.validate.documents import is_json_lines, read_documents
from agenttool.conformance.validate.piece import Document, Gap, Trouble


class Trickle(io.BytesIO):
    """A pipe that gives a byte at a time."""

    def read1(self, size=-1, /):
        return super().read1(1)


def pieces(text, **options):
    whole = [tuple(piece) for piece in read_documents(io.BytesIO(text), **options)]
    assert [tuple(piece) for piece in read_documents(Trickle(text), **options)] == whole
    return whole


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b'{"a":1}\n\n{"b":2}\r\n{"c":3}', [(1, b'{"a":1}'), (3, b'{"b":2}\r'), (4, b'{"c":3}')]),
        (b'{"a":1}', [(1, b'{"a":1}')]),
        (b'{\n"a":1\n}', [(1, b'{\n"a":1\n}')]),
        (b'{\n"a":1\n}\n{\n"b":2\n}\n', [(1, b'{\n"a":1\n}'), (4, b'{\n"b":2\n}')]),
        (b'{"a":1}{"b":2}', [(1, b'{"a":1}'), (1, b'{"b":2}')]),
        (b'\n\n [{"a":1},\n{"b":2}]', [(3, b'{"a":1}'), (4, b'{"b":2}')]),
    ],
)
def test_whichever_way_a_file_is_written_its_documents_are_found(text, found):
    assert pieces(text) == found


def test_a_first_line_that_was_cut_off_does_not_take_the_others_along():
    for cut in (b'{"a"', b'{"a', b'{"a":"so far:', b'{"a":1'):
        assert pieces(cut + b'\n{"b":2}\n{"c":3}\n') == [(1, cut), (2, b'{"b":2}'), (3, b'{"c":3}')]


@pytest.mark.parametrize(
    "document",
    [
        b'{"a": [\n{"b":1}\n],\n"c":2}',
        b'{"a":\n{"b":1}\n}',
        b'{"a":[{},\n{"b":1}]}',
        b'{"a":"' + b"x" * 1_500_000 + b'",\n"b":1}',
    ],
)
def test_a_document_over_many_lines_is_one_wherever_its_lines_are_broken(document):
    assert [tuple(each) for each in read_documents(io.BytesIO(document))] == [(1, document)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"  \n"])
@pytest.mark.parametrize("count", [1, 2])
def test_after_lines_a_document_over_many_lines_is_read_to_its_end(end, count):
    pretty = b"{" + end + b'  "b": 2\n}'
    first = b'{"a":1}\n' * count
    found = [(number, b'{"a":1}') for number in range(1, count + 1)]
    assert pieces(first + pretty + b'\n{"c":3}\n') == [*found, (count + 1, pretty), (count + 4, b'{"c":3}')]


def test_text_that_is_no_json_is_read_line_by_line():
    assert pieces(b'hello\n{"a":1}\n') == [(1, b"hello"), (2, b'{"a":1}')]


def test_a_byte_order_mark_is_reported_and_skipped():
    assert pieces(b'\xef\xbb\xbf{"a":1}') == [(1, Trouble.BYTE_ORDER_MARK), (1, b'{"a":1}')]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_other_encodings_are_told_by_their_first_bytes(encoding):
    assert pieces('{"a":1}'.encode(encoding)) == [(1, Trouble.NOT_UTF8)]


@pytest.mark.parametrize("text", [b"", b" ", b"\n" * 100, b"[]", b"[ ]\n", b"\xef\xbb\xbf"])
def test_a_file_without_a_record_says_so(text):
    assert pieces(text)[-1] == (1, Trouble.NO_DOCUMENT)


def test_every_byte_is_counted_once():
    heard = []
    list(read_documents(io.BytesIO(b'{"a":1}\n' * 1000), on_bytes=heard.append))
    assert sum(heard) == 8000


def test_what_is_held_never_exceeds_the_limit():
    text = b'{"a":"' + b"x" * 5000 + b'"}\n{"b":2}\n'
    assert pieces(text, max_record=1000) == [(1, Trouble.TOO_LARGE), (2, b'{"b":2}')]
    assert isinstance(next(iter(read_documents(io.BytesIO(text), max_record=6000))), Document)
    assert isinstance(next(iter(read_documents(io.BytesIO(text), max_record=100))), Gap)


@pytest.mark.parametrize(
    ("head", "verdict"),
    [
        (b"{}\n", True),
        (b"{}", True),
        (b"{} {}\n", False),
        (b"{\n", False),
        (b'{"a":\n{', False),
        (b'{"a"\n{', True),
        (b"[", False),
        (b"x", True),
        (b'{"a":"' + b"x" * 100, False),
    ],
)
def test_the_first_line_tells_the_way_a_file_is_written(head, verdict):
    assert is_json_lines(head) == verdict
