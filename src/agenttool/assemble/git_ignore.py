"""Which files of a runtime `git add` may add: those that exist, unless a `.gitignore` certainly ignores them."""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

MAX_FILES = 100
"""How many files of a pattern are checked; if there are more, git may add one."""


def addable_to_git(patterns: Iterable[str]) -> tuple[str, ...]:
    """Return those of some absolute path patterns that match a file that git may add."""
    return tuple(each for each in patterns if _has_addable(each))


def _has_addable(pattern: str) -> bool:
    found = Path("/").glob(pattern.lstrip("/").replace("[", "[[]"))
    files = list(islice(found, MAX_FILES + 1))
    return len(files) > MAX_FILES or not all(map(is_ignored, files))


def is_ignored(file: Path) -> bool:
    """Return whether git certainly ignores a file: a plain line names it or a folder of it, and no line excepts it."""
    is_covered = False
    for line, base in _ignore_lines(file):
        steps, name = file.relative_to(base).parts, line.strip("!/")
        if line.startswith("!"):
            last = name.rpartition("/")[2].casefold()
            if "\\" in line or any(fnmatchcase(each.casefold(), last) for each in steps):
                return False
        elif "/" not in name:
            # A line for folders does not ignore a file of that name.
            steps = steps[:-1] if line.endswith("/") and not file.is_dir() else steps
            is_covered |= any(fnmatchcase(each, name) for each in steps[: 1 if line.startswith("/") else None])
    return is_covered


def _ignore_lines(file: Path) -> Iterator[tuple[str, Path]]:
    """Yield the lines of the ignore files above a file, up to the folder of its repository, each with its folder."""
    for folder in file.parents:
        is_root = (folder / ".git").exists()
        for name in (".gitignore", *([".git/info/exclude"] if is_root else [])):
            try:
                text = (folder / name).read_text(encoding="utf-8")
            except (OSError, ValueError):
                continue
            yield from ((line.strip(), folder) for line in text.splitlines() if line.strip() and line[0] != "#")
        if is_root:
            return
