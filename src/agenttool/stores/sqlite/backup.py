"""Copy the file while processes write to it."""

import os
import re
import secrets
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from agenttool.config.program import program_name
from agenttool.errors import StoreError
from agenttool.ports.facts import Step
from agenttool.stores.sqlite.connect import UNREADABLE, open_connection, open_read_only, sync_folder
from agenttool.stores.sqlite.fact_rows import register_functions
from agenttool.stores.sqlite.verify import verify

STALE_COPY_S = 24 * 3600
"""After so long without a write, an unfinished copy is deleted."""

_UNFINISHED = re.compile(r".+\.[0-9a-f]{8}\.unfinished(-journal)?")


def copy_store(
    source: Path, target: Path, steps: Mapping[str, Step], *, beforehand: Callable[[], None] | None = None
) -> None:
    """Copy the file as it is at one moment. The target appears complete, verified and on disk, or not at all.

    It contains what the source contains, raw inputs of open calls included, and only its owner can read it. So are
    unfinished copies of processes that died; the next copy to the same folder deletes them.

    Args:
        source: the file.
        target: where the copy shall be.
        steps: every step by its name, to verify the copy.
        beforehand: called once the copy is verified and before it appears, so that the payloads it refers to are there.

    Raises:
        StoreError: the target exists, the file has a flaw, or a disk failed.
    """
    if target.exists():
        raise StoreError(f"{str(target)!r} is there already; give the copy another name")
    unfinished = target.parent / f"{target.name}.{secrets.token_hex(4)}.unfinished"
    try:
        _sweep(target.parent, time.time() - STALE_COPY_S)
        os.close(os.open(unfinished, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o600))
        with closing(open_read_only(source)) as reader, closing(open_connection(unfinished)) as writer:
            # In one step: a copy in several steps restarts at every write.
            reader.backup(writer)
            _refuse_flawed(writer, steps)
        if beforehand is not None:
            beforehand()
        os.link(unfinished, target)
        sync_folder(target)
    except (OSError, StoreError, *UNREADABLE) as error:
        raise StoreError(f"cannot copy {str(source)!r} to {str(target)!r}: {error}; nothing was left there") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _refuse_flawed(copy: sqlite3.Connection, steps: Mapping[str, Step]) -> None:
    """Reject a copy with a flaw, which the source has as well.

    Raises:
        StoreError: the first flaw.
    """
    register_functions(copy)
    for flaw in verify(copy, steps):
        where = f"{flaw.what} at position {flaw.position}"
        raise StoreError(
            f"it has a flaw ({where}: {flaw.found}); `{program_name()} verify` prints all, then restore a backup"
        )


def _sweep(folder: Path, before_s: float) -> None:
    for each in folder.glob("*.unfinished*"):
        if _UNFINISHED.fullmatch(each.name) and each.lstat().st_mtime < before_s:
            each.unlink(missing_ok=True)
