"""Terminal output for all commands: safe text, tables, errors and warnings.

This module imports terminal libraries only, because `agenttool --help` loads it (ADR 0007).
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from io import TextIOWrapper
from typing import NoReturn, TextIO, cast

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from agenttool.history.printable import printable

USAGE_ERROR = 2
"""Exit code of a command that cannot run: wrong options, missing files, unreadable input."""

INTERRUPTED = 130
"""Exit code after Ctrl-C."""

UNLIMITED = 100_000
"""The width of the output without a terminal."""

_is_json: ContextVar[bool] = ContextVar("_is_json", default=False)


def terminal_json(text: str) -> str:
    """Return the text of the same JSON; on a terminal, every control and invisible character is escaped in it."""
    if text.isprintable() or not sys.stdout.isatty():
        return text
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def is_json() -> bool:
    """Return whether the command was called with `--json`."""
    return _is_json.get()


def plain(content: RenderableType, keep: str = "") -> RenderableType:
    """Return a text with its control characters escaped, and not read as markup; return other content unchanged."""
    return Text(printable(content, keep=keep)) if isinstance(content, str) else content


def print_text(text: str, style: str | None = None, console: Console | None = None) -> None:
    """Print text without markup or line breaks of our own; by default to the standard output, unless that is JSON."""
    if console is None and is_json():
        return
    text = printable(text, keep="\n\t")
    (console or Console()).print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def plain_table(*columns: str | Column, rows: Iterable[Iterable[RenderableType]] = ()) -> Table:
    """Return a table without borders, whose first column does not wrap; without columns, one of names and values."""
    given = columns or ("", "")
    has_header = any(each.header if isinstance(each, Column) else each for each in given)
    table = Table(*given, box=None, pad_edge=False, show_header=has_header, padding=(0, 2, 0, 0), header_style="dim")
    table.columns[0].no_wrap = True
    for column in table.columns:
        column.overflow = "fold"
    for row in rows:
        table.add_row(*map(plain, row))
    return table


def fixed(name: str, style: str = "") -> Column:
    """Return a column whose cells do not wrap."""
    return Column(name, no_wrap=True, style=style)


def figures(name: str) -> Column:
    """Return a column of numbers."""
    return Column(name, no_wrap=True, justify="right")


def heading(title: str) -> Text:
    """Return the title of a section, with an empty line before it."""
    return Text(f"\n{title}", style="bold")


@dataclass(frozen=True, slots=True)
class _Indented:
    """Content moved two columns to the right; unlike `rich.padding`, it does not cut lines that must not wrap."""

    content: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Generator[Segment]:
        """Yield each line after two blanks."""
        narrowed = options.update(width=max(1, options.max_width - 2))
        for line in Segment.split_lines(console.render(self.content, narrowed)):
            yield Segment("  ")
            yield from line
            yield Segment.line()


def indented(content: RenderableType) -> RenderableType:
    """Return content moved two columns to the right."""
    return _Indented(plain(content, "\n"))


def print_blocks(blocks: Iterable[RenderableType]) -> None:
    """Print blocks to the standard output, unless that is JSON.

    Without a terminal, use no colours, no line breaks and no trailing blanks.

    Programs that read the output find each row on one line, unless `COLUMNS` is set.
    """
    if is_json():
        return
    replace_unencodable()
    console = Console(highlight=False)
    if console.is_terminal:
        for block in blocks:
            console.print(plain(block, "\n"), crop=False)
        return
    console.width = shutil.get_terminal_size((UNLIMITED, 0)).columns
    with console.capture() as captured:
        for block in blocks:
            console.print(plain(block, "\n"), crop=False)
    for line in captured.get().splitlines():
        sys.stdout.write(f"{line.rstrip()}\n")
    sys.stdout.flush()


def replace_unencodable() -> None:
    """Make the standard output escape characters that its encoding lacks, instead of raising."""
    output: object = sys.stdout
    if isinstance(output, TextIOWrapper):
        output.reconfigure(errors="backslashreplace")


@contextmanager
def json_output(*, enabled: bool) -> Generator[None]:
    """Choose for one command whether it prints only JSON on the standard output."""
    before = _is_json.set(enabled)
    try:
        yield
    finally:
        _is_json.reset(before)


def is_agenttool_error(error: Exception) -> bool:
    """Return whether an exception is of our tree, without importing it: `--help` must stay quick."""
    return any(each.__module__ == "agenttool.errors" for each in type(error).__mro__)


def print_exception(error: Exception) -> None:
    """Print an exception of our tree; its class is the code, such as `config_error`."""
    print_error(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).lower(), str(error))


def fail(message: str) -> NoReturn:
    """Print that the input of a command is unusable, and exit with `USAGE_ERROR`."""
    print_error("unusable", message)
    raise typer.Exit(USAGE_ERROR)


def print_error(code: str, message: str) -> None:
    """Print an error in red, or as `{"error": {…}}` where the command was called with `--json`."""
    if is_json() and cast("object", sys.stdout) is not None:
        error = {"error": {"error_code": code, "message": message}}
        typer.echo(terminal_json(json.dumps(error, ensure_ascii=False)))
        return
    with ignoring_write_errors():
        hint(message, "red")


def warn(message: str) -> None:
    """Print a warning to the standard error."""
    hint(f"warning: {message}", "yellow")


def hint(message: str, style: str | None = "dim") -> None:
    """Print what the user can do next, or what happens, to the standard error."""
    print_text(message, style, Console(stderr=True))


def done(message: str) -> None:
    """Print what a command has changed."""
    print_text(message, "green")


def discard_output(stream: TextIO | None = None) -> None:
    """Redirect a stream that cannot be written to the null device; otherwise Python retries at exit and complains."""
    with suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, (stream or sys.stdout).fileno())
        os.close(null)


@contextmanager
def ignoring_write_errors() -> Generator[None]:
    """Ignore that the standard error cannot be written; the exit code still reports the failure."""
    try:
        yield
    except OSError:
        discard_output(sys.stderr)
