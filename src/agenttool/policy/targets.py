"""The targets of a call: the paths, commands, URLs and resources that its arguments name.

Arguments of these kinds are certain. What the words of a command may name is only possible.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import permutations
from typing import NamedTuple

from agenttool.policy.fields import MatchingField, field_named, fields_in, names_in, pointers_in, texts_in, values_at
from agenttool.policy.paths import ResolvedPath, Workspace, resolve_path, resolve_word
from agenttool.policy.program_table import program_name, program_table
from agenttool.policy.programs import NO_FILES, WRITERS, list_argv, list_commands
from agenttool.policy.shell import CommandLine, Subcommand
from agenttool.policy.shell_words import Word, unknown
from agenttool.policy.subject import Subject
from agenttool.policy.urls import Url, url_of, url_pattern
from agenttool.policy.usage import Usage, only_shows_names
from agenttool.records import Json

MAX_WORDS = 30
"""How many words of commands are resolved as paths; more count as any path."""
MAX_FOLDERS = 5
"""How many folders relative words may start from; with more, each word may be any path."""
MAX_STEPS = 32
"""A word of a command with more slashes may be any path."""
MAX_PLACES = 60
"""How many paths all words may be, counted for each folder; more count as any path."""
MAX_PIECES = 8
"""How many separators such as `=` or `:` a word may have; a word with more may be anything."""
MAX_TEXTS = 100
"""How many texts of a call are resolved because they may be paths of protected files; more count as any path."""
MAX_WORD = 512
"""A longer word of a command may be any path."""
FOLDER_CHANGES = frozenset({"cd", "chdir", "pushd", "popd"})
"""The commands of a shell that change its folder."""
_IGNORE_FILES = frozenset({".gitignore", "exclude"})
_HOST = re.compile(r"^(?:localhost|[^\s/@:-][^\s/@:]*[.\u3002\uff0e\uff61][^\s/@:]+)(?::\d+)?(?:/|$)", re.IGNORECASE)
_ADDRESS = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")
_JOINTS = re.compile(r"[=@:,;]")
_TEXT_BREAKS = re.compile(r"[\s'\"`();|&<>!]+")


class Caller(NamedTuple):
    """The actor that makes a call, with its roles and teams; the actor is none if the caller did not name one.

    Attributes:
        granted: the roles of its key or token, such as `gateway:caller`; none if they are not known.
        user: the same actor with the roles and teams of the user's own settings alone, if they differ from these.
    """

    actor: str | None = None
    roles: frozenset[str] = frozenset()
    teams: frozenset[str] = frozenset()
    user: "Caller | None" = None
    granted: tuple[str, ...] | None = None


UNKNOWN_CALLER = Caller()
Places = tuple[ResolvedPath, ...]
_FILE_FIELDS = frozenset({MatchingField.PATH, MatchingField.COMMAND})


class CallTargets:
    """The paths, commands, URLs and resources of one call, read on first use.

    A value of the wrong type counts as unreadable, so that a deny matches it. Paths and URLs that words of a command
    may name (`cat secrets/key`) are separate: a deny matches them, an allow does not.
    """

    def __init__(
        self, subject: Subject, arguments: Json, workspace: Workspace, caller: Caller = UNKNOWN_CALLER
    ) -> None:
        """Store the call; nothing is parsed yet."""
        self.subject = subject
        self.arguments = arguments
        self.workspace = workspace
        self.caller = caller
        self._word_places: dict[Word, Places] = {}

    def _values(self, field: MatchingField) -> list[Json]:
        fields = self.subject.fields
        if field in fields.anywhere:
            return [*texts_in(self.arguments)]
        return [
            each
            for steps in self._places(field)
            for value in values_at(self.arguments, steps)
            if value is not None and not (value == "" and steps in fields.unset)
            for each in fields_in(value, field)
        ]

    def _places(self, field: MatchingField) -> tuple[tuple[str, ...], ...]:
        declared = self.subject.fields.places.get(field, ())
        return (*declared, *self._named.get(field, ())) if self.subject.fields.is_open else declared

    @cached_property
    def _named(self) -> dict[MatchingField, list[tuple[str, ...]]]:
        """The members of undeclared arguments whose names suggest a field."""
        found: dict[MatchingField, list[tuple[str, ...]]] = {}
        for steps in pointers_in(self.arguments):
            field = field_named(steps[-1])
            declared = () if field is None else self.subject.fields.places.get(field, ())
            if field is not None and not any(_leads_to(place, steps) for place in declared):
                found.setdefault(field, []).append(steps)
        return found

    def is_sure_of(self, field: MatchingField) -> bool:
        """Return whether the place of a field is declared; if not, any text may be it, and no allow relies on it."""
        return field not in self.subject.fields.anywhere

    @property
    def may_name_files(self) -> bool:
        """Whether an argument may be a path or a command line."""
        fields = self.subject.fields
        return fields.is_open or not _FILE_FIELDS.isdisjoint((*fields.places, *fields.anywhere))

    @cached_property
    def paths(self) -> Places:
        """The resolved path arguments."""
        values = self._values(MatchingField.PATH)
        return tuple(
            resolve_path(value, self.workspace) if isinstance(value, str) else ResolvedPath(text=str(value))
            for value in values
        )

    @cached_property
    def urls(self) -> tuple[Url, ...]:
        """The parsed URL arguments."""
        values = self._values(MatchingField.URL)
        return tuple(url_of(value) if isinstance(value, str) else Url(text=str(value)) for value in values)

    @cached_property
    def resources(self) -> tuple[str | None, ...]:
        """The resource arguments; None for one that is not text."""
        values = self._values(MatchingField.RESOURCE)
        return tuple(value if isinstance(value, str) else None for value in values)

    @cached_property
    def lines(self) -> tuple[CommandLine, ...]:
        """The command lines among the arguments, in every way that the tool may read them."""
        if MatchingField.COMMAND in self.subject.fields.anywhere:
            return tuple(list_commands(text) for text in texts_in(self.arguments))
        return tuple(
            line
            for steps in self._places(MatchingField.COMMAND)
            for outer in values_at(self.arguments, steps[:-1])
            for line in _lines(outer, steps[-1:])
        )

    @cached_property
    def subcommands(self) -> tuple[Subcommand, ...]:
        """Every command that the call would run, each once."""
        return tuple(dict.fromkeys(subcommand for line in self.lines for subcommand in line.subcommands))

    @property
    def _usages(self) -> list[Usage]:
        return [each.usage for each in self.subcommands if each.usage is not None]

    @property
    def doubt(self) -> str | None:
        """Why a command line is not understood, so that it may run more than is listed; None if it is understood."""
        return next((line.doubt for line in self.lines if line.doubt is not None), None)

    @cached_property
    def _bases(self) -> tuple[str, ...] | None:
        """The directories of relative words; None if a command changes to an unknown directory."""
        at, stack = self.workspace.starts, list[tuple[str, ...]]()
        found = dict.fromkeys((*(place.text for place in self.paths if place.candidates), *at))
        for subcommand in (each for line in self.lines for each in line.subcommands):
            if subcommand.name in FOLDER_CHANGES:
                if subcommand.name == "popd" and len(subcommand.words) == 1 and stack:
                    at = stack.pop()  # the directory before the last `pushd`
                    continue
                if subcommand.name == "pushd":
                    stack.append(at)
                targets = [word for word in subcommand.words[1:] if not word.text.startswith("-")]
                to = targets[0].text if len(targets) == 1 and targets[0].is_plain else None
                if not at or to is None or to.count("/") > MAX_STEPS:
                    return None
                at = tuple(resolve_word(to, self.workspace, base=each, expands=False).text for each in at)
                found.update(dict.fromkeys(at))
                if len(found) > MAX_FOLDERS:
                    return None
        return tuple(found)

    def word_places(self, word: Word) -> Places:
        """Return the resolved paths of a word, from every directory that the command may be in."""
        if word.is_unknown or self._bases is None or word.text.count("/") > MAX_STEPS:
            return (ResolvedPath(text=word.text),)
        if word not in self._word_places:
            bases = self._bases or (None,)
            self._word_places[word] = tuple(
                resolve_word(word.text, self.workspace, base=base, expands=word.expands) for base in bases
            )
        return self._word_places[word]

    @cached_property
    def possible_paths(self) -> Places:
        """The paths that words of commands may be, for a deny or an ask."""
        return self._possible(word for subcommand in self.subcommands for word in path_words(subcommand))

    @cached_property
    def possible_writes(self) -> Places:
        """The paths that commands may write, for a deny or an ask about writes."""
        return self._possible(word for subcommand in self.subcommands for word in _written_words(subcommand))

    def _possible(self, found: Iterable[Word]) -> Places:
        """Return the paths of some words, and any path if there may be commands that are not listed."""
        hidden = () if self.doubt is None else (ResolvedPath(text="a command that cannot be known"),)
        return (*self._resolved(found), *hidden)

    def _resolved(self, found: Iterable[Word]) -> Places:
        words = dict.fromkeys(found)
        if len(words) > MAX_WORDS or (words and len(words) * len(self._bases or ()) > MAX_PLACES):
            return (ResolvedPath(text="one of very many words"),)
        return tuple(place for word in words for place in self.word_places(word))

    def protected_path(self, *, is_read_only: bool) -> ResolvedPath | None:
        """Return a path of the call that may be a protected file; None if no argument reaches one.

        A tool that may write can change everything below a folder.
        """
        paths = self.paths if is_read_only else tuple(each.tree for each in self.paths)
        passed = (word for usage in self._usages for word in usage.passed)
        words = (
            *(word for each in self.subcommands for word in _used_words(each)),
            *(word for word in passed if not word.is_plain or self.workspace.may_protect(word.text)),
        )
        trees = (word for each in self.subcommands for word in _whole_folders(each))
        places = (
            *paths,
            *self._paths_in_texts(is_read_only=is_read_only),
            *self._resolved(words),
            *(each.tree for each in self._resolved(trees)),
        )
        return next(filter(self.workspace.protects, places), None) or self._added_to_git()

    def _added_to_git(self) -> ResolvedPath | None:
        """Return a folder with a protected file that a command adds to a repository; None if git ignores them all.

        A call that may also change an ignore file counts as one that adds them.
        """
        added = self._resolved(word for usage in self._usages for word in usage.adds)
        if not added or self.workspace.addable is None:
            return None
        changes = [each for place in self.possible_writes for each in place.folded_candidates or ((),)]
        is_stable = all(each and each[-1] not in _IGNORE_FILES and isinstance(each[-1], str) for each in changes)
        patterns = self.workspace.addable() if is_stable else None
        return next((each for each in added if self.workspace.protects(each.tree, patterns)), None)

    def _paths_in_texts(self, *, is_read_only: bool) -> Iterator[ResolvedPath]:
        """Yield the paths that the texts and member names of the arguments may be.

        If the tool may write, a folder counts with everything in it; texts of a tool that runs commands do not.
        """
        workspace = self.workspace
        found = {each.strip(): False for each in names_in(self.arguments) if workspace.may_protect(each)}
        is_tree = not is_read_only and not self.subject.fields.has_commands
        found |= {each.strip(): is_tree for each in texts_in(self.arguments) if workspace.may_protect(each)}
        if len(found) > MAX_TEXTS:
            yield ResolvedPath(text="one of very many texts")
            return
        for text, has_all in found.items():
            path = resolve_path(text, workspace)
            if path.candidates:
                yield path.tree if has_all else path

    @cached_property
    def listed_paths(self) -> Places:
        """The wildcards of commands that only show names, sizes or counts, for a deny."""
        words = [word for usage in self._usages for word in usage.looks if not word.is_plain]
        return tuple(place for word in words[:MAX_WORDS] for place in self.word_places(word))

    @property
    def own_url(self) -> Url | None:
        """A URL of the runtime's own server that a command names; None if there is none."""
        patterns = [url_pattern(each) for each in self.workspace.own_urls] if self.lines else []
        named = (url for url in self.possible_urls if url.host) if patterns else ()
        return next((url for url in named if any(each.hits(url) for each in patterns)), None)

    @cached_property
    def possible_urls(self) -> tuple[Url, ...]:
        """The URLs that words of commands may be, for a deny or an ask."""
        words = {word: None for subcommand in self.subcommands for word in _arguments(subcommand)}
        hidden = () if self.doubt is None else (Url(text="a command that cannot be known"),)
        if len(words) > MAX_WORDS:
            return (Url(text="one of very many words"),)
        return (*(url for word in words for url in _word_urls(word)), *hidden)


