"""Paths: where a text leads, however it is spelled, and whether that falls under a pattern.

One text can be read in several ways: by a tool that decodes `%2e`, by one that takes a backslash for a slash, by a file
system that folds case. A deny or an ask holds if *any* reading falls under it; an allow holds only if *every* reading
does, both where it is written and where its symbolic links lead. What cannot be read at all counts as everywhere: it
is caught by every deny and ask on paths, and covered by no allow.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from urllib.parse import unquote

from agenttool.policy.wildcards import Depth, Step, Wild, has_wildcard, meets, step

MAX_PATH = 8192
"""A longer text is no path that a system would take."""

_MAX_DECODINGS = 3
_UNREADABLE = re.compile(r"\0|^[A-Za-z]:[/\\]|(?:^|[/\\])\.{1,2} +(?:[/\\]|$)")
_FILE_URL = re.compile(r"^file:(?://(?:localhost)?(?=/))?", re.IGNORECASE)

Steps = tuple[Step, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Workspace:
    """Where relative paths begin, and how the world resolves a path.

    Attributes:
        roots: absolute directories; a relative path begins at the first, a relative pattern at each of them.
        here: the folder that the process is in, where a tool that knows of no workspace begins a relative path.
        home: what `~` stands for; without it a path that begins so is unreadable.
        resolve: gives the place that a path leads to once symbolic links are followed, as `os.path.realpath` does for
            paths that need not exist. Without it no link can be seen, so no allow covers any path.
        ignore_case: whether names that differ only in case are the same file. Deny and ask always assume so.
    """

    roots: tuple[str, ...] = ()
    here: str | None = None
    home: str | None = None
    resolve: Callable[[str], str] | None = None
    ignore_case: bool = False

    @cached_property
    def bases(self) -> tuple[Steps, ...]:
        """The roots as written, and where they really are."""
        reals = (self.real(root) for root in self.roots)
        return tuple(dict.fromkeys(split(each) for each in (*self.roots, *reals) if each is not None))

    @cached_property
    def starts(self) -> tuple[str, ...]:
        """Where a relative path may begin; if that is not one place, each is another reading of it."""
        return tuple(dict.fromkeys((*self.roots[:1], *(() if self.here is None else (self.here,)))))

    def real(self, absolute: str) -> str | None:
        """Follow the links of an absolute path; nothing where that cannot be known."""
        if self.resolve is None:
            return None
        try:
            return self.resolve(absolute)
        except (OSError, ValueError):
            return None


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a text leads.

    Attributes:
        text: the first reading as an absolute path, for people; the text itself where it has none.
        ways: every reading, as written and once links are followed; none means that nobody can say.
        is_followed: whether links could be followed, without which no allow is sure.
    """

    text: str
    ways: tuple[Steps, ...] = ()
    is_followed: bool = False

    @property
    def is_one(self) -> bool:
        """Tell whether it is one place, and not every place that a shell may fill in for a wildcard."""
        return all(isinstance(each, str) for way in self.ways for each in way)

    @cached_property
    def loose_ways(self) -> tuple[Steps, ...]:
        """The ways as a deny compares them."""
        return tuple(_loose(way) for way in self.ways)


def place_of(text: str, workspace: Workspace) -> Place:
    """Read a path of an argument, in every way that the tool might."""
    readings = [
        _absolute(reading, base, workspace.home) for base in workspace.starts or (None,) for reading in _readings(text)
    ]
    return _place(text, readings, workspace, _ways)


def word_place(text: str, workspace: Workspace, *, base: str | None, expands: bool) -> Place:
    """Read a path that a shell has read already, so that nothing in it is encoded any more.

    A name that the shell fills in for a wildcard is not followed through links; what stands before it is.
    """
    return _place(text, [_absolute(text, base, workspace.home)], workspace, _expanded_ways if expands else _ways)


def _place(
    text: str, readings: list[str | None], workspace: Workspace, find: Callable[[str, Workspace], tuple[Steps, ...]]
) -> Place:
    ways: dict[Steps, None] = {}
    for absolute in readings:
        found = () if absolute is None else find(absolute, workspace)
        if not found:
            return Place(text=text)
        ways.update(dict.fromkeys(found))
    shown = "/" + "/".join(split(readings[0])) if readings and readings[0] else text
    return Place(text=shown, ways=tuple(ways), is_followed=workspace.resolve is not None)


def _ways(absolute: str, workspace: Workspace) -> tuple[Steps, ...]:
    """Give a reading as written, and where it leads; nothing if the world cannot say."""
    if workspace.resolve is None:
        return (split(absolute),)
    real = workspace.real(absolute)
    return () if real is None else (split(absolute), split(real))


def _expanded_ways(absolute: str, workspace: Workspace) -> tuple[Steps, ...]:
    names = split(absolute)
    steps: Steps = tuple(Wild(name) if has_wildcard(name) else name for name in names)
    return (steps, *_linked(steps, workspace))


def _readings(text: str) -> tuple[str, ...]:
    """Give what different tools would take a text for; nothing if it cannot be told."""
    found = {text: None}
    todo = [text]
    while todo:
        reading = todo.pop()
        if not reading or len(reading) > MAX_PATH or _UNREADABLE.search(reading):
            return ()
        for other in (_decoded(reading), reading.replace("\\", "/"), _folded(reading), _FILE_URL.sub("", reading, 1)):
            if other is None:
                return ()
            if other not in found:
                found[other] = None
                todo.append(other)
    return tuple(found)


