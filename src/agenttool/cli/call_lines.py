"""Lines of a log: calls and events for people, below the date of their day."""

from collections.abc import Iterable

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from agenttool.cli.format import duration, short_id, status_style
from agenttool.cli.output import print_text
from agenttool.history.printable import one_line, printable
from agenttool.server.messages import CallSummary

ALIGNED = 100
"""How many lines, from the first on, decide the widths of the columns."""

MAX_WIDTHS = {"time": 8, "call": 8, "tool": 32, "status": 19, "took": 8, "by": 32}
"""The columns before the result, and the widest cell of each that later columns are aligned to."""

WIDE, MAX_TOOL = 110, 24
"""On a terminal with fewer than `WIDE` columns, the name of a tool is cut after `MAX_TOOL` characters."""

OWNER_INDENT = 10
"""The indentation of the process of an open call, if it is printed on its own line."""


class DayLines:
    """Prints lines, and the date before the first line of a day."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._day = ""

    def print(self, day: str, line: Text, *, is_cut: bool = False) -> None:
        """Print one line of a day; with `is_cut`, a terminal cuts it at its width."""
        if day != self._day:
            self._day = day
            self.print(day, Text(f"{day} UTC", style="bold"))
        if not self._console.is_terminal:  # rendering takes most of the time, and is needed only for styles
            self._console.file.write(f"{line.plain.rstrip()}\n")
        elif is_cut:
            self._console.print(line, no_wrap=True, overflow="ellipsis", crop=True)
        else:
            self._console.print(line, soft_wrap=True)


class CallLines(DayLines):
    """Prints calls, one line each."""

    def __init__(self) -> None:
        super().__init__()
        is_narrow = self._console.is_terminal and self._console.width < WIDE
        self._max_tool = MAX_TOOL if is_narrow else None
        self._widths = dict.fromkeys(MAX_WIDTHS, 0)

    def measure(self, calls: Iterable[CallSummary]) -> None:
        """Widen the columns so that these calls fit."""
        for each in calls:
            for name, cell in self._cells(each).items():
                self._widths[name] = max(self._widths[name], min(cell_len(cell), MAX_WIDTHS[name]))

    def print_call(self, call: CallSummary) -> None:
        """Print one call; the process of an open call is not cut off, because an operator needs it."""
        styles = {"call": "cyan", "status": status_style(call.status), "tool": "bold", "took": "dim", "by": "magenta"}
        day, text, line = printable(call.at[:10]), one_line(call.summary), Text()
        for name, cell in self._cells(call).items():
            padding = " " * (self._widths[name] - cell_len(cell))
            if self._widths[name]:
                padded = padding + cell if name == "took" else cell + padding
                line.append(f"{padded}  ", style=styles.get(name, ""))
        if call.is_open and self._console.is_terminal and cell_len(text) > self._console.width - line.cell_len:
            self.print(day, line, is_cut=True)
            print_text(f"{'':{OWNER_INDENT}}{text}", None, self._console)
        else:
            self.print(day, line.append(text, style="red" if call.error_class else ""), is_cut=True)

    def _cells(self, call: CallSummary) -> dict[str, str]:
        """Return the columns before the text, by name."""
        tool = printable(call.tool)
        if self._max_tool is not None and cell_len(tool) > self._max_tool:
            tool = f"{tool[: self._max_tool - 1]}…"
        return {
            "time": printable(call.at[11:19]),
            "call": short_id(printable(call.invocation_id)),
            "tool": tool,
            "status": printable(call.status),
            "took": duration(round(call.duration_s * 1e9)),
            "by": _people(call),
        }


def _people(call: CallSummary) -> str:
    """Return the actor of a call, the approver who answered last, and the person who canceled it."""
    people = [call.actor] if call.actor else []
    for each in call.approvals[-1:]:
        claim = f" (claims to be {each.claim})" if each.claim else ""
        people.append(f"{'denied' if each.behavior == 'deny' else 'approved'} by {each.by}{claim}")
    if call.canceled_by:
        people.append(f"canceled by {call.canceled_by}")
    return one_line(", ".join(people))