def _leads_to(place: tuple[str, ...], steps: tuple[str, ...]) -> bool:
    return len(place) == len(steps) and all(mine in ("*", yours) for mine, yours in zip(place, steps, strict=True))


_UNREADABLE_COMMAND = CommandLine(doubt="the command is not text")


def _lines(outer: Json, last: tuple[str, ...]) -> Iterator[CommandLine]:
    """Parse the commands at the last step of a pointer; further words may be in a sibling `args`."""
    beside = [outer[name] for name in ("args", "arguments") if name in outer] if isinstance(outer, dict) else []
    for value in values_at(outer, last):
        if value is None:
            continue
        if isinstance(value, str):
            if not beside or re.search(r"\s", value):
                yield list_commands(value)
            yield from (_argv([value, *more]) if isinstance(more, list) else _UNREADABLE_COMMAND for more in beside)
        elif isinstance(value, list):
            yield _argv(value)
            if last and last[0].endswith("s"):
                # `commands`, unlike `command`, may be one text after another.
                yield from (list_commands(each) if isinstance(each, str) else _UNREADABLE_COMMAND for each in value)
        else:
            yield _UNREADABLE_COMMAND


def _argv(words: list[Json]) -> CommandLine:
    """Return the commands of a list of words that run without a shell."""
    texts = [word for word in words if isinstance(word, str)]
    return list_argv(texts) if texts and len(texts) == len(words) else _UNREADABLE_COMMAND


