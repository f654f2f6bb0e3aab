"""Command patterns of rules: which words, options and assignments of a simple command they match."""

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from agenttool.policy.program_table import RUNS_NOTHING, WRITES, check_kind, program_table
from agenttool.policy.shell import CommandLine, Subcommand
from agenttool.policy.shell_words import HARMLESS_VARIABLES, Word, Words
from agenttool.policy.wildcards import Wild, fits, has_wildcard

_OPERATORS = re.compile(r"(?:&&|\|\||[;|&<>]|\$\(|`)")
_ASSIGNMENT = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*\+?=")
_OPTION = re.compile(r"^-(?:-[\w-]+|[A-Za-z0-9]\S*)$")
_SHORTEST_ABBREVIATION = 2

_WHOLE_WORDS = frozenset("cmake ctest ffmpeg find go java mvn openssl terraform".split())  # noqa: SIM905 -- a list of words reads best as words
"""Programs whose options are words after one dash, which are not clusters of letters."""

_WITH_SUBCOMMANDS = frozenset(
    "apt brew cargo docker gh git go helm kubectl npm pip pip3 pnpm poetry terraform uv yarn".split()  # noqa: SIM905 -- as above
)
"""Programs whose first argument is a sub-command: a deny on `git push` does not match `git stash push`."""


class CommandPattern(NamedTuple):
    """One command of a rule: `git status`, `git log *`, `CI=1 npm test`.

    A last word `*` matches any further arguments. Without it an allow matches exactly these words. A deny or an ask
    matches every command of that name that has these options in any form, and the other words in this order.
    """

    text: str
    assignments: tuple[str, ...]
    words: tuple[str, ...]
    is_open: bool

    @property
    def usage_kind(self) -> str | None:
        """The kind of `programs.toml` that a pattern such as `@read` names."""
        return self.words[0][1:] if self.words and self.words[0].startswith("@") else None

    @property
    def program(self) -> str | None:
        """The name of the program, as a deny compares it; None if it may be several."""
        is_named = self.words and self.usage_kind is None and not has_wildcard(self.words[0])
        return _base(self.words[0]) if is_named else None

    def covers(self, subcommand: Subcommand) -> bool:
        """Return whether an allow surely matches a command; paths decide about the files that it writes."""
        if self.usage_kind is not None:
            return self._covers_usage(subcommand)
        if not self._has_assignments(subcommand) or (subcommand.reads and not self.is_open):
            return False
        if not subcommand.words:
            return not subcommand.assignments or bool(self.assignments)
        heads, rest = subcommand.words[: len(self.words)], subcommand.words[len(self.words) :]
        if len(heads) < len(self.words) or (rest and not self.is_open) or subcommand.name is None:
            return False
        return all(
            word.is_plain and (fits(mine, word.text) or _same_options(mine, word.text, subcommand))
            for mine, word in zip(self.words, heads, strict=True)
        )

    def _covers_usage(self, subcommand: Subcommand) -> bool:
        if not subcommand.words:
            return not subcommand.assignments
        usage = subcommand.usage
        is_known = usage is not None and usage.kind == self.usage_kind and self._has_assignments(subcommand)
        return is_known and (subcommand.opaque is None or self.usage_kind not in RUNS_NOTHING)

    def names_program(self, subcommand: Subcommand) -> bool:
        """Return whether an allow matches a command and spells out its program, and the option that is a risk."""
        if self.usage_kind is not None:
            return self._covers_usage(subcommand)
        is_named = self.program is not None and self.covers(subcommand)
        return is_named and (subcommand.risk is None or subcommand.risk in self.words or not self.is_open)

    def _has_assignments(self, subcommand: Subcommand) -> bool:
        return all(
            (word.head in HARMLESS_VARIABLES and not word.is_inherited)
            or (word.text.startswith("IFS=") and subcommand.name == "read")
            or (word.is_plain and any(fits(mine, word.text) for mine in self.assignments))
            for word in subcommand.assignments
        )

    def hits(self, subcommand: Subcommand) -> bool:
        """Return whether a deny or an ask may match a command; unknown words may be any of those in the pattern."""
        if not all(any(_could_be(mine, word) for word in subcommand.assignments) for mine in self.assignments):
            return False
        if not self.words:
            return True
        if self.usage_kind is not None:
            return _may_be_used(self.usage_kind, subcommand)
        if not subcommand.words or not _could_be_named(self.words[0], subcommand.words[0]):
            return False
        return _has_arguments(self.words, subcommand.words[1:])

    def surely_hits(self, subcommand: Subcommand) -> bool:
        """Return whether a deny or an ask matches a command by its known words alone."""
        known = tuple(word for word in subcommand.words if word.is_plain or word.text in self.words)
        return self.hits(subcommand._replace(words=known)) and known[:1] == subcommand.words[:1]

    def is_mentioned_in(self, line: CommandLine) -> bool:
        """Return whether the program of the pattern occurs anywhere in a command line, also inside quotes."""
        name = "*" if not self.words else _base(self.words[0])
        if not name.strip("*?"):
            return True
        plain = re.split(r"[*?]", name)[0]
        words = [word.text for each in line.subcommands for word in (*each.assignments, *each.words)]
        texts = [each for each in (line.text, *words) if plain in each.casefold()]
        if not texts:
            return False
        spelled = re.escape(name).replace(r"\*", r"\S*").replace(r"\?", r"\S")
        mention = re.compile(rf"(?<!\w)(?:-\w*)?{spelled}(?!\w)", re.IGNORECASE)
        return any(map(mention.search, texts))


