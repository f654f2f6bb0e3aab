"""Patterns for commands, and what it means for one to cover or to catch a command."""

import re
import shlex
from dataclasses import dataclass

from agenttool.policy.commands import Subcommand
from agenttool.policy.wildcards import Wild, fits, has_wildcard
from agenttool.policy.words import Certainty, Word

HARMLESS_VARIABLES = frozenset({"LANG", "LC_ALL", "LC_CTYPE", "TZ", "NO_COLOR", "FORCE_COLOR", "TERM", "COLUMNS"})
"""Variables that change how a command speaks and not what it does; an allow need not name them."""

_OPERATORS = re.compile(r"(?:&&|\|\||[;|&<>]|\$\(|`)")
_ASSIGNMENT = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*\+?=")
_CLUSTER = re.compile(r"^-[A-Za-z]{1,4}$")
_SHORTEST_ABBREVIATION = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPattern:
    """One command of a rule: `git status`, `git log *`, `CI=1 npm test`.

    A last word `*` stands for any further arguments. Without it an allow means exactly these words. A deny or an ask
    means every command with that name and these words among its arguments, in this order, whatever stands between;
    flags may come in any grouping, so that `rm -rf` also catches `rm -f -r`.
    """

    text: str
    assignments: tuple[str, ...]
    words: tuple[str, ...]
    is_open: bool

    def covers(self, subcommand: Subcommand) -> bool:
        """Tell whether an allow may be sure of a command; what it writes to is a question of paths."""
        if not self._has_assignments(subcommand) or (subcommand.reads and not self.is_open):
            return False
        if not subcommand.words:
            return not subcommand.assignments or bool(self.assignments)
        heads, rest = subcommand.words[: len(self.words)], subcommand.words[len(self.words) :]
        if len(heads) < len(self.words) or (rest and not self.is_open) or subcommand.name is None:
            return False
        return all(word.is_plain and fits(mine, word.text) for mine, word in zip(self.words, heads, strict=True))

    def _has_assignments(self, subcommand: Subcommand) -> bool:
        return all(
            word.text.partition("=")[0] in HARMLESS_VARIABLES
            or (word.is_plain and any(fits(mine, word.text) for mine in self.assignments))
            for word in subcommand.assignments
        )

    def hits(self, subcommand: Subcommand) -> bool:
        """Tell whether a deny or an ask must assume that a command is meant."""
        if not all(any(_could_be(mine, word) for word in subcommand.assignments) for mine in self.assignments):
            return False
        if not self.words:
            return True
        if not subcommand.words or not _could_be_named(self.words[0], subcommand.words[0]):
            return False
        return _has_flags(self.words[1:], subcommand.words[1:]) and _has_words(self.words[1:], subcommand.words[1:])


def command_pattern(text: str) -> CommandPattern:
    """Read a pattern of a rule.

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
    return CommandPattern(text=text, assignments=tuple(words[:first]), words=tuple(rest), is_open=is_open)


def _could_be_named(wanted: str, name: Word) -> bool:
    if name.certainty is Certainty.UNKNOWN:
        return True
    if name.certainty is Certainty.EXPANDS:
        return has_wildcard(wanted) or Wild(_base(name.text)).accepts(_base(wanted))
    return fits(_base(wanted), _base(name.text))


def _base(name: str) -> str:
    """Give the name that a deny looks at: without its directory, in one case."""
    return name.rpartition("/")[2].casefold()


def _is_cluster(word: str) -> bool:
    return _CLUSTER.match(word) is not None


def _has_flags(wanted: tuple[str, ...], words: tuple[Word, ...]) -> bool:
    """Tell whether all single-letter flags could be there, in whatever grouping."""
    letters = {letter for flag in wanted if _is_cluster(flag) for letter in flag[1:]}
    if any(word.certainty is Certainty.UNKNOWN for word in words):
        return True
    given = {letter for word in words if re.match(r"^-[^-]", word.text) for letter in word.text[1:]}
    return letters <= given


def _has_words(wanted: tuple[str, ...], words: tuple[Word, ...]) -> bool:
    """Tell whether the other words could be there, in this order; an unknown word could be any of them."""
    missing = [each for each in wanted if not _is_cluster(each)]
    for word in words:
        if not missing:
            return True
        if word.certainty is Certainty.UNKNOWN:
            return True
        if _could_be(missing[0], word):
            del missing[0]
    return not missing


def _could_be(wanted: str, word: Word) -> bool:
    if word.certainty is Certainty.UNKNOWN:
        # The name of a variable that is set is known even where its value is not.
        return "=" not in wanted or word.text.startswith(wanted.partition("=")[0]) or "=" not in word.text
    if word.certainty is Certainty.EXPANDS:
        return Wild(word.text).accepts(wanted) or has_wildcard(wanted)
    # Many programs take `--forc` for `--force`, and a value may follow an equals sign.
    option = word.text.partition("=")[0]
    is_short_for = len(option) >= _SHORTEST_ABBREVIATION and option.startswith("--") and wanted.startswith(option)
    return fits(wanted, word.text) or fits(wanted, option) or is_short_for