def _arguments(subcommand: Subcommand, first: int = 1) -> Iterator[Word]:
    """Return the words of a command; for an opaque one also their parts, which may be text of another command."""
    for word in subcommand.words[first:]:
        parts = [word.text]
        if subcommand.opaque is not None and not word.is_unknown and len(word.text) <= MAX_WORD:
            parts = list(dict.fromkeys((word.text, *_TEXT_BREAKS.split(word.text))))
        is_long = len(word.text) > MAX_WORD or len(parts) > MAX_WORDS
        if word.is_unknown or is_long or any(len(_JOINTS.findall(each)) > MAX_PIECES for each in parts[1:] or parts):
            yield unknown(word.text[:MAX_WORD])
        else:
            yield from (Word(each, word.certainty) for each in parts if len(_JOINTS.findall(each)) <= MAX_PIECES)


def path_words(subcommand: Subcommand) -> Iterator[Word]:
    """Return what may be a path in a command: its arguments, what is joined to its options, its redirections."""
    yield from (*subcommand.reads, *subcommand.writes, *_link_targets(subcommand))
    if subcommand.usage is not None:
        exact = [word for word in subcommand.usage.looks if word.is_plain]
        yield from (*subcommand.usage.reads, *subcommand.usage.writes, *exact)
        return
    if subcommand.name in NO_FILES:
        return
    is_path = bool(subcommand.words) and (subcommand.name is None or "/" in subcommand.name)
    for word in _arguments(subcommand, 0 if is_path else 1):
        if word.is_unknown:
            yield word
        elif not word.is_number:
            names = [each for each in _pieces(word.text) if not each.startswith("-")]
            yield from (Word(each, word.certainty) for each in names)


