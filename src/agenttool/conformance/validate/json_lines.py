"""JSON Lines: one document a line, split as fast as bytes can be split."""

from collections.abc import Iterable, Iterator
from itertools import chain

from agenttool.conformance.validate.boundaries import cut_documents
from agenttool.conformance.validate.piece import BLANK, Document, Gap, Piece, Trouble

_OPENERS = (b"{", b"[")
_FEW = 100


def split_lines(chunks: Iterable[bytes], *, max_record: int, line: int = 1) -> Iterator[Piece]:
    """Give every line that is not blank; one that grows beyond the limit is passed over, and the next one read.

    A line that is one opening bracket and nothing else starts a document over many lines: from there on, brackets tell
    where documents end. Holds one chunk and one unfinished line, never more than `max_record` of it.
    """
    open_line = _OpenLine(max_record)
    chunks = iter(chunks)
    for chunk in chunks:
        head, newline, rest = chunk.partition(b"\n")
        open_line.extend(head)
        if not newline:
            continue
        if opener := open_line.opener:
            yield from cut_documents(chain((opener + newline, rest), chunks), max_record=max_record, line=line)
            return
        yield from open_line.close(line)
        *lines, tail = rest.split(b"\n")
        for index, text in enumerate(lines, start=1):
            line += 1
            if len(text) <= _FEW and text.strip(BLANK) in _OPENERS:
                held = (text, b"\n", b"\n".join((*lines[index:], tail)))
                yield from cut_documents(chain(held, chunks), max_record=max_record, line=line)
                return
            if text and (text[0] in BLANK or len(text) > max_record):
                open_line.extend(text)
                yield from open_line.close(line)
            elif text:
                yield Document(line, text)
        line += 1
        open_line.extend(tail)
    yield from open_line.close(line)


class _OpenLine:
    """A line whose end has not been read yet."""

    def __init__(self, max_record: int) -> None:
        self._max_record = max_record
        self._pieces: list[bytes] = []
        self._size = 0

    @property
    def opener(self) -> bytes | None:
        """The line, if it is a bracket that opens something and nothing else."""
        text = b"".join(self._pieces) if self._size <= _FEW else b""
        return text if text.rstrip(BLANK) in _OPENERS else None

    def extend(self, piece: bytes) -> None:
        """Take more of the line; blanks before its first word are dropped, and so is all of it beyond the limit."""
        if not self._size:
            piece = piece.lstrip(BLANK)
        self._size += len(piece)
        if self._size > self._max_record:
            self._pieces.clear()
        elif piece:
            self._pieces.append(piece)

    def close(self, line: int) -> Iterator[Piece]:
        """Give the line, if there is anything on it, and start afresh."""
        if self._size > self._max_record:
            yield Gap(line, Trouble.TOO_LARGE)
        elif self._size:
            yield Document(line, b"".join(self._pieces))
        self._pieces.clear()
        self._size = 0
