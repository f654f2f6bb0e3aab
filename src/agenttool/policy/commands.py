"""Command patterns of rules, and the commands that a command line runs.

One rule decides what counts as understood. A simple command is understood if its name is known and its program runs no
other program: see `_PLAIN_PROGRAMS`. A few wrappers (`env`, `sudo`, `xargs`, `bash -c`, `find -exec`) are understood
because the commands that they run can be listed. Every other command is *opaque*: it may run anything. A deny or an ask
on commands then asks, unless an allow rule names the program. A line that cannot be read at all is *in doubt*: no allow
on commands covers it, and a deny or an ask on commands asks.
"""

import re
import shlex
from dataclasses import dataclass, replace
from getopt import GetoptError, getopt

from agenttool.policy.paths import split
from agenttool.policy.shell import RESERVED, Certainty, CommandLine, Subcommand, Word, parse_commands
from agenttool.policy.wildcards import Wild, fits, has_wildcard

HARMLESS_VARIABLES = frozenset({"LANG", "LC_ALL", "LC_CTYPE", "TZ", "NO_COLOR", "FORCE_COLOR", "TERM", "COLUMNS"})
"""Variables that change the output of a command and not what it does; an allow need not name them."""

MAX_NESTED_COMMANDS = 6
"""How many wrappers may stand before a command; a longer chain leaves the line in doubt."""

_OPERATORS = re.compile(r"(?:&&|\|\||[;|&<>]|\$\(|`)")
_ASSIGNMENT = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*\+?=")
_CLUSTER = re.compile(r"^-[A-Za-z]{1,4}$")
_SHORTEST_ABBREVIATION = 4
# Nearly every program that has one of these long options has the short one with the same meaning.
_SHORT_OPTIONS = {"--recursive": frozenset("rR"), "--force": frozenset("f")}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPattern:
    """One command of a rule: `git status`, `git log *`, `CI=1 npm test`.

    A last word `*` matches any further arguments. Without it an allow matches exactly these words. A deny or an ask
    matches every command of that name that has these words among its arguments, in this order. Flags match in any
    grouping, so `rm -rf` also matches `rm -f -r` and `rm --recursive --force`.
    """

    text: str
    assignments: tuple[str, ...]
    words: tuple[str, ...]
    is_open: bool

    def covers(self, subcommand: Subcommand) -> bool:
        """Return whether an allow surely matches a command; paths decide about the files that it writes."""
        if not self._has_assignments(subcommand) or (subcommand.reads and not self.is_open):
            return False
        if not subcommand.words:
            return not subcommand.assignments or bool(self.assignments)
        heads, rest = subcommand.words[: len(self.words)], subcommand.words[len(self.words) :]
        if len(heads) < len(self.words) or (rest and not self.is_open) or subcommand.name is None:
            return False
        return all(word.is_plain and fits(mine, word.text) for mine, word in zip(self.words, heads, strict=True))

    def names_program(self, subcommand: Subcommand) -> bool:
        """Return whether an allow matches a command and spells out its program."""
        return bool(self.words) and not has_wildcard(self.words[0]) and self.covers(subcommand)

    def _has_assignments(self, subcommand: Subcommand) -> bool:
        return all(
            word.text.partition("=")[0] in HARMLESS_VARIABLES
            or (word.is_plain and any(fits(mine, word.text) for mine in self.assignments))
            for word in subcommand.assignments
        )

    def hits(self, subcommand: Subcommand) -> bool:
        """Return whether a deny or an ask may match a command; unknown words may be any of those in the pattern."""
        if not all(any(_could_be(mine, word) for word in subcommand.assignments) for mine in self.assignments):
            return False
        if not self.words:
            return True
        if not subcommand.words or not _could_be_named(self.words[0], subcommand.words[0]):
            return False
        return _has_arguments(self.words[1:], subcommand.words[1:])

    def surely_hits(self, subcommand: Subcommand) -> bool:
        """Return whether a deny or an ask matches a command by its known words alone."""
        known = tuple(word for word in subcommand.words if word.certainty is not Certainty.UNKNOWN)
        return self.hits(replace(subcommand, words=known)) and known[:1] == subcommand.words[:1]

    def is_mentioned_in(self, line: CommandLine) -> bool:
        """Return whether the program of the pattern occurs anywhere in a command line, also inside quotes."""
        if not self.words or has_wildcard(self.words[0]):
            return True
        mention = re.compile(rf"(?<!\w)(?:-\w*)?{re.escape(_base(self.words[0]))}(?!\w)", re.IGNORECASE)
        words = (word.text for each in line.subcommands for word in (*each.assignments, *each.words))
        return mention.search(line.text) is not None or any(map(mention.search, words))


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
    return CommandPattern(text=text, assignments=tuple(words[:first]), words=tuple(rest), is_open=is_open)