def _link_targets(subcommand: Subcommand) -> Iterator[Word]:
    """Yield the targets of relative links that `ln` may create, from the folder of the link."""
    if program_name(subcommand.name or "") != "ln":
        return
    parts = (Word(each, word.certainty) for word in subcommand.words[1:] for each in _pieces(word.text))
    names = [each for each in parts if not each.text.startswith("-")]
    for target, link in permutations(names, 2):
        certainty = max(target.certainty, link.certainty)
        if not target.text.startswith(("/", "~")):
            folder, slash, _ = link.text.rpartition("/")
            yield from (Word(f"{each}/{target.text}", certainty) for each in (link.text, *([folder] if slash else ())))


def _used_words(subcommand: Subcommand) -> Iterator[Word]:
    """Yield the files that a command may read or write.

    A program that may run others could use any file, so its unknown words do not count.
    """
    usage, program = subcommand.usage, program_name(subcommand.name or "")
    words: Iterable[Word] = ()
    if usage is not None:
        words = (*usage.reads, *usage.writes, *_link_targets(subcommand))
    elif program in WRITERS or not only_shows_names(program):
        words = path_words(subcommand)
    for word in (*subcommand.reads, *subcommand.writes, *words):
        if subcommand.opaque is None or not word.is_unknown:
            yield word


