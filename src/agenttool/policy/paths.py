"""Paths: resolve a text in every reading, and match it with the patterns of rules.

One text has several readings: by a tool that decodes `%2e`, by one that takes a backslash for a slash, by a file
system that folds case. A deny or an ask holds if *any* reading falls under it; an allow holds only if *every* reading
does, both where it is written and where its symbolic links lead. What cannot be read at all counts as everywhere: it
is caught by every deny and ask on paths, and covered by no allow.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeVar
from urllib.parse import unquote

from agenttool.policy.wildcards import Depth, Step, Wild, alike, has_wildcard, patterns_overlap, step

MAX_PATH = 8192
"""A longer text is no path that a system would take."""

_MAX_DECODINGS = 3
_MAX_READINGS = 40
"""A text with more readings, such as `a:/a:/a:/…`, is no path that can be read."""
_UNREADABLE = re.compile(r"\0|^[A-Za-z]:[/\\]|(?:^|[/\\])\.{1,2} +(?:[/\\]|$)")
_WILDCARDS = re.compile(r"[*?]+")
_URI_END = re.compile(r"[?#]")
_URI = re.compile(r"(?:@|[a-z][a-z0-9+.-]*:)+(?=\S)((?://[^/\\?#]*(?=[/\\]))?([^?#]*).*)", re.IGNORECASE | re.DOTALL)

SOURCE_FILES = frozenset(
    """
    c cc clj cpp cs css csv cxx dart ex gif go graphql h hpp hs html ico java jpeg jpg js jsx kt less log lua md mjs ml
    pdf php png proto py pyi rb rs rst scala scss svelte svg swift ts tsx vue webp woff2 zig
    """.split()  # noqa: SIM905 -- a list of words reads best as words
)
"""Endings of files with sources, documents and pictures. `*.py` means all such files and none in particular."""

_SOURCE_FOLDERS = frozenset(
    """
    app assets build cmd components dist doc docs examples include internal lib out pkg public spec src static templates
    test tests
    """.split()  # noqa: SIM905 -- as above
)

Steps = tuple[Step, ...]
Readings = tuple[Steps, ...]
_S = TypeVar("_S")


@dataclass(frozen=True, kw_only=True, eq=False)
class Workspace:
    """The base directories of relative paths, and the function that resolves links.

    Attributes:
        roots: absolute directories; a relative path begins at the first, a relative pattern at each of them.
        cwd: the working directory of the process; a tool without a workspace resolves relative paths there.
        home: what `~` stands for; without it a path that begins so is unreadable.
        resolve: resolves symbolic links, as `os.path.realpath` does, also for paths that do not exist. Without it no
            path can be read.
        user: the workspace of the user, if the settings of a project define another one. Allows of the user refer to
            it instead of this one; any deny or ask refers to both.
        protected: patterns for the files of the runtime itself: its store, payloads, settings and keys. A call that may
            read or write one is asked about, whatever the rules allow.
        addable: returns those of the protected patterns that match a file that `git add` of a folder may add. It reads
            ignore files, so only such commands use it.
    """

    roots: tuple[str, ...] = ()
    cwd: str | None = None
    home: str | None = None
    resolve: Callable[[str], str] | None = None
    user: "Workspace | None" = None
    protected: tuple[str, ...] = ()
    addable: Callable[[], tuple[str, ...]] | None = None
    own_urls: tuple[str, ...] = ()

    def protects(self, path: "ResolvedPath", patterns: tuple[str, ...] | None = None) -> bool:
        """Return whether a path may be a file that some patterns match; by default, the protected patterns."""
        return any(PathPattern(each).hits(path, self) for each in (self.protected if patterns is None else patterns))

    def may_protect(self, text: str) -> bool:
        """Return whether a text may be the path or URI of a protected file, or of a folder above one.

        This compares names only, because it must be fast. So it does not find a link with another name.
        """
        if len(text) > MAX_PATH:
            return False
        decoded = decodings(text) if "%" in text else ()
        text = _folded_case(decoded[-1] if decoded else text)
        if ":" in text:
            text = _URI_END.split(text, maxsplit=1)[0]
        parts, folders = self._protected_names
        if any(part in text for part in parts):
            return True
        folder = text.rstrip("/\\. \t\r\n")
        end = text[len(folder) :]
        name = folder.replace("\\", "/").replace(":", "/").rpartition("/")[2]
        return name in folders or "/.." in end or "\\.." in end or (not name and bool(end.strip()))

    @cached_property
    def _protected_names(self) -> tuple[tuple[str, ...], frozenset[str]]:
        """Texts of which each protected path has at least one, and the names of the folders above protected files."""
        paths = [split(_folded_case(each)) for each in self.protected]
        texts = (
            [part for name in reversed(each) for part in _WILDCARDS.split(name) if len(part) > 1] for each in paths
        )
        found = {next(iter(each), "") for each in texts}
        parts = [part for part in found if not any(other != part and other in part for other in found)]
        return tuple(parts), frozenset({"~", *(name for each in paths for name in each[:-1])})

    @cached_property
    def bases(self) -> Readings:
        """The roots as written, and with their links resolved."""
        reals = (self.real(root) for root in self.roots)
        return tuple(dict.fromkeys(split(each) for each in (*self.roots, *reals) if each is not None))

    @cached_property
    def starts(self) -> tuple[str, ...]:
        """The directories where a relative path may begin; each one is another reading."""
        return tuple(dict.fromkeys((*self.roots[:1], *(() if self.cwd is None else (self.cwd,)))))

    def real(self, absolute: str) -> str | None:
        """Resolve the links of an absolute path; return None if that fails."""
        if self.resolve is None:
            return None
        try:
            return self.resolve(absolute)
        except (OSError, ValueError):
            return None


@dataclass(frozen=True, kw_only=True)
class ResolvedPath:
    """A text resolved to absolute paths.

    Attributes:
        text: the first reading as an absolute path, for people; the text itself where it has none.
        word: the word of a command that it was resolved from.
        candidates: every reading, as written and with links resolved; none means that the path cannot be read.
    """

    text: str
    candidates: Readings = ()
    word: str = ""

    @property
    def is_exact(self) -> bool:
        """Whether it is one path, without wildcards that a shell expands."""
        return all(isinstance(each, str) for candidate in self.candidates for each in candidate)

    @property
    def tree(self) -> "ResolvedPath":
        """The path and everything below it."""
        return replace(self, candidates=tuple((*each, Depth.ANY) for each in self.candidates))

    @cached_property
    def folded_candidates(self) -> Readings:
        """The candidates with folded case, as a deny compares them."""
        return tuple(_folded_steps(candidate) for candidate in self.candidates)

    @property
    def is_source_tree(self) -> bool:
        """Whether it is all files of a source folder, in which only the name of a file can indicate a secret."""
        folder = self.word.removesuffix("/**")
        steps = folder.split("/")
        has_dots = any(each.startswith(".") for each in steps[steps[0] == "." :])
        is_plain = folder != self.word and not has_dots and not has_wildcard(folder)
        return is_plain and not _SOURCE_FOLDERS.isdisjoint(steps)

    @cached_property
    def particular(self) -> "ResolvedPath":
        """The path without wildcards for source files: `src` for `src/*.py` and for `src/**`."""
        shorter = tuple(each[:-1] if self.is_source_tree else _particular(each) for each in self.candidates)
        return self if shorter == self.candidates else replace(self, candidates=shorter)


def _particular(candidate: Steps) -> Steps:
    last = candidate[-1] if candidate else None
    name = last.text if isinstance(last, Wild) else last
    if not isinstance(name, str) or name.rpartition(".")[2] not in SOURCE_FILES:
        return candidate
    steps = [each for each in candidate[:-1] if each is not Depth.ANY]
    if not name.startswith("*."):
        return (*steps, name) if isinstance(last, str) else (*steps, Wild(name, is_shell=True))
    while steps and not isinstance(steps[-1], str):
        del steps[-1]
    return tuple(steps)


def resolve_path(text: str, workspace: Workspace) -> ResolvedPath:
    """Resolve a path argument in every reading that a tool may use."""
    readings = [
        _absolute(reading, base, workspace.home) for base in workspace.starts or (None,) for reading in _readings(text)
    ]
    return _resolved(text, readings, workspace, _candidates)


def resolve_word(text: str, workspace: Workspace, *, base: str | None, expands: bool) -> ResolvedPath:
    """Resolve a word of a command, also a `file:` URI; the shell has decoded it already.

    Links are resolved before the first wildcard, and not in the names that the shell inserts for it.
    """
    readings = [_absolute(each, base, workspace.home) for each in (text, *uri_paths(text))]
    return _resolved(text, readings, workspace, _expanded_candidates if expands else _candidates)


def _resolved(
    text: str, readings: list[str | None], workspace: Workspace, find: Callable[[str, Workspace], Readings]
) -> ResolvedPath:
    candidates: dict[Steps, None] = {}
    for absolute in readings:
        found = () if absolute is None else find(absolute, workspace)
        if not found:
            return ResolvedPath(text=text)
        candidates.update(dict.fromkeys(found))
    shown = "/" + "/".join(split(readings[0])) if readings and readings[0] else text
    return ResolvedPath(text=shown, candidates=tuple(candidates), word=text)


def _candidates(absolute: str, workspace: Workspace) -> Readings:
    """Return a path as written and with its links resolved; none if that fails."""
    real = workspace.real(absolute)
    return () if real is None else (split(absolute), split(real))


def _expanded_candidates(absolute: str, workspace: Workspace) -> Readings:
    steps = tuple(step(name, is_shell=True) for name in split(absolute))
    return (steps, *_linked(steps, workspace))


def _readings(text: str) -> tuple[str, ...]:
    """Return the paths that different tools may read from a text; none if it cannot be read."""
    found = {text: None}
    todo = [text]
    while todo:
        reading = todo.pop()
        if not reading or len(reading) > MAX_PATH or _UNREADABLE.search(reading):
            return ()
        decoded = decodings(reading)
        if not decoded or len(found) > _MAX_READINGS:
            return ()
        for other in (
            decoded[-1],
            reading.replace("\\", "/"),
            unicodedata.normalize("NFKC", reading),
            *uri_paths(reading),
        ):
            if other not in found:
                found[other] = None
                todo.append(other)
    return tuple(found)


def decodings(text: str) -> tuple[str, ...]:
    """Return a text and its percent-decodings, one after another; none if it is not text or nested too often."""
    found = [text]
    while "%" in found[-1] and (once := unquote(found[-1], errors="replace")) != found[-1]:
        if "\ufffd" in once or len(found) >= _MAX_DECODINGS:
            return ()
        found.append(once)
    return tuple(found)


def uri_paths(text: str) -> tuple[str, ...]:
    """Return the paths that programs may read from a URI or from `@FILE`; none for other texts.

    Programs read `file://x/y` with and without its host, and `sqlite:///x` as a relative path, too.
    """
    match = _URI.match(text)
    if match is None:
        return ()
    path = (decodings(match[2]) or (match[2],))[-1]
    whole = match[1].removeprefix("//")
    relative = _URI_END.split(whole, maxsplit=1)[0].lstrip("/")
    return tuple(each for each in dict.fromkeys((path, whole, relative)) if each)


def _absolute(text: str, base: str | None, home: str | None) -> str | None:
    if text.startswith("~"):
        # The home of another user is not known.
        return home + text[1:] if home is not None and text[1:2] in ("", "/") else None
    if text.startswith("/"):
        return text
    return None if base is None else f"{base}/{text}"


def split(absolute: str) -> tuple[str, ...]:
    """Split a path into its steps; `..` drops a step, and the root has no parent."""
    return _below((), absolute, str)


def _below(start: Iterable[_S], text: str, read: Callable[[str], _S]) -> tuple[_S, ...]:
    """Append the steps of a text to a base."""
    found = list(start)
    for name in text.split("/"):
        if name == "..":
            del found[-1:]
        elif name not in ("", "."):
            found.append(read(name))
    return tuple(found)


class PathPattern(NamedTuple):
    """A pattern of a rule: `src/**`, `/etc/hosts`, `~/.ssh`; a relative one is below each root of the workspace.

    One that begins with `!` excepts the paths that it matches exactly, without those below.
    """

    text: str

    @property
    def is_exception(self) -> bool:
        """Whether it takes paths away from the other patterns of its rule."""
        return self.text.startswith("!")

    @property
    def is_anywhere(self) -> bool:
        """Whether it ends with a name that may be at any depth."""
        steps = self.text.split("/")
        return self.text.startswith(("**/", "/**/")) and steps[-1] not in ("", "**") and not {".", ".."} & set(steps)

    def excepts(self, path: ResolvedPath, workspace: Workspace) -> bool:
        """Return whether every reading of a path is excepted."""
        patterns = _anchored(self.text[1:], workspace, folded=True)
        return path.is_exact and all(
            any(patterns_overlap(pattern[:-1], candidate) for pattern in patterns)
            for candidate in path.folded_candidates
        )

    def hits(self, path: ResolvedPath, workspace: Workspace) -> bool:
        """Return whether a path may match this pattern, or lie below a directory that does."""
        if not path.candidates:
            return True
        return any(
            patterns_overlap(pattern, candidate)
            for pattern in _anchored(self.text, workspace, folded=True)
            for candidate in path.folded_candidates
        )


class PathPatterns:
    """The path patterns of a deny or an ask, by the names that a path must have for them to match."""

    __slots__ = ("_by_name", "_exceptions", "_other", "_wild")

    def __init__(self, patterns: Iterable[PathPattern]) -> None:
        """Take the patterns in any order."""
        self._by_name: dict[str, list[PathPattern]] = {}
        self._wild: list[tuple[Wild, PathPattern]] = []
        self._exceptions: list[PathPattern] = []
        self._other: list[PathPattern] = []
        for pattern in patterns:
            name = _key(pattern.text.rpartition("/")[2])
            if pattern.is_exception:
                self._exceptions.append(pattern)
            elif not pattern.is_anywhere:
                self._other.append(pattern)
            elif has_wildcard(name):
                self._wild.append((Wild(name), pattern))
            else:
                self._by_name.setdefault(name, []).append(pattern)

    def hits(self, path: ResolvedPath, workspace: Workspace, *, is_ask: bool) -> bool:
        """Return whether a path may match one of the patterns, and no exception.

        A question about names at any depth, such as `**/conftest.py`, is not asked because of `*.py`.
        """
        particular = path.particular if is_ask else path
        is_hit = any(pattern.hits(path, workspace) for pattern in self._other) or any(
            pattern.hits(particular, workspace) for pattern in self._named(particular)
        )
        return is_hit and not any(pattern.excepts(path, workspace) for pattern in self._exceptions)

    def _named(self, path: ResolvedPath) -> Iterator[PathPattern]:
        """Return the patterns whose last name may be a step of a path; all of them for a path that is not known."""
        steps = {each for candidate in path.folded_candidates for each in candidate}
        if not path.candidates or Depth.ANY in steps:
            steps = {Depth.ANY}
        for each in steps:
            # The patterns of a wildcard are many, and the first that matches is enough.
            yield from _ending_with(self, each) if isinstance(each, str) else self.ending_with(each)

    def ending_with(self, name: Step) -> Iterator[PathPattern]:
        """Return the patterns at any depth that may end with a name."""
        if name is Depth.ANY or isinstance(name, Wild):
            lists = (found for each, found in self._by_name.items() if name is Depth.ANY or alike(name, each))
        else:
            lists = iter((self._by_name.get(name, []),))
        yield from (pattern for found in lists for pattern in found)
        yield from (pattern for wild, pattern in self._wild if name is Depth.ANY or alike(wild, name))


@lru_cache(maxsize=4096)
def _ending_with(patterns: PathPatterns, name: Step) -> tuple[PathPattern, ...]:
    return tuple(patterns.ending_with(name))


WORKSPACE = PathPattern(".")
"""The pattern of all paths below the roots of a workspace."""


def all_covered(patterns: Iterable[PathPattern], path: ResolvedPath, workspace: Workspace) -> bool:
    """Return whether patterns surely cover a path: every reading of it, and every target of its links.

    A pattern without wildcards reaches everything below it. Unlike for a deny, the links of a pattern itself are not
    resolved, because replacing a directory by a link would then move the rule.
    """
    if not path.candidates or not path.is_exact:
        return False
    anchored = [each for pattern in patterns for each in _anchored(pattern.text, workspace, folded=False)]
    return all(any(patterns_overlap(pattern, candidate) for pattern in anchored) for candidate in path.candidates)


def _folded_steps(steps: Steps) -> Steps:
    return tuple(
        Wild(_key(each.text), each.is_shell)
        if isinstance(each, Wild)
        else _key(each)
        if isinstance(each, str)
        else each
        for each in steps
    )


def _key(name: str) -> str:
    """Return a name as the most lenient file system compares it."""
    name = _folded_case(name)
    return name.rstrip(". ") or name


def _folded_case(text: str) -> str:
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        text = "".join(each for each in text if unicodedata.category(each) != "Cf")
    return text.casefold()


@lru_cache(maxsize=4096)
def _anchored(text: str, workspace: Workspace, *, folded: bool) -> Readings:
    """Return a pattern as absolute patterns, one for each base directory."""
    starts = _starts(text, workspace)
    if not starts and folded:
        # The base is unknown: a deny assumes any directory, an allow none.
        starts = ((Depth.ANY,),)
    found = [_below(start, text.removeprefix("~"), step) for start in starts]
    if not folded:
        return tuple(steps if has_wildcard(text) else (*steps, Depth.ANY) for steps in found)
    found += [linked for steps in found for linked in _linked(steps, workspace)]
    return tuple(dict.fromkeys((*_folded_steps(steps), Depth.ANY) for steps in found))


def _starts(text: str, workspace: Workspace) -> Readings:
    if text.startswith("/"):
        return ((),)
    if not text.startswith("~"):
        return workspace.bases
    home = workspace.home
    candidates = (home, workspace.real(home)) if home is not None and text[1:2] in ("", "/") else ()
    return tuple(dict.fromkeys(split(candidate) for candidate in candidates if candidate is not None))


def _linked(steps: Steps, workspace: Workspace) -> list[Steps]:
    """Follow the links of the part before the first wildcard."""
    plain = [each for each in steps if isinstance(each, str)]
    first = next((index for index, each in enumerate(steps) if not isinstance(each, str)), len(steps))
    real = workspace.real("/" + "/".join(plain[:first]))
    return [] if real is None else [(*split(real), *steps[first:])]
