"""A copy of the file, made while others write to it."""

import os
import re
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from sqlite3 import Error

from agenttool.errors import StoreError
from agenttool.stores.sqlite.connect import connect, connect_to_look, sync_folder

LEFT_S = 24 * 3600
"""After so long without a byte, an unfinished copy is one that nobody will finish."""

_UNFINISHED = re.compile(r".+\.[0-9a-f]{8}\.unfinished(-journal)?")


def copy(source: Path, target: Path, *, beforehand: Callable[[], None] | None = None) -> None:
    """Copy the file as it was at one moment. The target appears whole and on disk, or not at all.

    It holds what the source holds, raw inputs of calls under way included, and is for its owner's eyes only. So are
    those that were never finished, because a process died over them; the next copy that is made there takes them away.

    Args:
        source: the file.
        target: where the copy shall be.
        beforehand: called once the copy is made, and before it appears: whatever the copy speaks of is there by then.

    Raises:
        StoreError: the target is there already, or a disk failed.
    """
    unfinished = target.parent / f"{target.name}.{secrets.token_hex(4)}.unfinished"
    try:
        if target.exists():
            raise StoreError(f"{str(target)!r} is there already; give the copy another name")
        _sweep(target.parent, time.time() - LEFT_S)
        os.close(os.open(unfinished, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o600))
        reader, writer = connect_to_look(source), connect(unfinished)
        try:
            # One step: a copy in several begins anew whenever somebody writes.
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
