"""`agenttool verify`: whether the journal is what was written."""

import re
import sys
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from agenttool.cli.findings import printable
from agenttool.cli.journal.inspect import Inspector
from agenttool.cli.journal.opening import StoreOption, opened
from agenttool.cli.journal.paper import draw
from agenttool.cli.journal.payloads import PayloadWalk, payloads_of
from agenttool.cli.journal.words import plain_table
from agenttool.cli.progress import CountBar
from agenttool.cli.refusing import refuse
from agenttool.codec import json_bytes, read, to_json
from agenttool.errors import ConfigError, RecordError
from agenttool.ports.stores import Flaw, Head
from agenttool.records import JsonObject

app = typer.Typer(add_completion=False)

FOUND = 1
INTERRUPTED = 130
SHOWN = 100

_HEAD = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")
_HASH = re.compile(r"(?<![0-9a-f])([0-9a-f]{12})[0-9a-f]{52}(?![0-9a-f])")


class Chained(NamedTuple):
    """Where the chain begins and ends, and where it should have been at least."""

    anchor: Head
    head: Head
    pinned: Head | None


@app.command()
def verify(
    *,
    pin: Annotated[Path | None, typer.Option(metavar="FILE", help="A head that --write-head wrote before")] = None,
    head: Annotated[str | None, typer.Option(metavar="POSITION:HASH", help="A head from before")] = None,
    write_head: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the head here if all is well")] = None,
    payloads: Annotated[
        str | None, typer.Option(metavar="PLACE", help="The folder or URL of stored bytes, if not beside the journal")
    ] = None,
    store: StoreOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON Lines: flaws, then a summary")] = False,
) -> None:
    """Check that nothing in the journal was changed, and that every call's story is possible

    Each fact is chained to the one before; status follows status; every call that
    ended has one result; what was allowed is what was asked about; stored bytes are
    the ones that were stored, as far as they are still there.
    Keep a head where nobody who can write the journal reaches it: without one,
    nobody can tell that somebody who knows how made the chain anew.

    Exits with 0 if nothing was found, 1 if something was, 2 if the journal could
    not be read.
    """  # noqa: D415 -- as in the table of commands
    pinned = _pinned(pin, head)
    with opened(store) as reader, reader.at_one_moment():
        with CountBar(reader.count()[0]) as bar, PayloadWalk(payloads_of(store, reader.path, payloads)) as stored:
            inspector = Inspector(reader, stored, bar.advance)
            found = chain(reader.verify(pinned, inspector.look), inspector.look_at_open(reader.head().position))
            flaws, total = _walk(found, as_json=as_json)
        chained = Chained(reader.anchor(), reader.head(), pinned)
        _conclude(chained, inspector, flaws, total, as_json=as_json)
        if write_head is not None and not total:
            _keep(reader.head(), write_head)
    if total:
        raise typer.Exit(FOUND)


def _walk(found: Iterable[Flaw], *, as_json: bool) -> tuple[list[Flaw], int]:
    """Go through all flaws; give those that a person is shown, and how many there are."""
    shown: list[Flaw] = []
    total = 0
    try:
        for total, flaw in enumerate(found, 1):  # noqa: B007 -- the last number is how many there were
            if as_json:
                _print({"type": "flaw", **to_json(flaw)})
            elif len(shown) < SHOWN:
                shown.append(flaw)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    return shown, total


def _conclude(chained: Chained, inspector: Inspector, flaws: list[Flaw], total: int, *, as_json: bool) -> None:
    """Tell what was found and what was looked at."""
    anchor, head, pinned = chained
    if as_json:
        figures: JsonObject = {
            "facts": inspector.facts,
            "calls": inspector.calls,
            "ended": inspector.ended,
            "digests": inspector.digests,
            "sealed": inspector.sealed,
            "payloads": inspector.payloads.checked,
            "gone": inspector.payloads.gone,
        }
        pin = None if pinned is None else to_json(pinned)
        ends: JsonObject = {"anchor": to_json(anchor), "head": to_json(head), "pinned": pin}
        _print({"type": "summary", **figures, "flaws": total, **ends})
        return
    if flaws:
        more = total - len(flaws)
        draw([_flaw_table(flaws), *([f"… and {more:,} more; --json shows all of them"] if more else []), ""])
    stored = inspector.payloads
    sealed = f", {inspector.sealed:,} sealed: their tools have sensitive fields" if inspector.sealed else ""
    pin = "none given: a chain that was made anew does not show" if pinned is None else f"at {pinned.position:,}"
    table = plain_table()
    table.columns[0].min_width = len("payloads")
    older = f", from {anchor.position + 1:,} on: older ones were let go" if anchor.position else ""
    table.add_row("facts", f"{inspector.facts:,}{older}")
    table.add_row("calls", f"{inspector.calls:,}, of which {inspector.ended:,} ended")
    table.add_row("digests", f"{inspector.digests:,} checked{sealed}")
    if stored.checked or stored.gone:
        gone = f", {stored.gone:,} gone: expired, deleted, or kept elsewhere" if stored.gone else ""
        table.add_row("payloads", f"{stored.checked:,} checked{gone}")
    table.add_row("pin", pin)
    table.add_row("flaws", Text(f"{total:,}", style="bold red" if total else "bold green"))
    # On a line of its own, whatever the width: it is there to be copied.
    draw([table, Group(Text(f"head      {head.position}:{head.hash}", no_wrap=True, overflow="ignore"))])


def _flaw_table(flaws: list[Flaw]) -> Table:
    table = plain_table("position", "what", "expected", "found", header=True)
    table.columns[0].justify = "right"
    table.columns[1].no_wrap = True
    for flaw in flaws:
        cells = (Text(_short(flaw.expected)), Text(_short(flaw.found), style="red"))
        table.add_row(str(flaw.position), Text(flaw.what, style="cyan"), *cells)
    return table


def _short(text: str) -> str:
    return _HASH.sub(r"\1…", printable(text))


def _print(value: JsonObject) -> None:
    sys.stdout.write(json_bytes(value).decode() + "\n")


def _pinned(pin: Path | None, head: str | None) -> Head | None:
    """Take the head that was given in either way."""
    if pin is not None and head is not None:
        refuse(ConfigError(f"two heads are named, {str(pin)!r} and {head!r}; name one of them"))
    if head is not None:
        match = _HEAD.fullmatch(head)
        if match is None:
            refuse(ConfigError(f"a head is written POSITION:HASH, got {head!r}; take it from an earlier verify"))
        return Head(position=int(match[1]), hash=match[2])
    if pin is None:
        return None
    try:
        return read(pin.read_bytes(), Head)
    except OSError as error:
        refuse(ConfigError(f"cannot read the pin {str(pin)!r}: {error.strerror}; name another file"))
    except RecordError as error:
        refuse(ConfigError(f"{str(pin)!r} holds no head: {error}; write one with --write-head"))


def _keep(head: Head, path: Path) -> None:
    try:
        path.write_bytes(json_bytes(to_json(head)) + b"\n")
    except OSError as error:
        refuse(ConfigError(f"cannot write the head to {str(path)!r}: {error.strerror}; name another file"))
    Console(stderr=True, highlight=False).print(f"wrote the head to {path}", markup=False, style="dim", soft_wrap=True)
