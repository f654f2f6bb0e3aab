"""Read the documents of a file: one per line (JSON Lines), or a single document over many lines.

JSON Lines are read line by line, in memory that does not grow with the file.
"""

import io
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, dropwhile
from typing import NamedTuple

from agenttool.conformance.validate.finding import Finding, flaw

MAX_RECORD = 64 << 20
BLANK = b" \t\r\n"
"""What JSON calls whitespace."""

_CHUNK = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_WIDE_STARTS = (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff", b"{\0", b"[\0", b"\0{", b"\0[", b"\0\0\0{", b"\0\0\0[")
_UNFINISHED = (b"{", b"[", b",", b":")


class Document(NamedTuple):
    """The bytes of one document, or of one line with its newline, and the number of the line they start on."""

    line: int
    data: bytes


def read_documents(
    stream: io.BufferedIOBase, *, max_record: int = MAX_RECORD, on_bytes: Callable[[int], None] | None = None
) -> Iterator[Document | Finding]:
    """Yield the documents and flaws of a file in order; `on_bytes` is called with the size of each read.

    Raises:
        OSError: the file cannot be read.
    """
    lines = _lines(stream, max_record, on_bytes)
    start = next(lines, Document(1, b""))
    if start.data.startswith(_WIDE_STARTS):
        yield flaw("wide_encoding", line=1)
        return
    if start.data.startswith(_BYTE_ORDER_MARK):
        yield flaw("byte_order_mark", line=1)
        start = start._replace(data=start.data.removeprefix(_BYTE_ORDER_MARK))
    filled = dropwhile(lambda line: not line.data.strip(BLANK), chain([start], lines))
    head = [line for line in (next(filled, None), next(filled, None)) if line is not None]
    lines = chain(head, filled)
    is_joined = is_multiline(head) and len(head[0].data) <= max_record
    found = _pieces_of_lines([_joined(lines, max_record)] if is_joined else lines, max_record)
    yield next(found, flaw("no_document", line=1))
    yield from found


def _lines(stream: io.BufferedIOBase, max_record: int, on_bytes: Callable[[int], None] | None) -> Iterator[Document]:
    """Yield lines of at most one byte more than a document may have; skip the rest of a longer line."""

    def read(size: int) -> bytes:
        line = stream.readline(size)
        if line and on_bytes:
            on_bytes(len(line))
        return line

    number = 0
    while line := read(max_record + 1):
        number += 1
        yield Document(number, line)
        is_cut = len(line) > max_record
        while is_cut and line and not line.endswith(b"\n"):
            line = read(_CHUNK)


def is_multiline(head: list[Document]) -> bool:
    """Return whether a file with these first lines holds one document over many lines.

    It does if the first line ends where JSON continues and no object starts the second.
    """
    first, second = (*(line.data for line in head), b"", b"")[:2]
    is_unfinished = first.lstrip(BLANK).startswith((b"{", b"[")) and first.rstrip(BLANK).endswith(_UNFINISHED)
    return is_unfinished and not second.startswith(b"{")


def _joined(lines: Iterable[Document], max_record: int) -> Document:
    """Join lines into one document; keep at most one byte more than a document may have."""
    first, data = 0, bytearray()
    for number, line in lines:
        first = first or number
        data += line[: max_record + 1 - len(data)]
    return Document(first, bytes(data))


def _pieces_of_lines(lines: Iterable[Document], max_record: int) -> Iterator[Document | Finding]:
    for number, line in lines:
        if len(line) > max_record:
            yield flaw("too_large", line=number)
        elif data := line.strip(BLANK):
            yield Document(number, data)
