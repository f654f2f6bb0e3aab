"""A copy of a folder of payloads, made while others add to it."""

import os
import re
import shutil
from pathlib import Path

from agenttool.errors import StoreError

_NAME = re.compile(r"[0-9a-f]{62}")
"""What is on its way there has another name."""


def copy_folder(source: Path, target: Path) -> int:
    """Copy every payload that is not in the target yet, each whole and on disk or not at all; tell how many.

    Bytes never change under their name, so that a file which is there already need not be looked at.

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
        shutil.copy2(source, unfinished)  # with its age, by which it expires
    except FileNotFoundError:  # it has expired meanwhile
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
