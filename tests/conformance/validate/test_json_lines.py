from hypothesis import given
from hypothesis import strategies as st

from agenttool.conformance.validate.json_lines import split_lines
from agenttool.conformance.validate.piece import Document, Gap, Trouble


def split(text, size=None, max_record=1 << 30):
    size = size or max(len(text), 1)
    return list(split_lines([text[at : at + size] for at in range(0, len(text), size)], max_record=max_record))


@given(st.lists(st.sampled_from([b"", b"  ", b"\r", b"{}", b'{"a":1}', b" [1] ", b"\t", b"x"])), st.integers(1, 9))
def test_every_line_that_is_not_blank_is_a_document_with_its_number(lines, size):
    wanted = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
    assert [(piece.line, piece.data.strip()) for piece in split(b"\n".join(lines), size)] == wanted


def test_a_line_over_the_limit_is_passed_over_and_the_next_one_read():
    text = b"a\n" + b"x" * 100 + b"\nb\n" + b"y" * 100
    for size in (1, 30, 64, 1000):
        assert split(text, size, max_record=50) == [
            Document(1, b"a"),
            Gap(2, Trouble.TOO_LARGE),
            Document(3, b"b"),
            Gap(4, Trouble.TOO_LARGE),
        ]


def test_blanks_alone_are_never_too_large():
    for size in (1, 64, 1000):
        assert split(b" " * 100 + b"\n" + b"\t" * 100 + b"x", size, max_record=50) == [Document(2, b"x")]
