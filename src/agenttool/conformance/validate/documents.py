"""Split a file into documents: one per line (JSON Lines), or one JSON text over many lines.

JSON Lines are read line by line, in memory that does not grow with the file. A JSON text over many lines (one
document, several in sequence, or an array of them) is read whole and must fit into `max_record`.
"""

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, dropwhile
from typing import NamedTuple

from agenttool.conformance.validate.finding import RecordFlaw, flaw

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


class FileFlaw(NamedTuple):
    """A line on which something other than a document is wrong."""

    line: int
    flaw: RecordFlaw


Piece = Document | FileFlaw


def read_documents(
    stream: io.BufferedIOBase, *, max_record: int = MAX_RECORD, on_bytes: Callable[[int], None] | None = None
) -> Iterator[Piece]:
    """Yield the documents and flaws of a file in order; `on_bytes` is called with the size of each read.

    Raises:
        OSError: the file cannot be read.
    """
    lines = _lines(stream, max_record, on_bytes)
    start = next(lines, Document(1, b""))
    if start.data.startswith(_WIDE_STARTS):
        yield FileFlaw(1, flaw("wide_encoding"))
        return
    if start.data.startswith(_BYTE_ORDER_MARK):
        yield FileFlaw(1, flaw("byte_order_mark"))
        start = start._replace(data=start.data.removeprefix(_BYTE_ORDER_MARK))
    filled = dropwhile(lambda line: not line.data.strip(BLANK), chain([start], lines))
    head = [line for line in (next(filled, None), next(filled, None)) if line is not None]
    pieces = _pieces_of_text if is_multiline([line.data for line in head]) else _pieces_of_lines
    found = pieces(chain(head, filled), max_record)
    yield next(found, FileFlaw(1, flaw("no_document")))
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


def is_multiline(head: list[bytes]) -> bool:
    """Return whether a file with these first two lines is one JSON text rather than JSON Lines.

    It is, if it starts with an array, or if its first line ends where JSON continues and no object starts the second.
    """
    first, second = (*head, b"", b"")[:2]
    first = first.strip(BLANK)
    is_unfinished = first.startswith(b"{") and first.endswith(_UNFINISHED)
    return first.startswith(b"[") or (is_unfinished and not second.startswith(b"{"))


def _pieces_of_lines(lines: Iterable[Document], max_record: int) -> Iterator[Piece]:
    for number, line in lines:
        if len(line) > max_record:
            yield FileFlaw(number, flaw("too_large"))
        elif data := line.strip(BLANK):
            yield Document(number, data)


def _pieces_of_text(lines: Iterable[Document], max_record: int) -> Iterator[Piece]:
    """Read the rest of a file as one JSON text, unless it is larger than a document may be."""
    first, size, parts = 0, 0, list[bytes]()
    for number, line in lines:
        first = first or number
        size += len(line)
        if size <= max_record:
            parts.append(line)
        else:
            parts.clear()
    yield from [FileFlaw(first, flaw("too_large"))] if size > max_record else split_text(b"".join(parts), first)


_scan = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str).raw_decode
"""Find the end of a value; numbers stay text, so that none is too long."""


def split_text(data: bytes, line: int = 1) -> list[Document]:
    """Split a JSON text into its top-level values, or into the elements of a top-level array.

    A text that is not JSON is one document: the parser reports what is wrong with it.
    """
    try:
        text = data.decode()
        spans = list(_spans(text))
    except (ValueError, RecursionError):
        return [Document(line, data.strip(BLANK))]
    documents: list[Document] = []
    counted = 0
    for start, end in spans:
        line += text.count("\n", counted, start)
        counted = start
        documents.append(Document(line, text[start:end].encode()))
    return documents


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each value starts and ends; instead of an array its elements.

    Raises:
        ValueError: the text is not JSON.
    """
    at = 0
    while (start := _after(_BLANKS, text, at)) < len(text):
        _, at = _scan(text, start)
        if text[start] != "[":
            yield start, at
            continue
        inner = start + 1
        while text[start := _after(_BETWEEN_ELEMENTS, text, inner)] != "]":
            _, inner = _scan(text, start)
            yield start, inner


_BLANKS = re.compile(r"[ \t\r\n]*")
_BETWEEN_ELEMENTS = re.compile(r"[ \t\r\n,]*")


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at
