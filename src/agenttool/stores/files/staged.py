"""What is left in a folder of payloads by a process that died while it wrote one.

The library writes a file beside its name first, as `NAME#1`, and lists none of these: to it they are not there.
"""

from collections.abc import Iterator
from pathlib import Path


def sweep_staged(folder: Path, before_s: float) -> int:
    """Take away what was on its way and has not been written to since a moment; tell how much there was.

    Every byte that comes makes such a file young again, so that a process that lives keeps its own. Should one have
    been silent for so long, it is told that its bytes could not be kept; nothing is lost that was acknowledged.

    Raises:
        OSError: the disk failed.
    """
    return sum(_take_away(each, before_s) for each in _staged(folder))


def _staged(folder: Path) -> Iterator[Path]:
    for pattern in ("incoming/*#*", "sha256/*/*#*"):
        yield from (each for each in folder.glob(pattern) if each.name.rpartition("#")[2].isdecimal())


def _take_away(file: Path, before_s: float) -> bool:
    try:
        is_unowned = file.lstat().st_mtime < before_s
        if is_unowned:
            file.unlink()
    except FileNotFoundError:  # it has its name by now, or somebody else swept
        return False
    return is_unowned
