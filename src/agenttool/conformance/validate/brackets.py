"""Brackets in a stream of chunks, and none that stand in strings.

One compiled pattern runs from bracket to bracket over strings and everything else. Within a document it runs over
whole arrays and objects too, as long as nothing is nested in them, and brackets of one direction are counted in one go.
"""

import re
import sys
from typing import NamedTuple

REPEATS_POSSESSIVELY = sys.version_info >= (3, 11, 5)
"""Before that, a repetition that gives nothing back forgets where an attempt began that failed (gh-106052)."""


def _repeated(inner: bytes) -> bytes:
    """Repeat a pattern as often as it fits, and never give anything back."""
    return rb"(?:" + inner + rb")*+" if REPEATS_POSSESSIVELY else rb"(?>(?:" + inner + rb")*)"


_REST = rb'[^"\\]*+' + _repeated(rb'\\.[^"\\]*+') + rb'"'
_FLAT = rb'[^][{}"]*+' + _repeated(rb'"' + _REST + rb'[^][{}"]*+')

_UP_TO_BRACKET = re.compile(_FLAT, re.DOTALL)
"""Stops before a bracket, at the end, or before the quote of a string that does not end here."""
_UP_TO_NEST = re.compile(_FLAT + _repeated(rb"(?:\[" + _FLAT + rb"\]|\{" + _FLAT + rb"\})" + _FLAT), re.DOTALL)
"""The same, but passes over what has brackets and nothing nested in them."""
_RUN = re.compile(rb"[\[{]++|[\]}]++")
_REST_OF_STRING = re.compile(_REST, re.DOTALL)

_QUOTE = ord('"')
OPENING = b"[{"
ARRAY_START = ord("[")
ARRAY_END = ord("]")


class Run(NamedTuple):
    """Brackets of one direction that touch: the place and byte of the first, and how many there are."""

    start: int
    byte: int
    length: int


class Brackets:
    """Where the reading of a chunk stands, and whether the last chunk ended within a string."""

    def __init__(self, chunk: bytes = b"") -> None:
        """Start at the beginning of a chunk, outside of strings."""
        self._chunk = chunk
        self._at = 0
        self._in_string = False
        self._is_escaped = False  # the chunk ended between a backslash and what it escapes

    @property
    def in_string(self) -> bool:
        """Whether what was read so far ends within a string."""
        return self._in_string

    def enter(self, chunk: bytes) -> None:
        """Go on with the next chunk."""
        self._chunk, self._at = chunk, 0
        if not self._in_string:
            return
        start = 1 if self._is_escaped and chunk else 0
        if rest := _REST_OF_STRING.match(chunk, start):
            self._in_string = False
            self._at = rest.end()
        else:
            self._end_within_string(start)

    def next_run(self, *, within: bool) -> Run | None:
        """Give the next brackets, or nothing at the end of the chunk; `within` a document, flat values are no news."""
        pattern = _UP_TO_NEST if within else _UP_TO_BRACKET
        found = pattern.match(self._chunk, self._at)
        at = found.end() if found else self._at
        if run := _RUN.match(self._chunk, at):
            self._at = run.end()
            return Run(at, self._chunk[at], self._at - at)
        if at < len(self._chunk) and self._chunk[at] == _QUOTE:
            self._end_within_string(at + 1)
        self._at = len(self._chunk)
        return None

    def go_on_after(self, place: int) -> None:
        """Look at the rest of a run again, from this place on."""
        self._at = place

    def _end_within_string(self, start: int) -> None:
        self._in_string = True
        self._at = len(self._chunk)
        backslashes = len(self._chunk) - max(start, len(self._chunk.rstrip(b"\\")))
        self._is_escaped = backslashes % 2 == 1