def _could_be_named(wanted: str, name: Word) -> bool:
    if name.certainty is Certainty.UNKNOWN:
        # The line is in doubt then, which already makes a deny ask.
        return False
    if name.certainty is Certainty.EXPANDS:
        return has_wildcard(wanted) or Wild(_base(name.text)).accepts(_base(wanted))
    return fits(_base(wanted), _base(name.text))


def _base(name: str) -> str:
    """Return the name that a deny compares: without its directory, in lower case."""
    return name.rpartition("/")[2].casefold()


def _letters(words: tuple[Word, ...]) -> set[str]:
    """Return the single-letter flags of a command; `-R` counts as `-r` too, and some long options as short ones."""
    found = {letter for word in words if re.match(r"^-[^-]", word.text) for letter in word.text[1:]}
    for option, short in _SHORT_OPTIONS.items():
        if any(_is_option(option, word.text) for word in words):
            found |= short
    return found | {"r"} if "R" in found else found


def _has_arguments(wanted: tuple[str, ...], words: tuple[Word, ...]) -> bool:
    """Return whether all flags may be there, in any grouping, and the other words in this order."""
    if any(word.certainty is Certainty.UNKNOWN for word in words):
        return True
    letters = _letters(words)
    flags = {letter for each in wanted if _CLUSTER.match(each) for letter in each[1:]}
    missing = [
        each for each in wanted if not _CLUSTER.match(each) and not _SHORT_OPTIONS.get(each, frozenset()) & letters
    ]
    for word in words:
        if missing and _could_be(missing[0], word):
            del missing[0]
    return flags <= letters and not missing


def _is_option(wanted: str, text: str) -> bool:
    """Return whether a word is a long option or an abbreviation of it, perhaps with a value."""
    option = text.partition("=")[0]
    return option == wanted or (
        len(option) >= _SHORTEST_ABBREVIATION and option.startswith("--") and wanted.startswith(option)
    )


def _could_be(wanted: str, word: Word) -> bool:
    if word.certainty is Certainty.UNKNOWN:
        # The name of a variable that is set is known even where its value is not.
        return "=" not in wanted or word.text.startswith(wanted.partition("=")[0]) or "=" not in word.text
    if word.certainty is Certainty.EXPANDS:
        return Wild(word.text).accepts(wanted) or has_wildcard(wanted)
    return fits(wanted, word.text) or fits(wanted, word.text.partition("=")[0]) or _is_option(wanted, word.text)


_SYSTEM_DIRECTORIES = frozenset({"/bin", "/usr/bin"})
_PLAIN_PROGRAMS = frozenset(
    """
    : [ b2sum base32 base64 basename bg break cal cat cd chdir chgrp chmod chown cksum clear cmp column comm continue cp
    curl cut date dd df diff dig dirname dirs du echo egrep exit expand expr false fg fgrep file fmt fold free getent
    grep groups gunzip gzip head hexdump host hostname id join jq kill last link ln logname ls lsof md5sum mkdir mkfifo
    mktemp mv nl nproc nslookup numfmt od paste pgrep pidof ping pkill popd printenv printf ps pushd pwd read readlink
    realpath return rev rm rmdir seq sha1sum sha224sum sha256sum sha384sum sha512sum shift shuf sleep ss stat strings
    sum sync tac tail tee test touch tr tree true truncate tsort tty type umask uname unexpand uniq unlink unset unzip
    uptime users vmstat wait wc whereis which who whoami xxd yes zcat
    """.split()  # noqa: SIM905 -- a list of words reads best as words
)
"""Programs that run no program which their arguments or their input name. A program that is missing here is opaque."""

_RUNNING_OPTIONS = {
    "rg": ("--pre", "--hostname-bin", "--search-zip"),
    "sort": ("--compress-program",),
    "split": ("--filter",),
    "wget": ("--use-askpass", "--execute", "-e"),
}
"""Programs that run others by these options only; an abbreviation counts."""

