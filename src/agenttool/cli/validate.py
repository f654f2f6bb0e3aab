"""`agenttool validate`: check records of any origin, and print each finding as it is found."""

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path
from textwrap import wrap
from typing import Annotated, cast

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agenttool.cli.options import flag, option, required
from agenttool.cli.output import INTERRUPTED, fail, figures, is_json, plain_table, replace_unencodable
from agenttool.cli.progress import WorkBar
from agenttool.conformance.validate.finding import Finding, Severity, Summary, json_line
from agenttool.conformance.validate.validation import Validation
from agenttool.errors import StoreError
from agenttool.history.printable import printable

FINDINGS = 1

_STYLES = {Severity.ERROR: "red", Severity.WARNING: "yellow"}
_INDENT = "  "


def validate(
    files: Annotated[list[str], required("FILE", "JSON or JSON Lines; - is standard input")],
    *,
    allow_warnings: bool = flag("--allow-warnings", "Exit with 0 if there are no errors"),
    limit: int = option("--limit N", "Show at most N findings (without --json)", low=0, default=100),
) -> None:
    """Check the schemas and the consistency of records.

    All files are one set: a record may refer to a record in another file. A type of
    reference is checked only if the set holds a record of the type that it refers
    to, so that a part of an export can be checked as well.

    Exits with 0 if nothing was found, 1 if something was, 2 if a file could not be
    read.
    """
    if cast("object", sys.stdout) is None:
        fail("the standard output is closed; leave it open, or send it to a file")
    bar = WorkBar(total_size(files), in_bytes=True)
    report = FindingPrinter(limit, bar)
    try:
        with bar, Validation(on_bytes=bar.advance) as validation:
            for finding in find_all(validation, files):
                report.add(finding)
        report.close(validation.summary)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except StoreError as error:
        fail(str(error))
    summary = validation.summary
    if summary.errors or (summary.warnings and not allow_warnings):
        raise typer.Exit(FINDINGS)


def find_all(validation: Validation, files: list[str]) -> Iterator[Finding]:
    """Yield the findings of each file, then those across files; an unreadable file ends the command."""
    for name in files:
        with ExitStack() as stack:
            try:
                stream = standard_input() if name == "-" else stack.enter_context(Path(name).open("rb"))
                yield from validation.read(name, stream)
            except OSError as error:
                fail(f"file cannot be read: {name!r}: {error.strerror}; name another file")
    yield from validation.conclude()


def standard_input() -> BufferedReader:
    """Return the binary standard input.

    Raises:
        OSError: it is closed.
    """
    if cast("object", sys.stdin) is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return cast("BufferedReader", sys.stdin.buffer)


class FindingPrinter:
    """Prints JSON Lines; or blocks of text up to a limit, then a table."""

    def __init__(self, limit: int, bar: WorkBar) -> None:
        """Hide the progress bar while a block is printed."""
        self._limit = limit
        self._bar = bar
        self._count = 0
        replace_unencodable()
        self._console = Console(highlight=False)
        self._width = self._console.width if self._console.is_terminal else None

    def add(self, finding: Finding) -> None:
        """Print one line of JSON; or one block, unless the limit is reached."""
        if is_json():
            sys.stdout.buffer.write(json_line(finding))
            return
        self._count += 1
        if self._count <= self._limit:
            self._bar.hide()
            self._console.print(finding_block(finding, self._width), soft_wrap=True)

    def close(self, summary: Summary) -> None:
        """Print the summary: one line of JSON; or how many findings were omitted, and a table."""
        if is_json():
            sys.stdout.buffer.write(json_line(summary))
            sys.stdout.buffer.flush()
            return
        if self._count > self._limit:
            self._console.print(f"… and {self._count - self._limit:,} more; --limit shows more, --json all of them")
        if self._count:
            self._console.print()
        self._console.print(summary_table(summary))
        sys.stdout.flush()


def finding_block(finding: Finding, width: int | None) -> Text:
    """Return a finding: its place; the problem and the requirement; what was expected and what to do.

    Without a width, each of the three is one line of any length.
    """
    place = (f"{finding.file}:{finding.line}", finding.record_type, finding.record_id, finding.pointer)
    requirement = f" [{finding.requirement}]" if finding.requirement else ""
    block = Text(_folded(_INDENT.join(filter(None, place)), width), style="bold")
    problem = f"{_INDENT}{finding.severity.value}{requirement}: {finding.message}"
    block.append(f"\n{_folded(problem, width)}", style=f"not bold {_STYLES[finding.severity]}")
    hint = f"{_INDENT}expected {finding.expected}; {finding.advice}"
    return block.append(f"\n{_folded(hint, width)}", style="not bold dim")


def _folded(text: str, width: int | None) -> str:
    if width is None:
        return printable(text)
    lines = wrap(printable(text), width, subsequent_indent=2 * _INDENT, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def summary_table(summary: Summary) -> Table:
    """Return how many records were read, and how many findings there are."""
    found = Text(f"{summary.errors:,}", style="red" if summary.errors else "green")
    warned = Text(f"{summary.warnings:,}", style="yellow" if summary.warnings else "green")
    skipped = [("documents skipped", Text(f"{summary.unreadable:,}", style="red"))] if summary.unreadable else []
    rows = [
        *((kind, f"{count:,}") for kind, count in summary.records.items()),
        ("records", Text(f"{sum(summary.records.values()):,}", style="bold")),
        *skipped,
        ("files", f"{summary.files:,}"),
        ("bytes", f"{summary.bytes:,}"),
        ("errors", found),
        ("warnings", warned),
    ]
    return plain_table("", figures(""), rows=rows)


def total_size(files: list[str]) -> int | None:
    """Return the size of all files, or none if one is a pipe; a missing file ends the command first."""
    found = [_stat(name) for name in files if name != "-"]
    is_known = len(found) == len(files) and all(stat.S_ISREG(each.st_mode) for each in found)
    return sum(each.st_size for each in found) if is_known else None


def _stat(name: str) -> os.stat_result:
    try:
        return Path(name).stat()  # it is not opened, because a pipe can be opened only once
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        fail(f"file cannot be opened: {name!r}: {reason}; name another file")
