"""Values of the journal as text: JSON, ids, names, durations, statuses, results."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec
import typer
from rich.console import RenderableType
from rich.highlighter import JSONHighlighter
from rich.text import Text

from agenttool.cli.output import hint, is_json, print_blocks, print_text, terminal_json
from agenttool.codec import json_bytes, parse_object, to_json
from agenttool.errors import RecordError
from agenttool.history.printable import printable
from agenttool.records import Json, JsonObject, ToolResult

SHORT_ID = 8
"""This many last characters distinguish ids; the first ones encode the time."""

_STYLES = {
    "green": "succeeded allow approved",
    "yellow": "ask awaiting_approval needs_input canceled timed_out partial_succeeded",
    "red": "deny failed denied blocked schema_parse_failed validation_failed",
}
_STYLE_OF = {word: style for style, words in _STYLES.items() for word in words.split()}
"""The colour of each status and decision."""

_SPANS = (("d", 86_400), ("h", 3600), ("min", 60))
_DURATIONS = (("h", 3600 * 10**9), ("min", 60 * 10**9), ("s", 10**9), ("ms", 10**6))


def print_json(value: JsonObject) -> None:
    """Print a JSON object on one line of the standard output, if that is JSON; text is not printed then."""
    if is_json():
        typer.echo(terminal_json(json_bytes(value).decode()))


def document_of(message: msgspec.Struct) -> JsonObject:
    """Return a message of the HTTP API as JSON."""
    return parse_object(msgspec.json.encode(message))


def print_rows(documents: Sequence[JsonObject], blocks: Iterable[RenderableType], *, empty: str) -> None:
    """Print a list: as JSON Lines, or as blocks of text; without entries, the hint `empty`."""
    for each in documents:
        print_json(each)
    if documents:
        print_blocks(blocks)
    elif not is_json():
        hint(empty)


def indented_json(value: Json) -> Text:
    """Return JSON over several lines, in colours, indented by two columns."""
    text = printable(json.dumps(value, indent=2, ensure_ascii=False), keep="\n")
    return Text("\n").join([Text("  ") + line for line in JSONHighlighter()(text).split("\n")])


def compact_json(value: Json) -> str:
    """Return JSON on one line."""
    try:
        return printable(json_bytes(value).decode())
    except RecordError:
        return printable(repr(value))


def printable_lines(text: str) -> str:
    """Return printable text that keeps its line breaks."""
    return "\n".join(printable(line.expandtabs(4)) for line in text.splitlines())


def status_style(status: str) -> str:
    """Return the colour of a status or of a decision."""
    return _STYLE_OF.get(status, "cyan")


def utc(at_ns: int) -> str:
    """Return a time to the second."""
    return f"{datetime.fromtimestamp(at_ns / 1e9, UTC):%Y-%m-%d %H:%M:%S} UTC"


def short_id(identifier: str) -> str:
    """Return the end of an id, which `agenttool show` accepts."""
    return identifier[-SHORT_ID:]


def duration(nanoseconds: int) -> str:
    """Return a duration with three significant digits."""
    for unit, size in _DURATIONS:
        if abs(nanoseconds) >= size:
            value = nanoseconds / size
            return f"{value:.{max(0, 3 - len(str(int(abs(value)))))}f} {unit}"
    return f"{nanoseconds / 1000:.0f} µs"


def rough_duration(seconds: float) -> str:
    """Return a duration in whole days, hours, minutes or seconds."""
    for unit, size in _SPANS:
        if seconds >= 2 * size or (seconds >= size and unit == "min"):
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def print_result(result: ToolResult) -> None:
    """Print what a model reads of a result."""
    for item in result.model_facing_content or ():
        print_text(str(to_json(item)) if item.text is None else item.text, "red" if result.is_error else None)