_GIT_COMMANDS = frozenset(
    """
    add blame branch cat-file checkout commit describe diff init log ls-files ls-tree merge-base mv reflog reset restore
    rev-list rev-parse rm shortlog show stash status switch tag
    """.split()  # noqa: SIM905 -- as above
)
_GIT_OPTIONS = frozenset({"-C", "-P", "--no-pager"})
_DECLARATIONS = frozenset({"export", "declare", "typeset", "local", "readonly"})
_FIND_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
# Shells that read text as the grammar does, and the builtins that read a file as they do.
_SHELLS = frozenset({"sh", "bash", "dash", "ksh", "ash", "source", "."})
_SHELL_FLAGS = re.compile(r"^-[ceuxlvnaf]*c[ceuxlvnaf]*$")
_TEXT_RUNNERS = frozenset({"eval", "trap", "alias", "let"})
_STREAMS = (("dev",), ("proc",))

_WRAPPERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "env": ("iu:", ("ignore-environment", "unset=")),
    "nice": ("n:", ()),
    "nohup": ("", ()),
    "timeout": ("vk:s:", ("preserve-status", "foreground")),
    "stdbuf": ("i:o:e:", ()),
    "setsid": ("wfc", ()),
    "ionice": ("tc:n:", ()),
    "time": ("p", ()),
    "command": ("p", ()),
    "builtin": ("", ()),
    "exec": ("cla:", ()),
    "xargs": ("0rtxin:P:L:d:E:s:I:", ("null", "no-run-if-empty")),
    "sudo": ("nEHSbku:g:h:p:C:T:", ()),
    "doas": ("nu:C:", ()),
}
"""The wrappers, and their options that are understood, as `getopt` expects them."""

_PRIVILEGED = frozenset({"sudo", "doas"})
"""Wrappers that an allow must name."""


def list_commands(text: str) -> CommandLine:
    """Parse shell text, and list the commands that its wrappers run."""
    return _expanded(parse_commands(text), MAX_NESTED_COMMANDS)


def list_argv(argv: list[str]) -> CommandLine:
    """List the commands of a program and its arguments that run without a shell."""
    words = tuple(Word(each) for each in argv)
    line = CommandLine(text=shlex.join(argv), subcommands=(Subcommand(words=words),))
    return _expanded(line, MAX_NESTED_COMMANDS)


def _expanded(line: CommandLine, depth: int) -> CommandLine:
    found: list[Subcommand] = []
    is_in_doubt = line.is_in_doubt
    for subcommand in line.subcommands:
        inner = _inner(subcommand)
        found.append(replace(subcommand, is_wrapper=inner.is_transparent, is_opaque=inner.is_opaque))
        if depth == 0 and inner.line.subcommands:
            is_in_doubt = True
            continue
        below = _expanded(inner.line, depth - 1)
        # An allow that names a privileged wrapper covers what the wrapper runs.
        found += [replace(each, is_wrapper=each.is_wrapper or not inner.is_transparent) for each in below.subcommands]
        is_in_doubt = is_in_doubt or below.is_in_doubt
    return replace(line, subcommands=tuple(found), is_in_doubt=is_in_doubt)


_EMPTY = CommandLine()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inner:
    """The commands that one command runs.

    Attributes:
        is_transparent: whether the command does nothing else, so that an allow need not name it.
        is_opaque: whether the command may run others that are not listed.
    """

    line: CommandLine = _EMPTY
    is_transparent: bool = False
    is_opaque: bool = False


_OPAQUE = _Inner(is_opaque=True)
_IN_DOUBT = _Inner(line=CommandLine(is_in_doubt=True))


def _inner(subcommand: Subcommand) -> _Inner:
    """Return what one command runs; what is not understood is opaque."""
    if not subcommand.words:
        return _Inner(is_opaque=_sets_variables(subcommand.assignments))
    if subcommand.name is None or subcommand.name in RESERVED or subcommand.name.startswith("-"):
        return _IN_DOUBT
    directory, slash, name = subcommand.name.rpartition("/")
    if slash and directory not in _SYSTEM_DIRECTORIES:
        # A program elsewhere may have the name of a known one and be something else.
        return _OPAQUE
    return _run_by(name, subcommand)


def _run_by(name: str, subcommand: Subcommand) -> _Inner:
    if name in _TEXT_RUNNERS:
        return _IN_DOUBT
    if name in _SHELLS:
        return _shell(subcommand)
    if name in _WRAPPERS:
        return _unwrapped(name, subcommand)
    sets_variables = _sets_variables(subcommand.assignments)
    if name in ("find", "gfind") and not sets_variables:
        return _find(subcommand)
    return _Inner(is_opaque=sets_variables or not _is_plain(name, subcommand.words[1:]))


