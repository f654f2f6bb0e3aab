"""Copy a folder of payloads while processes add to it."""

import os
import re
import shutil
from pathlib import Path

from agenttool.errors import StoreError

_NAME = re.compile(r"[0-9a-f]{62}")
"""The name of a complete payload; files that are still written have other names."""


def copy_folder(source: Path, target: Path) -> int:
    """Copy each payload that is not in the target yet, atomically and synced to disk; return how many.

    The bytes under a name never change, so a file that exists in the target is skipped.

    Raises:
        StoreError: a disk failed.
    """
    try:
        target.mkdir(mode=0o700, exist_ok=True)
        stored = (each for each in source.glob("sha256/*/*") if _NAME.fullmatch(each.name) and not each.is_symlink())
        return sum(_copy(each, target / each.relative_to(source)) for each in stored)
    except OSError as error:
        raise StoreError(f"cannot copy the payloads in {str(source)!r} to {str(target)!r}: {error}") from error


def _copy(source: Path, target: Path) -> bool:
    if target.exists():
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f"{target.name}.unfinished")
    try:
        shutil.copy2(source, unfinished)  # with its modification time, by which it expires
    except FileNotFoundError:  # retention deleted it meanwhile
        return False
    _sync(unfinished)
    unfinished.replace(target)
    _sync(target.parent)
    return True


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
