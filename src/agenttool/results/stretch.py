"""A stretch of a long text that comes piece by piece: so many lines or characters, and never more than fits."""

from dataclasses import dataclass, field

from agenttool.records import Json
from agenttool.results.plain import encode

MAX_CHARS = 20_000
"""How much is read back at once; whoever wants more asks again."""

LINES_AT_ONCE = 200
CHARS_AT_ONCE = 4_000


@dataclass(slots=True, kw_only=True)
class Stretch:
    """Takes one stretch out of the pieces it is fed: lines counted from 1, or characters counted from 0.

    Attributes:
        first: the first line or character.
        wanted: how many of them.
        has_more: the text goes on after what was taken.
    """

    first: int
    wanted: int
    in_lines: bool
    has_more: bool = False
    _to_skip: int = field(init=False)
    _taken: list[str] = field(default_factory=list[str])
    _chars: int = 0
    _ends: int = 0

    def __post_init__(self) -> None:
        """Work out what comes before."""
        self._to_skip = self.first - 1 if self.in_lines else self.first

    def feed(self, piece: str) -> bool:
        """Take what belongs to the stretch; tell whether more is wanted."""
        piece = self._after_the_skipped(piece)
        room = min(MAX_CHARS - self._chars, self._length_of_rest(piece))
        part = piece[:room]
        self._taken.append(part)
        self._chars += len(part)
        self._ends += part.count("\n")
        self.has_more = len(piece) > len(part)
        return not self.has_more

    def _after_the_skipped(self, piece: str) -> str:
        if not self.in_lines:
            skipped = min(self._to_skip, len(piece))
            self._to_skip -= skipped
            return piece[skipped:]
        ends = piece.count("\n")
        if ends < self._to_skip:
            self._to_skip -= ends
            return ""
        at = _after_line_ends(piece, self._to_skip)
        self._to_skip = 0
        return piece[at:]

    def _length_of_rest(self, piece: str) -> int:
        """Tell how much of a piece is still wanted."""
        if not self.in_lines:
            return self.wanted - self._chars
        missing = self.wanted - self._ends
        return _after_line_ends(piece, missing) if piece.count("\n") >= missing else len(piece)

    def told(self, payload_id: str, tool: str) -> str:
        """Give the text with a last line that says what it is, and how to read on."""
        text = "".join(self._taken)
        unit = "line" if self.in_lines else "character"
        if not text:
            return f"[the stored output ends before {unit} {self.first}]"
        whole_lines = self._ends + (not text.endswith("\n"))
        last = self.first + (whole_lines if self.in_lines else self._chars) - 1
        head = f"{text}{'' if text.endswith(chr(10)) else chr(10)}[{unit}s {self.first} to {last}"
        if not self.has_more:
            return f"{head}, the end]"
        if self.in_lines and self._ends == 0:
            return f"{head}: a line of more than {MAX_CHARS} characters; read it by offset and limit]"
        return f"{head}; to read on, call {tool} with {_spelled(self._next(payload_id))}]"

    def _next(self, payload_id: str) -> dict[str, Json]:
        if not self.in_lines:
            return {"payload_id": payload_id, "offset": self.first + self._chars, "limit": self.wanted}
        start = self.first + self._ends
        return {"payload_id": payload_id, "start_line": start, "end_line": start + self.wanted - 1}


def _after_line_ends(text: str, count: int) -> int:
    """Find where the text goes on after so many ends of lines, which it has."""
    at = 0
    for _ in range(count):
        at = text.index("\n", at) + 1
    return at


def _spelled(arguments: dict[str, Json]) -> str:
    return encode(arguments).decode()
