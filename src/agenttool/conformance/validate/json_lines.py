"""JSON Lines: one document a line, split as fast as bytes can be split."""

from collections.abc import Iterable, Iterator

from agenttool.conformance.validate.piece import BLANK, Document, Gap, Piece, Trouble


def split_lines(chunks: Iterable[bytes], *, max_record: int, line: int = 1) -> Iterator[Piece]:
    """Give every line that is not blank; one that grows beyond the limit is passed over, and the next one read.

    Holds one chunk and one unfinished line, never more than `max_record` of it.
    """
    open_line = _OpenLine(max_record)
    for chunk in chunks:
        head, newline, rest = chunk.partition(b"\n")
        open_line.extend(head)
        if not newline:
            continue
        yield from open_line.close(line)
        *lines, tail = rest.split(b"\n")
        for text in lines:
            line += 1
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