def _sets_variables(assignments: tuple[Word, ...]) -> bool:
    """Return whether variables are set that may name a program, such as `GIT_PAGER` or `LD_PRELOAD`."""
    return any(word.text.partition("=")[0].rstrip("+") not in HARMLESS_VARIABLES for word in assignments)


def _is_plain(name: str, words: tuple[Word, ...]) -> bool:
    """Return whether a program runs no other program, given these arguments."""
    if name == "git":
        return _is_plain_git(words)
    if name in _DECLARATIONS:
        return not _sets_variables(tuple(word for word in words if "=" in word.text))
    options = _RUNNING_OPTIONS.get(name)
    if options is None:
        return name in _PLAIN_PROGRAMS
    return not any(
        word.certainty is Certainty.UNKNOWN
        or any(word.text == each or _is_option(each, word.text) or word.text[:2] == each for each in options)
        for word in words
    )


def _is_plain_git(words: tuple[Word, ...]) -> bool:
    """Return whether git gets one of its own simple commands: not an alias, and no `-c` before it."""
    index = 0
    while index < len(words) and words[index].is_plain and words[index].text in _GIT_OPTIONS:
        index += 2 if words[index].text == "-C" else 1
    return index < len(words) and words[index].is_plain and words[index].text in _GIT_COMMANDS


def _shell(subcommand: Subcommand) -> _Inner:
    """Parse `bash -c 'text'`; a file is opaque, and other text, also from a stream, may come from the line itself."""
    words = subcommand.words[1:]
    if any(not word.is_plain for word in words[:2]):
        return _IN_DOUBT
    if len(words) > 1 and _SHELL_FLAGS.match(words[0].text):
        is_opaque = _sets_variables(subcommand.assignments)
        return _Inner(line=parse_commands(words[1].text), is_transparent=True, is_opaque=is_opaque)
    if not words or words[0].text.startswith(("-", "+")) or split(words[0].text)[:1] in _STREAMS:
        return _IN_DOUBT
    return _OPAQUE


def _find(subcommand: Subcommand) -> _Inner:
    """List the commands that `find` runs by `-exec` and its variants."""
    words = subcommand.words[1:]
    if any(word.certainty is Certainty.UNKNOWN for word in words):
        return _OPAQUE
    commands: list[Subcommand] = []
    for index, word in enumerate(words):
        if word.text in _FIND_ACTIONS:
            rest = [each.text for each in words[index + 1 :]]
            end = next((at for at, text in enumerate(rest) if text in (";", "+")), len(rest))
            commands.append(Subcommand(words=tuple(_filled_in(list(words[index + 1 : index + 1 + end]), "{}"))))
    return _Inner(line=CommandLine(subcommands=tuple(commands)))


def _unwrapped(name: str, subcommand: Subcommand) -> _Inner:
    """Skip the options of a wrapper and return what it runs; a wrapper with other options is opaque."""
    given, (short, long) = subcommand.words[1:], _WRAPPERS[name]
    try:
        options, rest = getopt([word.text for word in given], short, long)
    except GetoptError:
        return _OPAQUE
    # The first operand of `timeout` is its duration; `env -` starts with an empty environment.
    skipped = len(given) - len(rest) + (name == "timeout" or rest[:1] == ["-"])
    words = list(given[skipped:])
    if any(not word.is_plain for word in given[:skipped]):
        return _OPAQUE
    assignments: list[Word] = []
    while name in ("env", "sudo") and words and words[0].is_plain and _ASSIGNMENT.match(words[0].text):
        assignments.append(words.pop(0))
    if name == "xargs":
        placeholder = dict(options).get("-I", "{}" if ("-i", "") in options else None)
        words = _filled_in(words or [Word("echo")], placeholder)
    inner = Subcommand(words=tuple(words), assignments=(*subcommand.assignments, *assignments))
    line = CommandLine(subcommands=(inner,) if words else ())
    return _Inner(line=line, is_transparent=bool(words) and name not in _PRIVILEGED)


def _filled_in(words: list[Word], placeholder: str | None) -> list[Word]:
    """Return the words of a command with what `xargs` or `find` fills in, which may be anything."""
    if not placeholder:
        return [*words, Word("", Certainty.UNKNOWN)]
    return [Word(word.text, Certainty.UNKNOWN) if placeholder in word.text else word for word in words]
