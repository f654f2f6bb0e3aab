"""Documents over many lines, one after another or as the elements of an array: where each begins and ends.

Only brackets are looked at; what is written between them is the parser's business.
"""

from collections.abc import Iterable, Iterator

from agenttool.conformance.validate.brackets import ARRAY_END, ARRAY_START, OPENING, Brackets, Run
from agenttool.conformance.validate.piece import BLANK, Document, Gap, Piece, Trouble


def cut_documents(chunks: Iterable[bytes], *, max_record: int, line: int = 1) -> Iterator[Piece]:
    """Give every top-level value; the elements of a top-level array one by one, the array itself never.

    Holds one chunk and one unfinished document, never more than `max_record` of it. A document that is cut off by the
    end of the file is given as it is, without the blanks at its end.
    """
    cutter = _Cutter(max_record, line)
    for chunk in chunks:
        yield from cutter.feed(chunk)
    yield from cutter.finish()


def end_of_value(text: bytes) -> int | None:
    """Tell where the array or object that a text starts with ends, if it does."""
    brackets = Brackets(text)
    depth = 0
    while run := brackets.next_run(within=depth > 0):
        if run.byte in OPENING:
            depth += run.length
        elif run.length >= depth:
            return run.start + max(depth, 1)
        else:
            depth -= run.length
    return None


def may_go_on(text: bytes) -> bool:
    """Tell whether an object may follow on the next line of a document that starts with this text and is not ended."""
    brackets = Brackets(text)
    while brackets.next_run(within=True):
        pass
    return not brackets.in_string and text.rstrip(BLANK).endswith((b"[", b":", b","))


class _Cutter:
    """What is known between one chunk and the next."""

    def __init__(self, max_record: int, line: int) -> None:
        self._max_record = max_record
        self._brackets = Brackets()
        self._lines = _Lines(line)
        self._gap = _Between()
        self._in_array = False
        self._depth = 0  # within the current document; none when between documents
        self._document_line = line
        self._held: list[bytes] = []
        self._held_size = 0
        self._mark = 0  # where in the chunk the current document, or what is between two, begins

    def feed(self, chunk: bytes) -> Iterator[Piece]:
        """Give the documents that end in this chunk."""
        self._mark = 0
        self._brackets.enter(chunk)
        while run := self._brackets.next_run(within=self._depth > 0):
            if not self._depth:
                self._gap.extend(chunk, self._mark, run.start, self._lines)
                yield from self._open(chunk, run) if run.byte in OPENING else self._close(chunk, run)
            elif run.byte in OPENING:
                self._depth += run.length
            elif run.length < self._depth:
                self._depth -= run.length
            else:
                end = run.start + self._depth
                self._brackets.go_on_after(end)
                yield self._end_document(chunk, end)
        if self._depth:
            self._hold(chunk[self._mark :])
        else:
            self._gap.extend(chunk, self._mark, len(chunk), self._lines)
        self._lines.leave(chunk)

    def finish(self) -> Iterator[Piece]:
        """Give what the end of the file leaves open."""
        if self._depth:
            piece = self._end_document(b"", 0)
            yield Document(piece.line, piece.data.rstrip(BLANK)) if isinstance(piece, Document) else piece
        yield from self._gap.end(allowed_commas=(0, 1) if self._in_array else (0,))
        if self._in_array:
            yield Gap(self._lines.line, Trouble.UNCLOSED_ARRAY)

    def _open(self, chunk: bytes, run: Run) -> Iterator[Piece]:
        at = run.start
        self._brackets.go_on_after(at + 1)
        if run.byte == ARRAY_START and not self._in_array:
            yield from self._gap.end(allowed_commas=(0,))
            self._in_array, self._mark = True, at + 1
            self._gap.follows_element = False
            return
        here = self._lines.at(chunk, at)
        if self._in_array and self._gap.lacks_comma:
            yield Gap(here, Trouble.MISSING_COMMA)
        yield from self._gap.end(allowed_commas=(0, 1) if self._in_array and self._gap.follows_element else (0,))
        self._depth, self._mark, self._document_line = 1, at, here

    def _close(self, chunk: bytes, run: Run) -> Iterator[Piece]:
        if self._in_array and run.byte == ARRAY_END:
            self._in_array, self._mark = False, run.start + 1
            self._brackets.go_on_after(self._mark)
            yield from self._gap.end(allowed_commas=(0,))
        else:
            self._mark = run.start + run.length
            self._gap.stray(self._lines.at(chunk, run.start))

    def _end_document(self, chunk: bytes, end: int) -> Piece:
        self._hold(chunk[self._mark : end])
        self._mark, self._depth = end, 0
        data, size = b"".join(self._held), self._held_size
        self._held.clear()
        self._held_size = 0
        self._gap.follows_element = True
        is_too_large = size > self._max_record
        return Gap(self._document_line, Trouble.TOO_LARGE) if is_too_large else Document(self._document_line, data)

    def _hold(self, piece: bytes) -> None:
        self._held_size += len(piece)
        if self._held_size > self._max_record:
            self._held.clear()
        else:
            self._held.append(piece)


class _Lines:
    """Line numbers, counted forwards only."""

    def __init__(self, line: int) -> None:
        self.line = line
        self._counted = 0

    def at(self, chunk: bytes, place: int) -> int:
        """Tell the line of a place; places must come in order."""
        self.line += chunk.count(b"\n", self._counted, place)
        self._counted = max(self._counted, place)
        return self.line

    def leave(self, chunk: bytes) -> None:
        """Count the rest of the chunk."""
        self.at(chunk, len(chunk))
        self._counted = 0


class _Between:
    """What stands between two documents: blanks, a comma within an array, or something that should not be there."""

    def __init__(self) -> None:
        self.follows_element = False
        self._commas = 0
        self._line = 0  # of the first thing that is not blank
        self._has_text = False

    @property
    def lacks_comma(self) -> bool:
        """Tell whether an element that begins here touches the one before."""
        return self.follows_element and not self._commas and not self._has_text

    def extend(self, chunk: bytes, start: int, end: int, lines: _Lines) -> None:
        """Take note of what a stretch holds, and forget it."""
        text = chunk[start:end].strip(BLANK)
        if not text:
            return
        if not self._line:
            self._line = lines.at(chunk, end - len(chunk[start:end].lstrip(BLANK)))
        self._commas += text.count(b",")
        self._has_text = self._has_text or bool(text.strip(b"," + BLANK))

    def stray(self, line: int) -> None:
        """Take note of something that should not be there."""
        self._has_text = True
        self._line = self._line or line

    def end(self, *, allowed_commas: tuple[int, ...]) -> Iterator[Gap]:
        """Say whether something was wrong, and start afresh."""
        if self._has_text or self._commas not in allowed_commas:
            yield Gap(self._line, Trouble.STRAY_TEXT)
        self._commas, self._line, self._has_text = 0, 0, False
