"""Copy the file while processes write to it."""

import os
import re
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from sqlite3 import Error

from agenttool.errors import StoreError
from agenttool.stores.sqlite.connect import open_connection, open_read_only, sync_folder

STALE_COPY_S = 24 * 3600
"""After so long without a write, an unfinished copy is deleted."""

_UNFINISHED = re.compile(r".+\.[0-9a-f]{8}\.unfinished(-journal)?")


def copy_store(source: Path, target: Path, *, beforehand: Callable[[], None] | None = None) -> None:
    """Copy the file as it is at one moment. The target appears complete and on disk, or not at all.

    It contains what the source contains, raw inputs of open calls included, and only its owner can read it. So are
    unfinished copies of processes that died; the next copy to the same folder deletes them.

    Args:
        source: the file.
        target: where the copy shall be.
        beforehand: called once the copy is made and before it appears, so that the payloads it refers to are there.

    Raises:
        StoreError: the target exists, or a disk failed.
    """
    unfinished = target.parent / f"{target.name}.{secrets.token_hex(4)}.unfinished"
    try:
        if target.exists():
            raise StoreError(f"{str(target)!r} is there already; give the copy another name")
        _sweep(target.parent, time.time() - STALE_COPY_S)
        os.close(os.open(unfinished, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o600))
        reader, writer = open_read_only(source), open_connection(unfinished)
        try:
            # In one step: a copy in several steps restarts at every write.
            reader.backup(writer)
        finally:
            writer.close()
            reader.close()
        if beforehand is not None:
            beforehand()
        os.link(unfinished, target)
        sync_folder(target)
    except (OSError, Error) as error:
        raise StoreError(f"cannot copy {str(source)!r} to {str(target)!r}: {error}; nothing was left there") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _sweep(folder: Path, before_s: float) -> None:
    for each in folder.glob("*.unfinished*"):
        if _UNFINISHED.fullmatch(each.name) and each.lstat().st_mtime < before_s:
            each.unlink(missing_ok=True)
