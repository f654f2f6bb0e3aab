"""`agenttool export`: every record of the journal, a line each."""

import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO, cast

import typer

from agenttool.cli.journal.opening import StoreOption, opened
from agenttool.cli.refusing import refuse
from agenttool.codec import write
from agenttool.errors import StoreError
from agenttool.journal.fold import events_of, invocation_of, records_of
from agenttool.records import Record
from agenttool.stores.sqlite.reader import SqliteReader

app = typer.Typer(add_completion=False)


@app.command()
def export(
    *,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to; the standard output if left out")] = None,
    store: StoreOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="As it is anyway: JSON Lines and nothing else")] = False,
) -> None:
    """Write every record of the journal as JSON Lines, as it is at one moment

    Events, surfaces, calls and all that became of them, in memory that does not
    grow with the journal. Check them with `agenttool validate`. Declarations are
    not in the journal.
    """  # noqa: D415 -- as in the table of commands
    with opened(store) as reader, reader.at_one_moment():
        if out is None and cast("object", sys.stdout) is None:
            refuse(StoreError("the standard output is closed; leave it open, or name a file with --out"))
        elif out is None:
            _write(reader, cast("BinaryIO", sys.stdout.buffer))
        else:
            _write_file(reader, out)


def records_in(reader: SqliteReader) -> Iterator[Record]:
    """Give every record; a call is told whole where the first of its facts stands."""
    after = 0
    while facts := reader.read(after):
        for position, fact in facts:
            yield from events_of(fact, position=position)
            call = fact.invocation_id
            if call is None:
                yield from records_of((fact,))
            # What came first of a call may be gone with retention; then its first fact is the first that is left.
            elif fact.sequence == 0 or reader.begins(call, position):
                whole = [each for _, each in reader.facts_of(call)]
                invocation = invocation_of(whole)
                if invocation is not None:
                    yield invocation
                yield from records_of(whole)
        after = facts[-1][0]


def _write(reader: SqliteReader, target: BinaryIO) -> None:
    target.writelines(write(record) + b"\n" for record in records_in(reader))
    target.flush()


def _write_file(reader: SqliteReader, out: Path) -> None:
    """Write a file that is there whole or not at all, for its owner's eyes only."""
    unfinished = out.with_name(f"{out.name}.{secrets.token_hex(4)}.unfinished")
    try:
        with os.fdopen(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as target:
            _write(reader, target)
        unfinished.replace(out)
    except OSError as error:
        refuse(StoreError(f"cannot write {str(out)!r}: {error.strerror}; nothing was left there"))
    finally:
        unfinished.unlink(missing_ok=True)
