"""Delete the staged files of processes that died while they wrote a payload.

The library writes a staged file `NAME#1` first and then renames it. Its listing omits staged files.
"""

from collections.abc import Iterator
from pathlib import Path


def sweep_staged(folder: Path, before_s: float) -> int:
    """Delete staged files that were not written to since a time; return how many.

    Every write updates the time of its file, so the files of a running process stay. If a process paused for longer,
    its `put` fails; no acknowledged payload is lost.

    Raises:
        OSError: the disk failed.
    """
    return sum(_delete_if_old(each, before_s) for each in _staged(folder))


def _staged(folder: Path) -> Iterator[Path]:
    for pattern in ("incoming/*#*", "sha256/*/*#*"):
        yield from (each for each in folder.glob(pattern) if each.name.rpartition("#")[2].isdecimal())


def _delete_if_old(file: Path, before_s: float) -> bool:
    try:
        is_old = file.lstat().st_mtime < before_s
        if is_old:
            file.unlink()
    except FileNotFoundError:  # it was renamed, or another process deleted it
        return False
    return is_old
