"""The head and the tail of a text, and what lies between counted instead of shown."""

from collections.abc import Iterable, Iterator

from agenttool.records import Part

_MAX_LINE_CHARS = 300
_MEAN_LINE_CHARS = 1000
_GAP_CHARS = 80


class Excerpt(Part, frozen=True, kw_only=True):
    """What is shown of a text, and the stretch that is not: lines counted from 1, or characters counted from 0.

    Nothing is missing if `missing_from` is not before `missing_to`, which is the first that is shown again.
    """

    text: str
    missing_from: int
    missing_to: int
    in_lines: bool


def count_lines(text: str) -> int:
    """Count lines as an editor does: the last line end does not begin another line."""
    return text.count("\n") + (0 if text.endswith("\n") else 1) if text else 0


def excerpt(text: str, room: int) -> Excerpt:
    """Show as much of a text as there is room for: numbered lines, or plain characters if lines are very long."""
    lines = count_lines(text)
    has_lines = lines > 1 and len(text) <= lines * _MEAN_LINE_CHARS
    return _by_lines(text, lines, room) if has_lines else _by_characters(text, room)


def _by_lines(text: str, total: int, room: int) -> Excerpt:
    width = len(str(total))
    everything = _numbered(enumerate(_forward(text), 1), width, room + 1)
    if len(everything) == total:
        return Excerpt(text="\n".join(everything), missing_from=total + 1, missing_to=total + 1, in_lines=True)
    usable = max(room - _GAP_CHARS, 0)
    head = _numbered(enumerate(_forward(text), 1), width, usable * 2 // 3)
    left = usable - sum(len(line) + 1 for line in head)
    tail = _numbered(((total - at, line) for at, line in enumerate(_backward(text))), width, left)[::-1]
    start, end = len(head) + 1, total - len(tail) + 1
    gap = f"… lines {start} to {end - 1} of {total} are left out …"
    shown = "\n".join([*head, gap, *tail])
    return Excerpt(text=shown[: max(room, 0)], missing_from=start, missing_to=end, in_lines=True)


def _forward(text: str) -> Iterator[str]:
    """Give lines one by one from the first: of a very long text, few are ever asked for."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield text[start:end]
        start = end + 1


def _backward(text: str) -> Iterator[str]:
    """Give lines one by one from the last."""
    end = len(text) - text.endswith("\n")
    while end >= 0:
        start = text.rfind("\n", 0, end)
        yield text[start + 1 : end]
        end = start


def _numbered(lines: Iterable[tuple[int, str]], width: int, room: int) -> list[str]:
    """Number as many lines as fit, in the order given."""
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
    shown = max(room - _GAP_CHARS, 0)
    start, end = shown - shown // 3, len(text) - shown // 3
    gap = f"\n… characters {start} to {end} of {len(text)} are left out …\n"
    return Excerpt(
        text=(text[:start] + gap + text[end:])[: max(room, 0)], missing_from=start, missing_to=end, in_lines=False
    )
