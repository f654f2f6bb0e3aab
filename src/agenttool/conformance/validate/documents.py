"""Split a file into documents: one per line (JSON Lines), or one JSON text over many lines.

JSON Lines are read line by line, in memory that does not grow with the file. A JSON text over many lines (one
document, several in sequence, or an array of them) is read whole and must fit into `max_record`.
"""

import io
import json
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple

from agenttool.conformance.validate.finding import Layer, RecordFlaw, Severity
from agenttool.conformance.validate.parse import is_too_deep

MAX_RECORD = 64 << 20
BLANK = b" \t\r\n"
"""What JSON calls whitespace."""

_CHUNK = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_WIDE_STARTS = (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff", b"{\0", b"[\0", b"\0{", b"\0[", b"\0\0\0{", b"\0\0\0[")
_UNFINISHED = (b"{", b"[", b",", b":")


class Document(NamedTuple):
    """The bytes of one document, and the line they start on."""

    line: int
    data: bytes


class Trouble(StrEnum):
    """What can be wrong with a file apart from its documents."""

    BYTE_ORDER_MARK = "byte_order_mark"
    NOT_UTF8 = "not_utf8"
    TOO_LARGE = "too_large"
    STRAY_COMMA = "stray_comma"
    MISSING_COMMA = "missing_comma"
    UNCLOSED_ARRAY = "unclosed_array"
    NO_DOCUMENT = "no_document"


class Gap(NamedTuple):
    """A line on which something other than a document is wrong."""

    line: int
    trouble: Trouble


Piece = Document | Gap


def _flaw(message: str, expected: str, advice: str, severity: Severity = Severity.ERROR) -> RecordFlaw:
    return RecordFlaw(message=message, expected=expected, advice=advice, severity=severity, layer=Layer.READING)


FLAWS = {
    Trouble.BYTE_ORDER_MARK: _flaw(
        "the file starts with a byte order mark", "UTF-8 without a mark", "remove it", Severity.WARNING
    ),
    Trouble.NOT_UTF8: _flaw("the file is written in UTF-16 or UTF-32", "UTF-8", "re-encode the file"),
    Trouble.TOO_LARGE: _flaw(
        "the document is larger than the limit and was skipped",
        "a document within the limit",
        "write one record per line, put large content behind a ref, or raise --max-record",
    ),
    Trouble.STRAY_COMMA: _flaw("a comma has no element before or after it", "one comma between two", "remove it"),
    Trouble.MISSING_COMMA: _flaw("two elements of the array touch", "a comma between them", "add the comma"),
    Trouble.UNCLOSED_ARRAY: _flaw(
        "the file ends before its array does", "a closing bracket", "complete the file: it may have been cut"
    ),
    Trouble.NO_DOCUMENT: _flaw(
        "there is no record in the file", "at least one record", "check what wrote it", Severity.WARNING
    ),
}
"""The flaw that each trouble is reported as."""


def read_documents(
    stream: io.BufferedIOBase, *, max_record: int = MAX_RECORD, on_bytes: Callable[[int], None] | None = None
) -> Iterator[Piece]:
    """Yield the documents and troubles of a file in order; `on_bytes` is called with the size of each read.

    Raises:
        OSError: the file cannot be read.
    """
    lines = _Lines(stream, max_record, on_bytes)
    first = lines.next()
    if first.startswith(_WIDE_STARTS):
        yield Gap(1, Trouble.NOT_UTF8)
        return
    if first.startswith(_BYTE_ORDER_MARK):
        yield Gap(1, Trouble.BYTE_ORDER_MARK)
        first = first.removeprefix(_BYTE_ORDER_MARK)
    while first and not lines.is_cut and not first.strip(BLANK):
        first = lines.next()
    is_empty = True
    for piece in _pieces(lines, first):
        is_empty = False
        yield piece
    if is_empty:
        yield Gap(1, Trouble.NO_DOCUMENT)


class _Lines:
    """Read lines of bounded length; the rest of a longer line is skipped."""

    def __init__(self, stream: io.BufferedIOBase, max_record: int, on_bytes: Callable[[int], None] | None) -> None:
        self.max_record = max_record
        self.number = 0
        self.is_cut = False
        self._stream = stream
        self._on_bytes = on_bytes

    def next(self) -> bytes:
        """Return the next line with its newline, or nothing at the end; set `is_cut` if it was longer than allowed."""
        line = self._read(self.max_record + 1)
        self.number += 1
        self.is_cut = len(line) > self.max_record
        if self.is_cut and not line.endswith(b"\n"):
            while (rest := self._read(_CHUNK)) and not rest.endswith(b"\n"):
                pass
        return line

    def _read(self, size: int) -> bytes:
        line = self._stream.readline(size)
        if line and self._on_bytes:
            self._on_bytes(len(line))
        return line


def _pieces(lines: _Lines, first: bytes) -> Iterator[Piece]:
    """Choose the format by the first two lines, and yield what the file holds."""
    number, is_cut = lines.number, lines.is_cut
    if is_cut or not first:
        second = b""
    else:
        second = lines.next()
        if is_multiline(first, second):
            yield from _read_text(lines, first + second, number)
            return
        yield from _line_piece(number, first, is_cut=is_cut)
        first, number, is_cut = second, lines.number, lines.is_cut
    while first:
        yield from _line_piece(number, first, is_cut=is_cut)
        first, number, is_cut = lines.next(), lines.number, lines.is_cut


def _line_piece(number: int, line: bytes, *, is_cut: bool) -> Iterator[Piece]:
    if is_cut:
        yield Gap(number, Trouble.TOO_LARGE)
    elif data := line.strip(BLANK):
        yield Document(number, data)


def is_multiline(first: bytes, second: bytes) -> bool:
    """Return whether a file whose first two lines are these is one JSON text rather than JSON Lines.

    It is, if it starts with an array, or if its first line ends where JSON continues and no object starts the second.
    """
    first = first.strip(BLANK)
    if first.startswith(b"[") or first == b"{":
        return True
    return first.startswith(b"{") and first.endswith(_UNFINISHED) and not second.startswith(b"{")


def _read_text(lines: _Lines, start: bytes, number: int) -> Iterator[Piece]:
    """Read the rest of a file as one JSON text, unless it is larger than a document may be."""
    parts, size = [start], len(start)
    while line := lines.next():
        size += len(line)
        if size <= lines.max_record:
            parts.append(line)
        else:
            parts.clear()
    if size > lines.max_record:
        yield Gap(number, Trouble.TOO_LARGE)
    else:
        yield from split_text(b"".join(parts), number)


_scan = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str).raw_decode
"""Find the end of a value; numbers stay text, so that none is too long."""


def split_text(data: bytes, line: int = 1) -> Iterator[Piece]:
    """Split a JSON text into its top-level values, or into the elements of a top-level array.

    From the first value that is not JSON, the rest is one document: the parser says what is wrong with it.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        yield Document(line, data.strip(BLANK))
        return
    if is_too_deep(data):
        yield Document(line, data.strip(BLANK))
        return
    yield from _TextSplitter(text, line).pieces()


class _TextSplitter:
    """A position in a JSON text, its line, and what stood before it."""

    def __init__(self, text: str, line: int) -> None:
        self._text = text
        self._at = self._counted = 0
        self._line = line
        self._in_array = False
        self._before = ""  # in an array: "element" or "comma", or nothing at its start

    def pieces(self) -> Iterator[Piece]:
        """Yield the values and the troubles between them."""
        while self._skip_blanks():
            if self._text[self._at] in "[],":
                was_read, trouble = self._read_punctuation()
                if trouble is not None:
                    yield Gap(self._line, trouble)
                if was_read:
                    continue
            if self._before == "element":
                yield Gap(self._line, Trouble.MISSING_COMMA)
            yield self._read_value()
        if self._in_array:
            yield Gap(self._line, Trouble.UNCLOSED_ARRAY)

    def _skip_blanks(self) -> bool:
        """Move to the next character that is not blank; return whether there is one."""
        text = self._text
        while self._at < len(text) and text[self._at] in " \t\r\n":
            self._at += 1
        self._line += text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._at < len(text)

    def _read_punctuation(self) -> tuple[bool, Trouble | None]:
        """Read a bracket or comma of the top-level array; return whether it was one, and what is wrong with it."""
        mark, trouble = self._text[self._at], None
        if not self._in_array:
            if mark != "[":
                return False, None
            self._in_array, self._before = True, ""
        elif mark == "[":
            return False, None
        else:
            is_stray = self._before == "comma" if mark == "]" else self._before != "element"
            trouble = Trouble.STRAY_COMMA if is_stray else None
            self._in_array = mark != "]"
            self._before = "comma" if mark == "," else ""
        self._at += 1
        return True, trouble

    def _read_value(self) -> Document:
        """Read a value; if it is not JSON, everything up to the end of the text."""
        start, line = self._at, self._line
        try:
            _, self._at = _scan(self._text, start)
        except ValueError:
            self._at, self._in_array = len(self._text), False
        self._before = "element" if self._in_array else ""
        return Document(line, self._text[start : self._at].strip(" \t\r\n").encode())
