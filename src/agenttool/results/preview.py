"""Preview of text that is too large to inline: its head, its tail, and the call that reads the rest."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from agenttool.records import Json
from agenttool.results.jsonable import encode

READ_RESULT = "read_result"
"""The default name of the tool that reads stored output."""

PREVIEW_CHARS = 4_000
"""How many characters a preview has at most, unless a tool declares a lower limit."""

MAX_CHARS = 20_000
"""How many characters one call of that tool returns at most."""

LINES_AT_ONCE = 200
CHARS_AT_ONCE = 4_000

_MAX_LINE_CHARS = 300
_MEAN_LINE_CHARS = 1000
_GAP_CHARS = 80


class Excerpt(NamedTuple):
    """The visible part of a text, and the range that is missing from it.

    The range is half open. It counts lines from 1 if `in_lines` is set, and characters from 0 otherwise.
    """

    text: str
    missing_from: int
    missing_to: int
    in_lines: bool


class ReadHint(NamedTuple):
    """Names the tool and the stored payload with which a model can read the rest."""

    payload_id: str
    tool: str = READ_RESULT

    def next_call(self, part: Excerpt) -> str:
        """Return a sentence with the call that reads the first missing part."""
        if part.in_lines:
            end = min(part.missing_from + LINES_AT_ONCE, part.missing_to) - 1
            return f"To read more, {self._call(start_line=part.missing_from, end_line=end)}"
        return f"To read more, {self._call(offset=part.missing_from, limit=CHARS_AT_ONCE)}"

    def first_call(self) -> str:
        """Return a sentence with the call that reads from the beginning."""
        return f"To read it, {self._call(offset=0, limit=CHARS_AT_ONCE)}"

    def _call(self, **numbers: int) -> str:
        return f"call {self.tool} with {_spell({'payload_id': self.payload_id, **numbers})}"


def preview(text: str, *, budget: int, hint: ReadHint | None = None) -> str:
    """Return a title, the head and the tail of a text, and the hint, in at most `budget` characters."""
    lines = count_lines(text)
    title = f"[{lines} line{'' if lines == 1 else 's'}, {len(text)} characters; this is a preview]"
    longest = Excerpt(text="", missing_from=len(text), missing_to=2 * len(text), in_lines=True)
    reserved = len(title) + (len(hint.next_call(longest)) if hint else 0) + 3
    part = head_and_tail(text, max(budget - reserved, 0))
    last = [hint.next_call(part)] if hint and part.missing_from < part.missing_to else []
    shown = "\n".join(each for each in [title, part.text, *last] if each)
    if len(shown) <= budget:
        return shown
    # The hint is worth more than the title: with it, a model can still read the text.
    return "".join(last)[:budget] or title[:budget]


def count_lines(text: str) -> int:
    """Count lines as an editor does: a line end at the end of the text starts no further line."""
    return text.count("\n") + (0 if text.endswith("\n") else 1) if text else 0


def head_and_tail(text: str, room: int) -> Excerpt:
    """Return head and tail in `room` characters: numbered lines, or bare characters if lines are very long."""
    lines = count_lines(text)
    has_lines = lines > 1 and len(text) <= lines * _MEAN_LINE_CHARS
    return _by_lines(text, lines, room) if has_lines else _by_characters(text, room)


def _by_lines(text: str, total: int, room: int) -> Excerpt:
    # A shown line has at least three characters, so no more than `room` lines are split off.
    body, width = text.removesuffix("\n"), len(str(total))
    first = [*enumerate(body.split("\n", room), 1)]
    everything = _numbered(first, width, room + 1)
    if len(everything) == total:
        return Excerpt(text="\n".join(everything), missing_from=total + 1, missing_to=total + 1, in_lines=True)
    usable = max(room - _GAP_CHARS, 0)
    head = _numbered(first, width, usable * 2 // 3)
    left = usable - sum(len(line) + 1 for line in head)
    last = ((total - at, line) for at, line in enumerate(reversed(body.rsplit("\n", room))))
    tail = _numbered(last, width, left)[::-1]
    start, end = len(head) + 1, total - len(tail) + 1
    gap = f"… lines {start} to {end - 1} of {total} are left out …"
    shown = "\n".join([*head, gap, *tail])
    return Excerpt(text=shown[: max(room, 0)], missing_from=start, missing_to=end, in_lines=True)


def _numbered(lines: Iterable[tuple[int, str]], width: int, room: int) -> list[str]:
    """Return as many numbered lines as fit, in the given order."""
    fitting: list[str] = []
    for number, line in lines:
        shown = f"{number:>{width}}| {_cut(line.removesuffix(chr(13)))}"
        room -= len(shown) + 1
        if room < 0:
            break
        fitting.append(shown)
    return fitting


def _cut(line: str) -> str:
    more = len(line) - _MAX_LINE_CHARS
    return line if more <= 0 else f"{line[:_MAX_LINE_CHARS]}… ({more} more characters)"


def _by_characters(text: str, room: int) -> Excerpt:
    if len(text) <= room:
        return Excerpt(text=text, missing_from=len(text), missing_to=len(text), in_lines=False)
    visible = max(room - _GAP_CHARS, 0)
    start, end = visible - visible // 3, len(text) - visible // 3
    gap = f"\n… characters {start} to {end} of {len(text)} are left out …\n"
    shown = (text[:start] + gap + text[end:])[: max(room, 0)]
    return Excerpt(text=shown, missing_from=start, missing_to=end, in_lines=False)


@dataclass(slots=True, kw_only=True)
class TextRange:
    """Collects one range of a text that arrives in pieces: lines counted from 1, or characters from 0.

    Attributes:
        first: the first line or character.
        count: how many of them are wanted.
        has_more: the text continues after the range.
    """

    first: int
    count: int
    in_lines: bool
    has_more: bool = False
    _to_skip: int = field(init=False)
    _taken: list[str] = field(default_factory=list[str])
    _chars: int = 0
    _line_ends: int = 0

    def __post_init__(self) -> None:
        """Compute how many lines or characters precede the range."""
        self._to_skip = self.first - 1 if self.in_lines else self.first

    def feed(self, piece: str) -> bool:
        """Collect what belongs to the range; return whether another piece is needed."""
        skipped, end = self._first(piece, self._to_skip)
        self._to_skip -= skipped
        piece = piece[end:]
        _, wanted = self._first(piece, self.count - (self._line_ends if self.in_lines else self._chars))
        part = piece[: min(MAX_CHARS - self._chars, wanted)]
        self._taken.append(part)
        self._chars += len(part)
        self._line_ends += part.count("\n")
        self.has_more = len(piece) > len(part)
        return not self.has_more

    def _first(self, piece: str, count: int) -> tuple[int, int]:
        """Return how many of the next `count` lines or characters a piece has, and where they end in it."""
        if not self.in_lines:
            found = min(count, len(piece))
            return found, found
        *lines, rest = piece.split("\n", count)
        return len(lines), len(piece) - (len(rest) if len(lines) == count else 0)

    def render(self, payload_id: str, tool: str) -> str:
        """Return the text with a last line that names the range and the call for the next one."""
        text = "".join(self._taken)
        unit = "line" if self.in_lines else "character"
        if not text:
            return f"[the stored output ends before {unit} {self.first}]"
        whole_lines = self._line_ends + (not text.endswith("\n"))
        last = self.first + (whole_lines if self.in_lines else self._chars) - 1
        shown = f"{text}{'' if text.endswith(chr(10)) else chr(10)}[{unit}s {self.first} to {last}"
        if not self.has_more:
            return f"{shown}, the end]"
        if self.in_lines and self._line_ends == 0:
            return f"{shown}: a line of more than {MAX_CHARS} characters; read it by offset and limit]"
        return f"{shown}; to continue, call {tool} with {_spell(self._next(payload_id))}]"

    def _next(self, payload_id: str) -> dict[str, Json]:
        if not self.in_lines:
            return {"payload_id": payload_id, "offset": self.first + self._chars, "limit": self.count}
        start = self.first + self._line_ends
        return {"payload_id": payload_id, "start_line": start, "end_line": start + self.count - 1}


def _spell(arguments: dict[str, Json]) -> str:
    return encode(arguments).decode()
