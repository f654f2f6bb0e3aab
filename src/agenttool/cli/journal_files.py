"""`agenttool export`, `backup`, `retain` and `store upgrade`: commands about the files of a store as a whole."""

import asyncio
import os
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, BinaryIO, cast

import typer

from agenttool.cli.format import print_json
from agenttool.cli.options import (
    StoreOptions,
    open_existing_store,
    option,
    output_file,
    required,
)
from agenttool.cli.output import print_text, terminal_json
from agenttool.codec import to_json, write
from agenttool.errors import ConfigError, StoreError
from agenttool.history.recorded_call import walk_journal
from agenttool.journal.projection import events_of, invocation_of, records_of
from agenttool.journal.steps import STEPS
from agenttool.ports.stores import DurableLog
from agenttool.records import JsonObject, Record
from agenttool.stores.location import payload_folder
from agenttool.stores.payloads import copy_folder
from agenttool.stores.sqlite.reader import SqliteReader
from agenttool.stores.sqlite.schema import upgrade_store

DAY_NS = 24 * 3600 * 10**9


def export(
    *,
    out: Path | None = option("--out FILE", "File to write; default: standard output"),
    options: StoreOptions,
) -> None:
    """Write every record of the journal as JSON Lines.

    It writes the state of one moment: events, surfaces, calls, and the records of each call. Memory use does not
    grow with the journal. The journal has no tool declarations. Check the output with `agenttool validate`.
    """
    out = output_file(out)
    with options.open_journal() as reader, reader.at_one_moment():
        if out is None and cast("object", sys.stdout) is None:
            raise StoreError("the standard output is closed; leave it open, or name a file with --out")
        if out is None:
            _write_records(reader, cast("BinaryIO", sys.stdout.buffer))
        else:
            _write_file(reader, out)


def journal_records(reader: SqliteReader) -> Iterator[Record]:
    """Yield every record; all records of a call follow the event of its first fact."""
    for position, fact, call in walk_journal(reader):
        yield from events_of(fact, position=position)
        if (invocation := invocation_of(call)) is not None:
            yield invocation
        yield from records_of((fact,) if fact.invocation_id is None else call)


def _write_records(reader: SqliteReader, target: BinaryIO) -> None:
    is_terminal = target.isatty()
    lines = map(write, journal_records(reader))
    target.writelines((terminal_json(line.decode()).encode() if is_terminal else line) + b"\n" for line in lines)
    target.flush()


