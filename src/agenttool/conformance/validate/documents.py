"""A file to documents, whichever way it is written, in memory that does not grow with the file.

JSON Lines, one document over many lines, such documents one after another, or an array of them: the first line tells.
"""

import io
from collections.abc import Callable, Iterator
from itertools import chain

from agenttool.conformance.validate.boundaries import cut_documents, end_of_value, may_go_on
from agenttool.conformance.validate.json_lines import split_lines
from agenttool.conformance.validate.piece import BLANK, Gap, Piece, Trouble

CHUNK = 1 << 20
MAX_RECORD = 64 << 20

_MARK = b"\xef\xbb\xbf"
_WIDE_STARTS = (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff", b"{\0", b"[\0", b"\0{", b"\0[", b"\0\0\0{", b"\0\0\0[")


def read_documents(
    stream: io.BufferedIOBase, *, max_record: int = MAX_RECORD, on_bytes: Callable[[int], None] | None = None
) -> Iterator[Piece]:
    """Cut a file into documents and troubles, in order; `on_bytes` hears the size of every chunk that was read.

    Raises:
        OSError: the file cannot be read.
    """
    chunks = _read(stream, on_bytes)
    start = _gather(chunks, enough=len(_MARK) + 1)
    if start.startswith(_WIDE_STARTS):
        yield Gap(1, Trouble.NOT_UTF8)
        return
    if start.startswith(_MARK):
        yield Gap(1, Trouble.BYTE_ORDER_MARK)
    line, word = _skip_blanks(chain((start.removeprefix(_MARK),), chunks))
    head = _gather(chain((word,), chunks), enough=CHUNK, stop_after_line=True)
    cut = split_lines if is_json_lines(head) else cut_documents
    is_empty = True
    for piece in cut(chain((head,), chunks), max_record=max_record, line=line):
        is_empty = False
        yield piece
    if is_empty:
        yield Gap(1, Trouble.NO_DOCUMENT)


def is_json_lines(head: bytes) -> bool:
    """Tell from the first bytes that are not blank whether a file has one document a line.

    It has, if its first line is one whole object, or if the second line starts another although the first was cut off:
    where no object could follow within the same document. An array is cut into its elements instead. Text that starts
    otherwise is read line by line, because only lines offer a way to go on after it.
    """
    if not head.startswith(b"{"):
        return not head.startswith(b"[")
    first, newline, rest = head.partition(b"\n")
    end = end_of_value(first)
    if end is None:
        return bool(newline) and rest.startswith(b"{") and not may_go_on(first)
    return not first[end:].strip(BLANK)


def _read(stream: io.BufferedIOBase, on_bytes: Callable[[int], None] | None) -> Iterator[bytes]:
    while chunk := stream.read1(CHUNK):
        if on_bytes:
            on_bytes(len(chunk))
        yield chunk


def _skip_blanks(chunks: Iterator[bytes]) -> tuple[int, bytes]:
    """Drop the blanks before the first word, however many; give the line of that word, and the chunk from there on."""
    line = 1
    for chunk in chunks:
        text = chunk.lstrip(BLANK)
        line += chunk.count(b"\n", 0, len(chunk) - len(text))
        if text:
            return line, text
    return line, b""


def _gather(chunks: Iterator[bytes], *, enough: int, stop_after_line: bool = False) -> bytes:
    """Join chunks, which a pipe may give in any size, until there is enough, or a line and the start of the next."""
    pieces: list[bytes] = []
    size = 0
    has_line = False
    for chunk in chunks:
        pieces.append(chunk)
        size += len(chunk)
        if size >= enough or (stop_after_line and (has_line or b"\n" in chunk[:-1])):
            break
        has_line = has_line or chunk.endswith(b"\n")
    return b"".join(pieces)
