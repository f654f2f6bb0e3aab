"""`agenttool validate`: records from anyone, read and judged, a finding at a time."""

import errno
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from typing import Annotated, Protocol, cast

import typer
from rich.console import Console

from agenttool.cli.dropping import drop_output
from agenttool.cli.findings import finding_block, summary_table
from agenttool.cli.progress import ByteBar
from agenttool.cli.refusing import refuse, speaking
from agenttool.conformance.validate.finding import Finding
from agenttool.conformance.validate.run import Validation
from agenttool.conformance.validate.summary import Summary, json_line
from agenttool.errors import StoreError

app = typer.Typer(add_completion=False)

FOUND = 1
INTERRUPTED = 130

_SIZE = re.compile(r"([0-9]{1,12}) ?(?:([KMG])i?)?B?", re.IGNORECASE)
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Voice(Protocol):
    """How findings and figures are told."""

    def tell(self, finding: Finding) -> None:
        """Tell one finding."""
        ...

    def close(self, summary: Summary) -> None:
        """Tell the figures."""
        ...


@app.command()
def validate(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="JSON or JSON Lines; - is standard input")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON Lines: findings, then a summary")] = False,
    allow_warnings: Annotated[
        bool, typer.Option("--allow-warnings", help="Exit with 0 if there are no errors")
    ] = False,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="Show at most N findings (without --json)")] = 100,
    max_record: Annotated[str, typer.Option(metavar="SIZE", help="Pass over larger documents")] = "64MiB",
) -> None:
    """Check records from anyone: their shape, and whether they make sense

    All files are one set: references may lead from one to another. A kind of
    reference is checked only if the set holds a record of the kind it leads to,
    so that a part of an export can be checked as well.

    Exits with 0 if nothing was found, 1 if something was, 2 if a file could not
    be read.
    """  # noqa: D415 -- as in the table of commands
    size = read_size(max_record)
    if cast("object", sys.stdout) is None:
        refuse("the standard output is closed; leave it open, or send it to a file")
    bar = ByteBar(total_size(files))
    voice: Voice = JsonVoice() if as_json else TextVoice(limit, bar)
    try:
        with bar, Validation(max_record=size, on_bytes=bar.advance) as validation:
            for finding in findings_of(validation, files):
                voice.tell(finding)
        voice.close(validation.summary)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except StoreError as fault:
        refuse(str(fault))
    except BrokenPipeError:
        raise  # whoever read has seen enough: typer ends the run without a word
    except OSError as fault:
        drop_output()
        with speaking(to_program=False):  # which reads no more
            refuse(f"the findings cannot be written: {fault.strerror}; make room, or send them elsewhere")
    summary = validation.summary
    if summary.errors or (summary.warnings and not allow_warnings):
        raise typer.Exit(FOUND)


def findings_of(validation: Validation, files: list[str]) -> Iterator[Finding]:
    """Read all files, then look at them together; a file that cannot be read stops the run."""
    for name in files:
        with ExitStack() as stack:
            try:
                stream = standard_input() if name == "-" else stack.enter_context(Path(name).open("rb"))
                yield from validation.read(name, stream)
            except OSError as fault:
                refuse(f"file cannot be read: {name!r}: {fault.strerror}; name one that can")
    yield from validation.conclude()


def standard_input() -> BufferedReader:
    """Give the bytes behind the standard input.

    Raises:
        OSError: it is closed.
    """
    if cast("object", sys.stdin) is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return cast("BufferedReader", sys.stdin.buffer)


class JsonVoice:
    """JSON Lines on the standard output, and nothing else."""

    def tell(self, finding: Finding) -> None:
        """Print one line."""
        sys.stdout.buffer.write(json_line(finding))

    def close(self, summary: Summary) -> None:
        """Print the last line."""
        sys.stdout.buffer.write(json_line(summary))
        sys.stdout.buffer.flush()


class TextVoice:
    """Blocks for people, up to a limit, then the figures."""

    def __init__(self, limit: int, bar: ByteBar) -> None:
        """Hide the bar while something is printed; spell out what the terminal has no letters for."""
        self._limit = limit
        self._bar = bar
        self._told = 0
        cast("TextIOWrapper", sys.stdout).reconfigure(errors="backslashreplace")
        self._console = Console(highlight=False)
        self._width = self._console.width if self._console.is_terminal else None

    def tell(self, finding: Finding) -> None:
        """Print one block, unless there were enough."""
        self._told += 1
        if self._told <= self._limit:
            self._bar.hide()
            self._console.print(finding_block(finding, self._width), soft_wrap=True)

    def close(self, summary: Summary) -> None:
        """Say how many were not shown, and print the table."""
        if self._told > self._limit:
            self._console.print(f"… and {self._told - self._limit:,} more; --limit shows more, --json all of them")
        if self._told:
            self._console.print()
        self._console.print(summary_table(summary))
        sys.stdout.flush()


def total_size(files: list[str]) -> int | None:
    """Add up the sizes of all files, if they are files; stop if one cannot be opened, before anything is read."""
    sizes = [size_of(name) for name in files if name != "-"]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(files) else None


def size_of(name: str) -> int | None:
    """Tell the size of a file without opening it: a pipe can be opened only once, and has none."""
    try:
        facts = Path(name).stat()
        if stat.S_ISDIR(facts.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not os.access(name, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except (OSError, ValueError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else fault
        refuse(f"file cannot be opened: {name!r}: {reason}; name one that can")
    return facts.st_size if stat.S_ISREG(facts.st_mode) else None


def read_size(text: str) -> int:
    """Read a size such as 64MiB, 500k or 1000, or stop."""
    match = _SIZE.fullmatch(text.strip())
    size = int(match[1]) * _UNITS.get((match[2] or "").upper(), 1) if match else 0
    if not size:
        refuse(f"--max-record must be a size, got {text!r}; write it like 64MiB, 500KiB or 1000")
    return size
