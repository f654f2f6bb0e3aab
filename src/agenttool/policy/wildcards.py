"""Wildcards: `*` is any run of characters, `?` is one, `**` is any run of steps; nothing else is special.

Brackets and braces are plain characters, because file names contain them. A word that a shell would expand is itself a
pattern, so rules also need to know whether two patterns can match the same text: see `patterns_overlap`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import translate
from functools import lru_cache
from typing import TypeVar

_T = TypeVar("_T")
_WILDCARDS = re.compile(r"[*?]")


class Depth(Enum):
    """The step `**`: any number of steps, also none."""

    ANY = "**"


@dataclass(frozen=True, slots=True)
class Wild:
    """A text with wildcards.

    Attributes:
        is_shell: whether a shell expands it; a wildcard at its beginning then matches no leading dot.
    """

    text: str
    is_shell: bool = False
    _regex: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile once; the translation is linear in time, whatever the text."""
        object.__setattr__(self, "_regex", re.compile(translate(self.text.replace("[", "[[]"))))

    def accepts(self, text: str) -> bool:
        """Return whether the whole of a plain text fits."""
        return self._regex.match(text) is not None


Step = str | Wild | Depth
"""One step of a path or name: plain text, a text with wildcards, or any depth."""


def has_wildcard(text: str) -> bool:
    """Return whether a text means more than itself."""
    return "*" in text or "?" in text


@lru_cache(maxsize=4096)
def _wild(pattern: str) -> Wild:
    return Wild(pattern)


def fits(pattern: str, text: str) -> bool:
    """Return whether the whole of a plain text fits a pattern of a rule; `*` reaches across anything here."""
    return _wild(pattern).accepts(text) if has_wildcard(pattern) else pattern == text


def step(text: str, *, is_shell: bool = False) -> Step:
    """Read one step of a pattern."""
    if text == "**":
        return Depth.ANY
    return Wild(text, is_shell) if has_wildcard(text) else text


def patterns_overlap(left: Sequence[Step], right: Sequence[Step]) -> bool:
    """Return whether two patterns have a path in common; a pattern without wildcards is one path."""
    # Most patterns begin with plain steps, and most paths differ in one of them.
    same = 0
    for mine, yours in zip(left, right, strict=False):
        if not isinstance(mine, str) or not isinstance(yours, str):
            break
        if mine != yours:
            return False
        same += 1
    rest = left[same:]
    return (len(rest) == 1 and rest[0] is Depth.ANY) or _share(rest, right[same:], Depth.ANY, alike)


def alike(mine: Step, yours: Step) -> bool:
    """Return whether two steps could be the same text."""
    for shell, other in ((mine, yours), (yours, mine)):
        if isinstance(shell, Wild) and shell.is_shell and shell.text[0] in "*?":
            text = other.text if isinstance(other, Wild) else str(other)
            if text.startswith("."):
                return False
    if isinstance(mine, Wild) and isinstance(yours, Wild):
        return _overlap(mine.text, yours.text)
    if isinstance(mine, Wild):
        return isinstance(yours, str) and mine.accepts(yours)
    if isinstance(yours, Wild):
        return isinstance(mine, str) and yours.accepts(mine)
    return mine == yours


@lru_cache(maxsize=8192)
def _overlap(mine: str, yours: str) -> bool:
    """Return whether two texts with wildcards share a text."""
    ends = [(_WILDCARDS.split(each)[0], _WILDCARDS.split(each)[-1]) for each in (mine, yours)]
    (my_start, my_end), (your_start, your_end) = ends
    starts_alike = my_start.startswith(your_start) or your_start.startswith(my_start)
    ends_alike = my_end.endswith(your_end) or your_end.endswith(my_end)
    return (
        starts_alike
        and ends_alike
        and _share(mine, yours, "*", lambda here, there: here == there or "?" in (here, there))
    )


def _share(left: Sequence[_T], right: Sequence[_T], run: _T, alike: Callable[[_T, _T], bool]) -> bool:
    """Walk two patterns side by side; where either has a run, it may swallow a step of the other or end."""
    end = (len(left), len(right))
    seen: set[tuple[int, int]] = set()
    todo = [(0, 0)]
    while todo:
        i, j = place = todo.pop()
        if place == end:
            return True
        if place in seen:
            continue
        seen.add(place)
        more_left, more_right = i < end[0], j < end[1]
        if (more_left and left[i] == run) or (more_right and right[j] == run):
            todo += [(i + 1, j)] * more_left + [(i, j + 1)] * more_right
        elif more_left and more_right and alike(left[i], right[j]):
            todo.append((i + 1, j + 1))
    return False
