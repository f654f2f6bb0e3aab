"""Previews that help a model: what there is, what is where, head and tail, and exactly how to read more."""

from dataclasses import dataclass

from agenttool.records import UNSET, ClosedEnum, ContentClass, Json, UnsetType
from agenttool.results.excerpt import Excerpt, count_lines, excerpt
from agenttool.results.outline import (
    outline_diff,
    outline_members,
    outline_table,
    outline_troubles,
    shape_of,
)
from agenttool.results.plain import encode
from agenttool.results.wording import shorten

READ_RESULT = "read_result"
"""The tool that reads stored output back, unless a deployment names another."""

_LINES_AT_ONCE = 200
_CHARS_AT_ONCE = 4000
_DELIMITERS = ("\t", ",", ";", "|")
_ROWS_LOOKED_AT = 5


class PreviewKind(ClosedEnum):
    """What a text is, for whoever has to show a part of it."""

    TEXT = "text"
    LOG = "log"
    JSON = "JSON"
    TABLE = "table"
    DIFF = "diff"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadHint:
    """How whoever reads a preview can read more: the name of the tool, and what to ask it for."""

    payload_id: str
    tool: str = READ_RESULT

    def sentence(self, part: Excerpt) -> str:
        """Spell one call that gives the first part that is not shown."""
        if part.in_lines:
            end = min(part.missing_from + _LINES_AT_ONCE, part.missing_to) - 1
            stretch: dict[str, Json] = {"start_line": part.missing_from, "end_line": end}
        else:
            stretch = {"offset": part.missing_from, "limit": _CHARS_AT_ONCE}
        arguments = encode({"payload_id": self.payload_id, **stretch}).decode()
        return f"To read more, call {self.tool} with {arguments}"

    def whole(self) -> str:
        """Spell one call that reads from the beginning."""
        arguments = encode({"payload_id": self.payload_id, "offset": 0, "limit": _CHARS_AT_ONCE}).decode()
        return f"To read it, call {self.tool} with {arguments}"


def kind_of(text: str, *, content_class: ContentClass = ContentClass.TEXT, media_type: str = "") -> PreviewKind:
    """Tell what a text is by what it was declared as, or by how it begins."""
    is_diff = text.startswith(("diff --git ", "Index: ")) or (text.startswith("--- ") and "\n+++ " in text[:2000])
    if content_class is ContentClass.DIFF or is_diff:
        return PreviewKind.DIFF
    if content_class is ContentClass.LOG:
        return PreviewKind.LOG
    is_table = media_type.startswith(("text/csv", "text/tab-separated")) or delimiter_of(text) is not None
    return PreviewKind.TABLE if is_table else PreviewKind.TEXT


def delimiter_of(text: str) -> str | None:
    """Find what separates the columns of a table: it stands equally often, twice at least, in each first row."""
    rows = text[:10_000].split("\n")[:_ROWS_LOOKED_AT]
    for delimiter in _DELIMITERS:
        counts = {row.count(delimiter) for row in rows}
        if len(rows) == _ROWS_LOOKED_AT and len(counts) == 1 and min(counts) > 1:
            return delimiter
    return None


def preview(
    text: str,
    *,
    budget: int,
    hint: ReadHint | None = None,
    kind: PreviewKind = PreviewKind.TEXT,
    value: Json | UnsetType = UNSET,
) -> str:
    """Show the most useful part of a text in at most `budget` characters.

    `value` is the JSON value that the text spells, if it spells one: it is then shown by its shape and its members.
    """
    if value is not UNSET:
        kind = PreviewKind.JSON
    title = f"[{kind}, {count_lines(text)} lines, {len(text)} characters; this is a preview]"
    worst = Excerpt(text="", missing_from=len(text), missing_to=2 * len(text), in_lines=True)
    reserved = len(title) + (len(hint.sentence(worst)) if hint else 0) + 3
    room = max(budget - reserved, 0)
    outline = shorten(_outline(text, kind, value), room * 2 // 5)
    part = _body(text, value, room - len(outline))
    last = [hint.sentence(part)] if hint and part.missing_from < part.missing_to else []
    shown = "\n".join(each for each in [title, outline, part.text, *last] if each)
    return shown if len(shown) <= budget else _squeezed(title, last, budget)


def _squeezed(title: str, last: list[str], budget: int) -> str:
    """Give up what is shown before how to read it."""
    told = "\n".join([title, *last])
    return told if len(told) <= budget else "".join(last)[:budget] or title[:budget]


def _outline(text: str, kind: PreviewKind, value: Json | UnsetType) -> str:
    match kind:
        case PreviewKind.JSON:
            return "" if value is UNSET else f"shape: {shape_of(value)}"
        case PreviewKind.TABLE:
            return outline_table(text, delimiter_of(text) or ",")
        case PreviewKind.DIFF:
            return outline_diff(text)
        case PreviewKind.TEXT | PreviewKind.LOG:
            return outline_troubles(text)


def _body(text: str, value: Json | UnsetType, room: int) -> Excerpt:
    if value is UNSET:
        return excerpt(text, room)
    shown = outline_members(value, room)
    missing = 0 if shown != text else len(text)
    return Excerpt(text=shown, missing_from=missing, missing_to=len(text), in_lines=False)