def _decoded(text: str) -> str | None:
    """Undo percent-encoding, however often it was applied; nothing if that is no text or never ends."""
    for _ in range(_MAX_DECODINGS):
        once = unquote(text, errors="replace") if "%" in text else text
        if once == text:
            return text
        if "\ufffd" in once:
            return None
        text = once
    return None


def _folded(text: str) -> str:
    """Turn look-alikes such as a full-width slash into what they look like."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def _absolute(text: str, base: str | None, home: str | None) -> str | None:
    if text.startswith("~"):
        # `~someone` is a home nobody told us about.
        return home + text[1:] if home is not None and text[1:2] in ("", "/") else None
    if text.startswith("/"):
        return text
    return None if base is None else f"{base}/{text}"


def split(absolute: str) -> tuple[str, ...]:
    """Take a path apart as it is written: `..` drops a step, and nothing is above the root."""
    found: list[str] = []
    for name in absolute.split("/"):
        if name == "..":
            del found[-1:]
        elif name not in ("", "."):
            found.append(name)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A pattern of a rule: `src/**`, `/etc/hosts`, `~/.ssh`; a relative one is below each root of the workspace."""

    text: str

    def hits(self, place: Place, workspace: Workspace) -> bool:
        """Tell whether a deny or an ask must assume that a path falls under this, or under a directory that does."""
        if not place.ways:
            return True
        patterns = _anchored(self.text, workspace, loose=True)
        return any(meets(pattern, way) for way in place.loose_ways for pattern in patterns)


def all_covered(patterns: Iterable[PathPattern], place: Place, workspace: Workspace) -> bool:
    """Tell whether an allow may be sure of a path: each of its readings, and where each leads, is under a pattern.

    A pattern without wildcards reaches everything below it. Unlike for a deny, the links of a pattern itself are not
    followed, or whoever can replace a directory by a link could move the rule.
    """
    if not place.ways or not place.is_followed or not place.is_one:
        return False
    anchored = [each for pattern in patterns for each in _anchored(pattern.text, workspace, loose=False)]
    ways = place.loose_ways if workspace.ignore_case else place.ways
    return all(any(meets(pattern, way) for pattern in anchored) for way in ways)


def is_inside(place: Place, workspace: Workspace) -> bool:
    """Tell whether a path surely stays below the roots, also by its links."""
    if not place.ways or not place.is_followed or not place.is_one:
        return False
    bases = [_exact(base, workspace) for base in workspace.bases]
    ways = place.loose_ways if workspace.ignore_case else place.ways
    return all(any(way[: len(base)] == base for base in bases) for way in ways)


def _exact(steps: Steps, workspace: Workspace) -> Steps:
    return _loose(steps) if workspace.ignore_case else steps


def _loose(steps: Steps) -> Steps:
    return tuple(
        Wild(_key(each.text)) if isinstance(each, Wild) else _key(each) if isinstance(each, str) else each
        for each in steps
    )


def _key(name: str) -> str:
    """Spell a name as the most forgiving file system would compare it."""
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name)
        name = "".join(each for each in name if unicodedata.category(each) != "Cf")
    return name.casefold().rstrip(". ") or name


@lru_cache(maxsize=4096)
def _anchored(text: str, workspace: Workspace, *, loose: bool) -> tuple[Steps, ...]:
    """Give a pattern as absolute ones, below each place where it may begin."""
    starts = _starts(text, workspace)
    if not starts and loose:
        # Nobody said where it begins: a deny assumes anywhere, an allow nowhere.
        starts = ((Depth.ANY,),)
    found = [_below(start, text.removeprefix("~")) for start in starts]
    if not loose:
        return tuple(_exact(steps if has_wildcard(text) else (*steps, Depth.ANY), workspace) for steps in found)
    found += [linked for steps in found for linked in _linked(steps, workspace)]
    return tuple((*_loose(steps), Depth.ANY) for steps in found)


def _starts(text: str, workspace: Workspace) -> tuple[Steps, ...]:
    if text.startswith("/"):
        return ((),)
    if not text.startswith("~"):
        return workspace.bases
    home = workspace.home
    ways = (home, workspace.real(home)) if home is not None and text[1:2] in ("", "/") else ()
    return tuple(dict.fromkeys(split(way) for way in ways if way is not None))


def _below(start: Iterable[Step], text: str) -> Steps:
    """Append the steps of a pattern to plain ones: a root may have a star in its own name."""
    found = list(start)
    for name in text.split("/"):
        if name == "..":
            del found[-1:]
        elif name not in ("", "."):
            found.append(step(name))
    return tuple(found)


def _linked(steps: Steps, workspace: Workspace) -> list[Steps]:
    """Follow the links of the part before the first wildcard."""
    plain = [each for each in steps if isinstance(each, str)]
    first = next((index for index, each in enumerate(steps) if not isinstance(each, str)), len(steps))
    real = workspace.real("/" + "/".join(plain[:first]))
    return [] if real is None else [(*split(real), *steps[first:])]
