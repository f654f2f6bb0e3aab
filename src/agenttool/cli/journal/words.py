"""How names, times and values of the journal are written for people."""

from rich.table import Table
from rich.text import Text

from agenttool.cli.findings import printable
from agenttool.codec import json_bytes
from agenttool.errors import RecordError
from agenttool.records import Behavior, InvocationStatus, Json, ResultStatus, ToolId, is_unresolved

SHORT = 8
"""So many last digits of an id tell calls apart: the first ones are the time."""

_GOOD = {InvocationStatus.SUCCEEDED, ResultStatus.SUCCEEDED, Behavior.ALLOW, InvocationStatus.APPROVED}
_OPEN = {
    Behavior.ASK,
    InvocationStatus.AWAITING_APPROVAL,
    InvocationStatus.NEEDS_INPUT,
    InvocationStatus.CANCELED,
    InvocationStatus.TIMED_OUT,
    ResultStatus.PARTIAL_SUCCEEDED,
}
_BAD = {
    Behavior.DENY,
    InvocationStatus.FAILED,
    InvocationStatus.DENIED,
    InvocationStatus.BLOCKED,
    InvocationStatus.SCHEMA_PARSE_FAILED,
    InvocationStatus.VALIDATION_FAILED,
}


def style_of(word: str) -> str:
    """Give the colour of a status or a decision."""
    return "green" if word in _GOOD else "yellow" if word in _OPEN else "red" if word in _BAD else "cyan"


def short_id(identifier: str) -> str:
    """Give the end of an id, which `agenttool show` takes, too."""
    return identifier[-SHORT:]


def tool_name(tool_id: ToolId | None) -> str:
    """Give the name of a tool as people write it."""
    if tool_id is None:
        return ""
    return printable(tool_id.partition(":")[2] if is_unresolved(tool_id) else tool_id.removeprefix("tool_"))


def duration(nanoseconds: int) -> str:
    """Write a length of time with three digits that matter."""
    for unit, size in (("h", 3600 * 10**9), ("min", 60 * 10**9), ("s", 10**9), ("ms", 10**6)):
        if abs(nanoseconds) >= size:
            value = nanoseconds / size
            return f"{value:.{max(0, 3 - len(str(int(abs(value)))))}f} {unit}"
    return f"{nanoseconds / 1000:.0f} µs"


def size(count: int) -> str:
    """Write a number of bytes."""
    return f"{count:,} bytes"


def compact(value: Json) -> str:
    """Write a value on one line."""
    try:
        return printable(json_bytes(value).decode())
    except RecordError:
        return printable(repr(value))


def lines(text: str) -> str:
    """Make a text of several lines harmless to the terminal."""
    return "\n".join(printable(line.expandtabs(4)) for line in text.splitlines())


def plain_table(*columns: str, header: bool = False) -> Table:
    """Make a table without lines, whose first column does not wrap."""
    table = Table(*columns, box=None, pad_edge=False, show_header=header, padding=(0, 2, 0, 0), header_style="dim")
    while len(table.columns) < 2:  # noqa: PLR2004 -- a name and a value
        table.add_column()
    table.columns[0].no_wrap = True
    for column in table.columns:
        column.overflow = "fold"
    return table


def heading(title: str) -> Text:
    """Write the title of a section."""
    return Text(f"\n{title}", style="bold")