def _write_file(reader: SqliteReader, out: Path) -> None:
    """Write a file that appears complete or not at all, readable by its owner only."""
    unfinished = out.with_name(f"{out.name}.{secrets.token_hex(4)}.unfinished")
    try:
        with os.fdopen(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as target:
            _write_records(reader, target)
        unfinished.replace(out)
    except OSError as error:
        raise StoreError(f"cannot write {str(out)!r}: {error.strerror}; no file was written") from error
    finally:
        unfinished.unlink(missing_ok=True)


def backup(
    target: Annotated[Path, required("TARGET", "A file that does not exist yet")],
    *,
    options: StoreOptions,
) -> None:
    """Copy the journal while other processes write to it.

    The copy is verified, and appears complete or not at all. It holds the raw inputs
    of open calls, and only its owner can read it. Payloads in a folder are copied to
    a folder beside the copy; copy an object store with its own tools.

    Each tenant of a server has a file of its own. The files of all tenants are copied
    with that of the default tenant: agenttool.acme.db to TARGET with .acme in its
    name. To copy that of one tenant alone, name it with --store.
    """
    from agenttool.server.tenants import other_stores, tenant_store  # noqa: PLC0415 -- it is slow to load

    copies: dict[str, JsonObject] = {}
    with options.open_journal() as reader, ExitStack() as unless_complete:
        copy = _copied(reader, Path(options.payload_location(reader.path)), target)
        unless_complete.callback(target.unlink)
        for tenant, file in other_stores(reader).items():
            place = tenant_store(target, tenant)
            with SqliteReader.open(file, steps=STEPS) as other:
                copies[tenant] = _copied(other, payload_folder(file), place)
            unless_complete.callback(place.unlink)
        unless_complete.pop_all()
    print_json({**copy, "tenants": {**copies}})
    for tenant, each in (("", copy), *copies.items()):
        print_text(_copy_line(each, tenant))


def _copied(reader: SqliteReader, folder: Path, target: Path) -> JsonObject:
    """Copy a journal and its payloads, and return what was copied."""
    stored = 0

    def copy_payloads() -> None:
        nonlocal stored
        stored = copy_folder(folder, target.with_name(f"{target.name}-payloads")) if folder.is_dir() else 0

    reader.backup(target, beforehand=copy_payloads)
    with SqliteReader.open(target, steps=STEPS) as copy:
        head = to_json(copy.head())
    size = target.stat().st_size
    return {"source": str(reader.path), "target": str(target), "bytes": size, "payloads": stored, "head": head}


def _copy_line(copy: JsonObject, tenant: str) -> str:
    source = f"{copy['source']} of the tenant {tenant}" if tenant else copy["source"]
    size = f"{copy['bytes']:,} bytes" + (f", {copy['payloads']:,} payloads" if copy["payloads"] else "")
    return f"copied {source} to {copy['target']}: {size}, up to position {cast('JsonObject', copy['head'])['position']}"


def retain(
    *,
    payloads: float | None = option("--payloads DAYS", "Delete older payloads", low=0),
    journal: float | None = option("--journal DAYS", "Delete older facts", low=0),
    options: StoreOptions,
) -> None:
    """Delete payloads and facts that are older than a number of days.

    The defaults are `payload_days` and `journal_days` in [store] of agenttool.toml.
    Without an option and a default, nothing is deleted. A result whose payload was
    deleted still has its size and digest. Facts are deleted from the oldest on, up
    to the first fact of an open call; `agenttool verify` starts after them. Then the
    file shrinks, while other processes use it.
    """
    setting = options.setting
    if setting is not None:
        payloads = setting.payload_days if payloads is None else payloads
        journal = setting.journal_days if journal is None else journal
    if payloads is None and journal is None:
        raise ConfigError("no retention is given; use --payloads DAYS, --journal DAYS, or both")
    deleted, anchor = asyncio.run(_delete_expired(options, payloads, journal))
    print_json({"payloads": deleted, "facts_up_to": anchor})
    facts = f"facts up to position {anchor} are deleted" if anchor else "no facts are deleted"
    print_text(f"deleted {deleted:,} {'payload' if deleted == 1 else 'payloads'}; {facts}")


async def _delete_expired(
    options: StoreOptions, payload_days: float | None, journal_days: float | None
) -> tuple[int, int]:
    """Return how many payloads were deleted, and the position up to which facts are deleted."""
    now_ns, deleted, position = time.time_ns(), 0, 0
    async with open_existing_store(options) as parts:
        log: DurableLog = parts.log  # pyright: ignore[reportAssignmentType] -- the log of a file is durable
        if payload_days is not None:
            deleted = await parts.payloads.expire(now_ns - round(payload_days * DAY_NS))
        if journal_days is not None:
            position = (await log.delete_before(now_ns - round(journal_days * DAY_NS))).position
    return deleted, position


store_app = typer.Typer(add_completion=False)


@store_app.callback()
def store() -> None:
    """Upgrade a store of an older version; each command takes --json."""


@store_app.command()
def upgrade(*, options: StoreOptions) -> None:
    """Give a store that an older version wrote the tables of this version.

    Commands that write do so by themselves for files below 1 GB. Stop the processes
    that use the store, and run `agenttool backup` with the older version first: the
    older version cannot use the file afterwards. The files of all tenants are
    upgraded with that of the default tenant.
    """
    from agenttool.server.tenants import other_stores  # noqa: PLC0415 -- it is slow to load

    file = options.for_use().existing_file()
    _upgrade(file)
    with SqliteReader.open(file, steps=STEPS) as reader:
        tenants = other_stores(reader)
    for each in tenants.values():
        _upgrade(each)


def _upgrade(file: Path) -> None:
    before, after = upgrade_store(file)
    if not before:
        raise ConfigError(f"{str(file)!r} holds no journal yet; name another file with --store")
    print_json({"file": str(file), "schema_before": before, "schema": after})
    if before == after:
        print_text(f"{file} has schema {after} already")
    else:
        print_text(f"upgraded {file} from schema {before} to {after}")
