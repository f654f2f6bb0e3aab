"""One call as rules see it: each fact is read from its arguments when a rule first asks."""

import re
from collections.abc import Iterator
from functools import cached_property
from itertools import islice

from agenttool.policy.commands import CommandLine, Subcommand
from agenttool.policy.field_names import MatchingField, field_named
from agenttool.policy.launchers import list_argv, list_commands
from agenttool.policy.paths import MAX_PATH, Place, Workspace, place_of, word_place
from agenttool.policy.pointers import flat, places_in, texts_in, values_at
from agenttool.policy.subject import Subject
from agenttool.policy.urls import Url, url_of
from agenttool.policy.words import Certainty, Word
from agenttool.records import Json

MAX_WORDS = 1000
"""How many words of commands are looked up as paths; more count as everywhere."""

MAX_JOINTS = 40
"""How many joints of a word may begin a name that has joints itself; after that, a name ends at the next."""

_MOVES = frozenset({"cd", "chdir", "pushd", "popd"})
_HOST = re.compile(r"^(?:localhost|[^\s/@:-][^\s/@:]*[.\u3002\uff0e\uff61][^\s/@:]+)(?::\d+)?(?:/|$)", re.IGNORECASE)
_ADDRESS = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")
_JOINTS = re.compile(r"[=@:,;]")


class Call:
    """The arguments of one call, and what they mean to rules.

    A value that is not of the kind its field should be is kept as something unreadable, so that a deny catches it. What
    a command's words *may* mean (`cat secrets/key` names a path) is kept apart: a deny looks at it, an allow does not.
    """

    def __init__(self, subject: Subject, arguments: Json, workspace: Workspace) -> None:
        """Take a call; nothing is read yet."""
        self.subject = subject
        self.arguments = arguments
        self.workspace = workspace

    def _values(self, field: MatchingField) -> list[Json]:
        fields = self.subject.fields
        if field in fields.anywhere:
            return [*texts_in(self.arguments)]
        found = [value for steps in self._places(field) for value in values_at(self.arguments, steps)]
        return [value for value in found if value is not None]

    def _places(self, field: MatchingField) -> tuple[tuple[str, ...], ...]:
        declared = self.subject.fields.places.get(field, ())
        return (*declared, *self._named.get(field, ())) if self.subject.fields.is_open else declared

    @cached_property
    def _named(self) -> dict[MatchingField, list[tuple[str, ...]]]:
        """Where members stand that are called like a field, in arguments that may hold more than the tool says."""
        found: dict[MatchingField, list[tuple[str, ...]]] = {}
        for steps in places_in(self.arguments):
            field = field_named(steps[-1])
            declared = () if field is None else self.subject.fields.places.get(field, ())
            if field is not None and not any(_leads_to(place, steps) for place in declared):
                found.setdefault(field, []).append(steps)
        return found

    def is_sure_of(self, field: MatchingField) -> bool:
        """Tell whether the tool said where a field is; if not, every text may be it and no allow can rely on any."""
        return field not in self.subject.fields.anywhere

    @cached_property
    def paths(self) -> tuple[Place, ...]:
        """The places that the path arguments lead to."""
        values = flat(self._values(MatchingField.PATH))
        return tuple(
            place_of(value, self.workspace) if isinstance(value, str) else Place(text=str(value)) for value in values
        )

    @cached_property
    def urls(self) -> tuple[Url, ...]:
        """The addresses that the url arguments name."""
        values = flat(self._values(MatchingField.URL))
        return tuple(url_of(value) if isinstance(value, str) else Url(text=str(value)) for value in values)

    @cached_property
    def resources(self) -> tuple[str | None, ...]:
        """The resources that the arguments name; nothing for one that is no text."""
        values = flat(self._values(MatchingField.RESOURCE))
        return tuple(value if isinstance(value, str) else None for value in values)

    @cached_property
    def lines(self) -> tuple[CommandLine, ...]:
        """The command lines among the arguments, in every way that the tool may take them."""
        if MatchingField.COMMAND in self.subject.fields.anywhere:
            return tuple(list_commands(text) for text in texts_in(self.arguments))
        return tuple(
            line
            for steps in self._places(MatchingField.COMMAND)
            for outer in values_at(self.arguments, steps[:-1])
            for line in _lines(outer, steps[-1:])
        )

    @property
    def subcommands(self) -> Iterator[Subcommand]:
        """Every command that the call would run."""
        return (subcommand for line in self.lines for subcommand in line.subcommands)

    @property
    def is_in_doubt(self) -> bool:
        """Tell whether the commands cannot all be known."""
        return any(line.doubts for line in self.lines)

    @property
    def is_suspicious(self) -> bool:
        """Tell whether a deny must assume that some command is hidden."""
        return any(line.doubts or line.suspicions for line in self.lines)

    @cached_property
    def _bases(self) -> tuple[str, ...] | None:
        """Where relative words of commands may begin; nothing if a command moves to an unknown place."""
        at = self.workspace.starts
        found = dict.fromkeys((*(place.text for place in self.paths if place.ways), *at))
        for subcommand in self.subcommands:
            if subcommand.name in _MOVES:
                targets = [word for word in subcommand.words[1:] if not word.text.startswith("-")]
                if not at or len(targets) != 1 or not targets[0].is_plain:
                    return None
                to = targets[0].text
                at = tuple(word_place(to, self.workspace, base=each, expands=False).text for each in at)
                found.update(dict.fromkeys(at))
        return tuple(found)

    def word_places(self, word: Word) -> tuple[Place, ...]:
        """Give where a word of a command leads, from every directory that the command may be in."""
        if word.certainty is Certainty.UNKNOWN or self._bases is None:
            return (Place(text=word.text),)
        expands = word.certainty is Certainty.EXPANDS
        bases = self._bases or (None,)
        return tuple(word_place(word.text, self.workspace, base=base, expands=expands) for base in bases)

    @cached_property
    def possible_paths(self) -> tuple[Place, ...]:
        """The places that words of commands may lead to, for a deny or an ask."""
        if not self.lines:
            return ()
        words = {word: None for subcommand in self.subcommands for word in _path_words(subcommand)}
        hidden = (Place(text="a command that cannot be known"),) if self.is_suspicious else ()
        if len(words) > MAX_WORDS:
            return (Place(text="one of very many words"),)
        return (*(place for word in words for place in self.word_places(word)), *hidden)

    @cached_property
    def possible_urls(self) -> tuple[Url, ...]:
        """The addresses that words of commands may name, for a deny or an ask."""
        if not self.lines:
            return ()
        words = {word: None for subcommand in self.subcommands for word in subcommand.words[1:]}
        hidden = (Url(text="a command that cannot be known"),) if self.is_suspicious else ()
        return (*(url for word in words for url in _word_urls(word)), *hidden)