def _whole_folders(subcommand: Subcommand) -> Iterator[Word]:
    """Yield the folders whose whole content a command may read, move or delete."""
    name, texts = program_name(subcommand.name or ""), {word.text for word in subcommand.words[1:]}
    if subcommand.usage is not None:
        yield from (*subcommand.usage.trees, *_link_targets(subcommand))
    elif name in WRITERS or name in ("find", "git"):
        yield from (word for word in path_words(subcommand) if subcommand.opaque is None or not word.is_unknown)
        starts_here = name == "find" and any(word.text.startswith("-") for word in subcommand.words[1:2])
        if starts_here or any(each[0] == name and texts.issuperset(each[1:]) for each in program_table().sweeping):
            yield Word(".")


def _written_words(subcommand: Subcommand) -> Iterator[Word]:
    """Return what a command may write; of a program that is not known every path."""
    yield from subcommand.writes
    if subcommand.usage is not None:
        yield from subcommand.usage.writes
    elif not subcommand.is_wrapper:
        yield from path_words(subcommand)


def _pieces(text: str) -> list[str]:
    """Return the parts of a word that may be names: `-dVALUE`, `file=@NAME;type=x`, `NAME:/inside`, `file:NAME`."""
    value = [text[2:]] if re.match(r"^-[^-]", text) else []
    rests = [text[joint.end() :] for joint in _JOINTS.finditer(text)]
    fields = [field for whole in (text, *value) for field in _JOINTS.split(whole)]
    return [each for each in dict.fromkeys((text, *value, *rests, *fields)) if each]


def _word_urls(word: Word) -> Iterator[Url]:
    """Return the URLs that a word may be, with or without a scheme, as `curl` reads it."""
    if word.is_unknown:
        yield Url(text=word.text)
    elif "://" in word.text:
        yield from map(url_of, [each for each in _pieces(word.text) if _ADDRESS.match(each)] or [word.text])
    else:
        # A file name such as `x.y` may look like a host.
        hosts = [each for each in _pieces(word.text) if _HOST.match(each)]
        urls = (url_of(f"{scheme}://{host}") for host in hosts for scheme in ("http", "https"))
        yield from (url for url in urls if url.host)
