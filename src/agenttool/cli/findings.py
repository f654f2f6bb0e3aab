"""Findings for people: blocks of a few lines, eighty columns wide, and a closing table."""

from textwrap import wrap

from rich.table import Table
from rich.text import Text

from agenttool.conformance.validate.finding import Finding, Severity
from agenttool.conformance.validate.summary import Summary

_STYLES = {Severity.ERROR: "red", Severity.WARNING: "yellow"}
_INDENT = "  "


def finding_block(finding: Finding, width: int | None) -> Text:
    """Say where and in which record; what is wrong, and by which rule; what was expected, and what to do.

    Without a width, each of the three is one line, however long.
    """
    place = (f"{finding.file}:{finding.line}", finding.record_type, finding.record_id, finding.pointer)
    rule = f" [{finding.requirement}]" if finding.requirement else ""
    block = Text(_folded(_INDENT.join(filter(None, place)), width), style="bold")
    wrong = f"{_INDENT}{finding.severity.value}{rule}: {finding.message}"
    block.append(f"\n{_folded(wrong, width)}", style=f"not bold {_STYLES[finding.severity]}")
    hint = f"{_INDENT}expected {finding.expected}; {finding.advice}"
    return block.append(f"\n{_folded(hint, width)}", style="not bold dim")


def _folded(text: str, width: int | None) -> str:
    if width is None:
        return printable(text)
    lines = wrap(printable(text), width, subsequent_indent=2 * _INDENT, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def summary_table(summary: Summary) -> Table:
    """Show what was read and what was found."""
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    for kind, count in summary.records.items():
        table.add_row(kind, f"{count:,}")
    table.add_section()
    table.add_row("records", f"{sum(summary.records.values()):,}", style="bold")
    if summary.unreadable:
        table.add_row("documents passed over", f"{summary.unreadable:,}", style="red")
    table.add_row("files", f"{summary.files:,}")
    table.add_row("bytes", f"{summary.bytes:,}")
    table.add_section()
    table.add_row("errors", f"{summary.errors:,}", style="red" if summary.errors else "green")
    table.add_row("warnings", f"{summary.warnings:,}", style="yellow" if summary.warnings else "green")
    return table


def printable(text: str) -> str:
    """Spell out whatever could act on a terminal: names of members and files come from strangers."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
