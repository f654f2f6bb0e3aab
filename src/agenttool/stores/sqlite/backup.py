"""A copy of the file, made while others write to it."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from sqlite3 import Error

from agenttool.errors import StoreError
from agenttool.stores.sqlite.connect import connect, sync_folder


def copy(source: Path, target: Path, *, beforehand: Callable[[], None] | None = None) -> None:
    """Copy the file as it was at one moment. The target appears whole and on disk, or not at all.

    It holds what the source holds, raw inputs of calls under way included, and is for its owner's eyes only.

    Args:
        source: the file.
        target: where the copy shall be.
        beforehand: called once the copy is made, and before it appears: whatever the copy speaks of is there by then.

    Raises:
        StoreError: the target is there already, or a disk failed.
    """
    unfinished = target.with_name(f"{target.name}.{secrets.token_hex(4)}.unfinished")
    try:
        if target.exists():
            raise StoreError(f"{str(target)!r} is there already; give the copy another name")
        os.close(os.open(unfinished, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o600))
        reader, writer = connect(source), connect(unfinished)
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