def _may_be_used(kind: str, subcommand: Subcommand) -> bool:
    """Return whether a command may be of a kind; one without a usage may be of any."""
    usage = subcommand.usage
    if kind != WRITES:
        return bool(subcommand.words) and (usage is None or usage.kind == kind)
    # A wrapper only runs other programs, which are listed.
    may_write = bool(subcommand.words) and not subcommand.is_wrapper if usage is None else bool(usage.writes)
    return bool(subcommand.writes) or may_write


class CommandPatterns:
    """The command patterns of a rule, by program: of a long list only a few can match one command."""

    __slots__ = ("_all", "_by_program")

    def __init__(self, patterns: Sequence[CommandPattern]) -> None:
        """Take the patterns in order."""
        self._all = tuple(patterns)
        programs = {None, *(each.program for each in patterns)}
        self._by_program = {name: tuple(each for each in patterns if each.program in (None, name)) for name in programs}

    def for_command(self, subcommand: Subcommand) -> tuple[CommandPattern, ...]:
        """Return the patterns that may match a command, in order."""
        name = subcommand.words[0] if subcommand.words else None
        if name is None or name.is_unknown or name.expands:
            return self._all
        return self._by_program.get(_base(name.text)) or self._by_program[None]


def command_pattern(text: str) -> CommandPattern:
    """Parse a pattern of a rule.

    Raises:
        ValueError: it is not one command; the message says what to write.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"a command pattern needs its quotes in pairs, got {text!r}; close or escape them") from error
    if not words:
        raise ValueError(f"a command pattern needs at least a name, got {text!r}; '*' stands for any command")
    if _OPERATORS.search(text):
        raise ValueError(f"a command pattern is one command, got {text!r}; write a list with one pattern per command")
    first = next((index for index, word in enumerate(words) if not _ASSIGNMENT.match(word)), len(words))
    is_open = words[-1] == "*"
    rest = words[first : len(words) - is_open]
    pattern = CommandPattern(text=text, assignments=tuple(words[:first]), words=tuple(rest), is_open=is_open)
    check_kind(pattern.usage_kind or WRITES)
    return pattern


def _could_be_named(wanted: str, name: Word) -> bool:
    if name.is_unknown:
        # The line is in doubt then, which already makes a deny ask.
        return False
    if name.expands:
        return has_wildcard(wanted) or Wild(_base(name.text)).accepts(_base(wanted))
    return fits(_base(wanted), _base(name.text))


def _base(name: str) -> str:
    """Return the name that a deny compares: without its directory, in lower case."""
    return name.rpartition("/")[2].casefold()


def _could_be(wanted: str, word: Word) -> bool:
    if word.is_unknown:
        # The name of a variable that is set is known even where its value is not.
        return "=" not in wanted or word.text.startswith(wanted.partition("=")[0]) or "=" not in word.text
    if word.is_number:
        # The text has a zero or a star where the number is.
        return not wanted.strip("0123456789*?") or fits(wanted, word.text)
    if word.expands:
        return Wild(word.text).accepts(wanted) or has_wildcard(wanted)
    return fits(wanted, word.text) or fits(wanted, word.head)


def _has_arguments(wanted: tuple[str, ...], words: Words) -> bool:
    """Return whether all options may be there, in any form and place, and the other words in this order."""
    if any(word.is_unknown for word in words):
        return True
    missing = [each for each in wanted[1:] if not _OPTION.match(each)]
    every = words
    if missing and missing[0] == wanted[1] and _base(wanted[0]) in _WITH_SUBCOMMANDS:
        words = _from_subcommand(missing[0], words)
        if not words:
            return False
    names = _long_names(wanted)
    given = {name for word in every for name in _option_names(word.text, names)}
    options = {name for each in wanted[1:] if _OPTION.match(each) for name in _option_names(each, names)}
    for word in words:
        if missing and _could_be(missing[0], word):
            del missing[0]
    return not missing and all(any(_is_abbreviation(each, name) for each in given) for name in options)


def _from_subcommand(wanted: str, words: Words) -> Words:
    """Return the words from the wanted sub-command on; the word after an option may be the option's value."""
    for index, word in enumerate(words):
        if word.text.startswith("-"):
            continue
        if _could_be(wanted, word):
            return words[index:]
        if not index or not words[index - 1].text.startswith("-"):
            break
    return ()


def _long_names(words: tuple[str, ...]) -> dict[str, list[str]] | None:
    """Return the long names of the short options of a program; None if its options are not single letters."""
    program = _base(words[0]) if words else ""
    if program in _WHOLE_WORDS:
        return None
    operand = next((word for word in words[1:] if not word.startswith("-")), "")
    names = program_table().long_names
    return names.get(f"{program} {operand}") or names.get(program) or names["*"]


def _option_names(text: str, names: dict[str, list[str]] | None) -> list[str]:
    """Return the options of one word by their long names, or by their letters where they have none."""
    option = text.partition("=")[0]
    if not option.startswith("-") or option in ("-", "--"):
        return []
    if option.startswith("--"):
        return [option[2:]]
    if names is None or option[1:].isdigit():
        return [option]
    return [long for letter in text[1:] for long in names.get(letter, [letter])]


def _is_abbreviation(given: str, name: str) -> bool:
    is_short = len(given) < _SHORTEST_ABBREVIATION or given.startswith("-")
    return given == name or (not is_short and name.startswith(given))


def _same_options(mine: str, yours: str, subcommand: Subcommand) -> bool:
    """Return whether two words are the same options in another form."""
    if not _OPTION.match(mine) or not _OPTION.match(yours) or "=" in yours:
        return False
    names = _long_names(tuple(word.text for word in subcommand.words))
    return set(_option_names(mine, names)) == set(_option_names(yours, names))