def _leads_to(place: tuple[str, ...], steps: tuple[str, ...]) -> bool:
    return len(place) == len(steps) and all(mine in ("*", yours) for mine, yours in zip(place, steps, strict=True))


_UNTOLD = CommandLine(doubts=("it is neither a text nor a list of texts",))


def _lines(outer: Json, last: tuple[str, ...]) -> Iterator[CommandLine]:
    """Read the commands at the last step of a pointer; their further words may stand beside them, as `args`."""
    beside = [outer[name] for name in ("args", "arguments") if name in outer] if isinstance(outer, dict) else []
    for value in values_at(outer, last):
        if value is None:
            continue
        if isinstance(value, str):
            if not beside or re.search(r"\s", value):
                yield list_commands(value)
            yield from (_argv([value, *more]) if isinstance(more, list) else _UNTOLD for more in beside)
        elif isinstance(value, list):
            yield _argv(value)
            if last and last[0].endswith("s"):
                # `commands`, unlike `command`, may be one text after another.
                yield from (list_commands(each) if isinstance(each, str) else _UNTOLD for each in value)
        else:
            yield _UNTOLD


def _argv(words: list[Json]) -> CommandLine:
    """Read words that no shell will read."""
    texts = [word for word in words if isinstance(word, str)]
    return list_argv(texts) if texts and len(texts) == len(words) else _UNTOLD


def _path_words(subcommand: Subcommand) -> Iterator[Word]:
    """Give what may be a path in a command: its arguments, what is joined to its options, its redirections."""
    yield from (*subcommand.reads, *subcommand.writes)
    for index, word in enumerate(subcommand.words):
        if word.certainty is Certainty.UNKNOWN:
            yield word
        elif index or "/" in word.text:
            yield from (
                Word(each, word.certainty)
                for each in _pieces(word.text)
                if len(each) <= MAX_PATH and not each.startswith("-")
            )


def _pieces(text: str) -> list[str]:
    """Give what of a word may be a name of its own: `-dVALUE`, `file=@NAME;type=x`, `NAME:/inside`, `file:NAME`."""
    value = [text[2:]] if re.match(r"^-[^-]", text) else []
    rests = [text[joint.end() :] for joint in islice(_JOINTS.finditer(text), MAX_JOINTS)]
    fields = [field for whole in (text, *value) for field in _JOINTS.split(whole)]
    return [each for each in dict.fromkeys((text, *value, *rests, *fields)) if each]


def _word_urls(word: Word) -> Iterator[Url]:
    """Read a word as an address, with a scheme or without one, as `curl` would."""
    if word.certainty is Certainty.UNKNOWN:
        yield Url(text=word.text)
    elif "://" in word.text:
        yield from map(url_of, [each for each in _pieces(word.text) if _ADDRESS.match(each)] or [word.text])
    else:
        yield from (url for each in _pieces(word.text) if _HOST.match(each) for url in _without_scheme(each))


def _without_scheme(text: str) -> Iterator[Url]:
    """Read the name of a host, perhaps with a port and a path; an ending such as `x.y` may still be a file's."""
    return (url for scheme in ("http", "https") if (url := url_of(f"{scheme}://{text}")).host)
