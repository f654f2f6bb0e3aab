"""Which programs get only arguments that are known to be harmless, and which files these name.

`programs.toml` lists the options and operands of each program. A command has a usage only if all of its words are in
that list. An unknown option, an abbreviation or a computed operand leaves it without one, and so it is asked about.
"""

import re
import tomllib
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple, cast

from agenttool.policy.scripts import SCRIPT_CHECKS
from agenttool.policy.shell_words import Certainty, Word

MAX_ARGUMENTS = 100
"""A command with more arguments has no usage."""

WRITES = "writes"
"""The kind of a deny or an ask for commands that write files, or may do so."""
_KINDS_OF_PROGRAMS = ("read", "edit", "move", "git", "build", "services", "local")
RUNS_NOTHING = frozenset({"read", "edit", "move"})
"""The kinds of programs that run no others."""
_SYSTEM_DIRECTORIES = ("/bin/", "/usr/bin/")
_ASKS_FOR_HELP = frozenset({"--version", "--help", "-version"})
_PROGRAM = re.compile(r"[A-Za-z][\w.+-]*")
_STREAMS = frozenset({"-", "/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_MAX_SUBCOMMANDS = 5
_ANY_VALUE = frozenset({"text", "number", "pair"})
"""The kinds of values that may be computed."""
_PATH_MARKS = re.compile(r"[/~]|^\.")


class _Option(NamedTuple):
    kind: str | None = None
    is_optional: bool = False
    replaces_operand: bool = False
    writes: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """How a command uses a known program.

    Attributes:
        kind: the table of `programs.toml` that lists the program: `read`, `build` and so on.
        reads: the files that it reads, or runs.
        looks: the files of which it only shows names, sizes or counts.
        writes: the files that it writes.
    """

    kind: str
    reads: tuple[Word, ...] = ()
    writes: tuple[Word, ...] = ()
    looks: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class _ProgramLine:
    """One line of `programs.toml`."""

    kind: str
    options: dict[str, _Option]
    operands: tuple[str, ...]
    flags: frozenset[str]


@dataclass(slots=True)
class _Reading:
    """What has been read of the arguments of one command."""

    operands: list[Word] = field(default_factory=list[Word])
    reads: list[Word] = field(default_factory=list[Word])
    writes: list[Word] = field(default_factory=list[Word])
    looks: list[Word] = field(default_factory=list[Word])
    sources: list[Word] = field(default_factory=list[Word])
    rest: list[Word] = field(default_factory=list[Word])
    skips_operand: bool = False
    in_place: bool = False


class _Tables:
    """The parsed content of `programs.toml`."""

    def __init__(self) -> None:
        tables = tomllib.loads((files("agenttool") / "policy" / "programs.toml").read_text(encoding="utf-8"))
        self.kinds = cast("dict[str, list[str]]", tables["kinds"])
        sets = cast("dict[str, str]", tables["sets"])
        self._sets = {f":{name}": text.split() for name, text in sets.items()}
        lookup = cast("dict[str, str]", tables["lookup"])
        self.before_subcommand = {name: self._signature("", f"{text} |") for name, text in lookup.items()}
        runners = cast("dict[str, list[str]]", tables["runners"])
        self.runners = sorted((tuple(each.split()) for each in runners["words"]), key=len, reverse=True)
        self.folders = frozenset(runners["folders"])
        self.programs = {
            name: (kind, text)
            for kind in _KINDS_OF_PROGRAMS
            for name, text in cast("dict[str, str]", tables[kind]).items()
        }
        self.first_words = frozenset(name.split()[0] for name in self.programs)
        self._signatures: dict[str, _ProgramLine] = {}

    def signature(self, name: str) -> _ProgramLine | None:
        """Return the line of a program, which is parsed when it is used first."""
        if name not in self._signatures and name in self.programs:
            self._signatures[name] = self._signature(*self.programs[name])
        return self._signatures.get(name)

    def _signature(self, kind: str, text: str) -> _ProgramLine:
        written, _, operands = text.rpartition("|") if "|" in text else (text, "", "")
        options: dict[str, _Option] = {}
        parts = [part for each in written.split() for part in self._sets.get(each, [each])]
        for part in parts:
            if part.startswith("-") and part != "--*":
                self._add(options, part, is_words="%words" in parts)
        flags = frozenset(each for each in parts if each[0] == "%" or each == "--*")
        return _ProgramLine(kind, options, tuple(operands.split()), flags)

    @staticmethod
    def _add(options: dict[str, _Option], text: str, *, is_words: bool) -> None:
        match = re.fullmatch(r"(-[^:=!^]+)(?:([:=])([a-z0-9]+))?([!^]?)", text)
        if match is None:
            raise ValueError(f"{text!r} is no option in programs.toml")
        names, joint, kind, mark = match.groups()
        option = _Option(kind, joint == "=", mark == "!", mark == "^")
        if names.startswith("--") or is_words:
            options[names] = option
            return
        *plain, last = names[1:]
        for letter in plain:
            options.setdefault(f"-{letter}", _Option())
        options[f"-{last}"] = option


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def check_kind(kind: str) -> None:
    """Load the tables, and check that they have a kind of programs.

    Raises:
        ValueError: they have none; the message lists the kinds.
    """
    if kind not in (*_KINDS_OF_PROGRAMS, WRITES) or not _tables():
        known = ", ".join(f"@{each}" for each in (*_KINDS_OF_PROGRAMS, WRITES))
        raise ValueError(f"there are no known commands of the kind {'@' + kind!r}; use one of {known}")


@lru_cache(maxsize=1)
def _tables() -> _Tables:
    return _Tables()


class _NotKnownError(Exception):
    """A program or one of its arguments is not in `programs.toml`."""


@lru_cache(maxsize=128)
def usage_of(words: tuple[Word, ...]) -> Usage | None:
    """Return how a command uses a known program; None if the program or one of its arguments is not known."""
    if not words or len(words) > MAX_ARGUMENTS or not words[0].is_plain:
        return None
    if any(word.certainty is Certainty.INHERITED for word in words):
        return None
    name = words[0].text
    is_help = [word.text for word in words[1:] if word.is_plain and word.text in _ASKS_FOR_HELP]
    if is_help and len(words[1:]) == 1 and _PROGRAM.fullmatch(name):
        return Usage("read")
    for directory in _SYSTEM_DIRECTORIES:
        name = name.removeprefix(directory)
    words = (Word(name), *words[1:])
    try:
        return _local_program(words) if "/" in name else _found_program(words)
    except _NotKnownError:
        return None


def _local_program(words: tuple[Word, ...]) -> Usage:
    """Return the usage of a program that lies in the workspace: a tool of an environment, or a script."""
    name, tables = words[0].text, _tables()
    folder, _, base = name.rpartition("/")
    if name in tables.programs:
        return _found_program(words)
    if base not in tables.first_words:
        return _found_program((Word("sh"), *words))
    if folder not in tables.folders:
        raise _NotKnownError
    return _built(_found_program((Word(base), *words[1:])))


def _built(usage: Usage) -> Usage:
    if usage.kind != "build":
        raise _NotKnownError
    return usage


def _found_program(words: tuple[Word, ...]) -> Usage:
    words = _tar_words(words)
    if words[0].text == "find":
        return _find_usage(words[1:])
    try:
        return _listed(words)
    except _NotKnownError:
        texts = tuple(word.text if word.is_plain else "" for word in words)
        for runner in _tables().runners:
            if len(texts) > len(runner) and texts[: len(runner)] == runner:
                return _built(_found_program(words[len(runner) :]))
        raise


def _listed(words: tuple[Word, ...]) -> Usage:
    """Return the usage by the longest name that a table has: of `git stash push`, of `git stash`, of `git`."""
    tables = _tables()
    before = _Reading()
    texts: list[str] = []
    ends: list[int] = []
    at = 0
    while at < len(words) and len(texts) < _MAX_SUBCOMMANDS and words[at].is_plain:
        prefix = tables.before_subcommand.get(" ".join(texts))
        while prefix is not None and at < len(words) and _is_option_of(prefix, words[at]):
            at += _take_option(prefix, words, at, before)
        if at < len(words):
            texts.append(words[at].text)
            at += 1
            ends.append(at)
    for count in range(len(texts), 0, -1):
        signature = tables.signature(" ".join(texts[:count]))
        if signature is not None:
            found = _read_arguments(signature, words[ends[count - 1] :])
            return replace(found, reads=(*before.reads, *found.reads))
    raise _NotKnownError


def _is_option_of(signature: _ProgramLine, word: Word) -> bool:
    return word.is_plain and word.text.partition("=")[0] in signature.options


def _read_arguments(signature: _ProgramLine, words: tuple[Word, ...]) -> Usage:
    if "%any" in signature.flags:
        if words and words[0].text.startswith("-v"):
            raise _NotKnownError
        return Usage(signature.kind)
    reading, at = _Reading(), 0
    while at < len(words):
        word = words[at]
        if _begins_rest(signature, word, len(reading.operands)):
            reading.rest += words[at + (word.text == "--") :]
            break
        if word.text == "--" and word.is_plain and "%nodash" not in signature.flags:
            reading.operands += words[at + 1 :]
            break
        if word.text.startswith("-") and word.text != "-":
            at += _take_option(signature, words, at, reading)
        else:
            # A word that is computed could be an option.
            reading.operands.append(word)
            at += 1
    if any(word.is_unknown for word in (*reading.operands, *reading.rest)):
        raise _NotKnownError
    return _usage(signature, reading)


def _begins_rest(signature: _ProgramLine, word: Word, count: int) -> bool:
    """Return whether a word and all after it go to the project's own program."""
    kinds = signature.operands
    is_after = bool(kinds) and kinds[-1] == "rest*" and count >= len(kinds) - 1
    return is_after or (word.is_plain and word.text == "--" and "--*" in signature.flags)


def _take_option(signature: _ProgramLine, words: tuple[Word, ...], at: int, reading: _Reading) -> int:
    """Read one word with options and their values, and return how many words it takes."""
    word = words[at]
    if re.fullmatch(r"-\d+", word.text) and "-#" in signature.options:
        return 1
    name, joint, value = word.text.partition("=")
    if name.startswith("--") or "%words" in signature.flags:
        option = _known_option(signature, name)
        if option.kind is None and joint:
            raise _NotKnownError
        return _take_value(option, Word(value, word.certainty) if joint else None, words[at:], reading)
    for index, letter in enumerate(word.text[1:], 1):
        option = _known_option(signature, f"-{letter}")
        if option.kind is not None:
            rest = word.text[index + 1 :]
            return _take_value(option, Word(rest, word.certainty) if rest else None, words[at:], reading)
        _take_value(option, None, words[at:], reading)
    return 1


def _known_option(signature: _ProgramLine, name: str) -> _Option:
    option = signature.options.get(name)
    if option is None or name == "-#":
        raise _NotKnownError
    return option


def _take_value(option: _Option, joined: Word | None, words: tuple[Word, ...], reading: _Reading) -> int:
    """Read the value of the option in the first of some words, and return how many words both take."""
    reading.skips_operand |= option.replaces_operand
    reading.in_place |= option.writes
    if option.kind is None or (joined is None and option.is_optional):
        if not words[0].is_plain:
            raise _NotKnownError
        return 1
    values = [joined] if joined is not None else words[1 : 3 if option.kind == "pair" else 2]
    if not values:
        raise _NotKnownError
    for value in values:
        _take_word(option.kind, value, reading, is_value=True)
    return 1 if joined is not None else 1 + len(values)


def _take_word(name: str, word: Word, reading: _Reading, *, is_value: bool = False) -> None:
    """Check that a word is of a kind, and note the file that it names."""
    role, pattern = _tables().kinds[name]
    is_number = word.certainty is Certainty.NUMBER and role == "text"
    is_free = is_number or (is_value and word.certainty is Certainty.COMPUTED and name in _ANY_VALUE)
    if not is_free and (word.is_unknown or _compiled(pattern).fullmatch(word.text) is None):
        raise _NotKnownError
    check = SCRIPT_CHECKS.get(role)
    if check is not None and not (word.is_plain and check(word.text)):
        raise _NotKnownError
    if role == "filter" and _is_secret_filter(word.text):
        raise _NotKnownError
    if word.text in _STREAMS and role in ("read", "write"):
        return
    if role in ("read", "run", "source"):
        reading.reads.append(word)
    if role == "source":
        reading.sources.append(word)
    elif role == "rev":
        texts = dict.fromkeys((word.text, *word.text.split(":")))
        reading.reads += [Word(each, word.certainty) for each in texts if each]
    elif role == "look":
        reading.looks.append(word)
    elif role in ("write", "dest"):
        reading.writes += [word, *(_below(word, each) for each in reading.sources)]


def _below(folder: Word, source: Word) -> Word:
    """Return the file that a copy into a folder creates: it has the name of its source."""
    certainty = source.certainty if folder.is_plain else folder.certainty
    return Word(f"{folder.text.rstrip('/') or '/'}/{source.text.rstrip('/').rpartition('/')[2]}", certainty)


def _usage(signature: _ProgramLine, reading: _Reading) -> Usage:
    kinds = list(signature.operands[1:] if reading.skips_operand else signature.operands)
    if kinds[-1:] == ["rest*"]:
        kinds.pop()
    operands = reading.operands
    star = next((index for index, each in enumerate(kinds) if each.endswith("*")), None)
    if star is not None:
        count = max(len(operands) - len(kinds) + 1, int(star < len(kinds) - 1))
        kinds[star : star + 1] = [kinds[star].rstrip("*")] * count
    if len(operands) > len(kinds) or any(each.endswith("+") for each in kinds[len(operands) :]):
        raise _NotKnownError
    for kind, word in zip(kinds, operands, strict=False):
        _take_word(kind.rstrip("+"), word, reading)
    reading.reads += [part for each in reading.rest for part in _path_parts(each)]
    # What is moved is gone from where it was.
    changed = reading.reads if reading.in_place else reading.sources if signature.kind != "edit" else []
    written = (*reading.writes, *changed)
    kind = "edit" if signature.kind == "read" and written else signature.kind
    return Usage(kind, tuple(reading.reads), written, tuple(reading.looks))


def _path_parts(word: Word) -> list[Word]:
    """Return what may be a path in an argument of the project's own program."""
    parts = dict.fromkeys((word.text, word.text.partition("=")[2]))
    return [Word(each, word.certainty) for each in parts if each and _PATH_MARKS.search(each)]


def _tar_words(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Spell the first word of `tar` as single options, the one that says what it does first."""
    if words[0].text != "tar" or len(words) == 1 or not re.fullmatch(r"-?[a-zA-Z]+", words[1].text):
        return words
    letters = words[1].text.removeprefix("-")
    action = next((each for each in letters if each in "ctx"), "x")
    others = letters.replace(action, "", 1)
    options = [Word(f"-{others}")] if others else []
    return (words[0], Word(f"-{action}"), *options, *words[2:])


_FIND_TESTS = {
    **dict.fromkeys(("-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-lname"), "text"),
    **dict.fromkeys(("-type", "-xtype", "-user", "-group", "-regextype", "-fstype"), "name"),
    **dict.fromkeys(
        ("-maxdepth", "-mindepth", "-mtime", "-mmin", "-ctime", "-cmin", "-atime", "-amin", "-size", "-links"), "number"
    ),
    **dict.fromkeys(("-newer", "-anewer", "-cnewer", "-samefile"), "read"),
    **dict.fromkeys(("-newermt", "-printf", "-perm", "-inum", "-uid", "-gid"), "text"),
}
_FIND_WORDS = frozenset(
    """
    ( ) ! , -not -a -and -o -or -print -print0 -prune -quit -ls -empty -readable -writable -executable -true -false
    -depth -xdev -mount -follow -daystart -noleaf -nouser -nogroup -L -H -P -E -warn -nowarn -ignore_readdir_race
    """.split()  # noqa: SIM905 -- a list of words reads best as words
)
_FILTERS = frozenset({"grep", "head", "sort", "tail", "uniq"})
_FILTER_OPTIONS = re.compile(r"-[viEFwxPnur]*|-\d+")
_LISTING_OPTIONS = {
    "find": re.compile(""),
    "ls": re.compile(r"-[1trd]+"),
    "git ls-files": re.compile(r"-[cdmz]+|--cached|--modified|--exclude-standard|--"),
    "git diff": re.compile(r"-z|--name-only|--cached|--staged|--diff-filter=\w+|--"),
    "grep": re.compile(r"-[rRlinwEFZ]+|--files-with-matches|--(?:include|exclude|exclude-dir)=.*|-e"),
    "rg": re.compile(r"-[linwF0]+|--files-with-matches|--files|-t|--type"),
}
"""The programs that print names of files if they get only these options."""
_ALWAYS_LIST = frozenset({"ls", "git ls-files"})
_LISTS_FILES = frozenset(
    {"-l", "-rl", "-lr", "-ril", "-rli", "-rln", "-rIl", "-il", "-li", "--files-with-matches", "--files", "--name-only"}
)
FIND_ACTIONS = frozenset({"-exec", "-execdir"})
_SECRET_EXAMPLES = (
    ".env",
    ".env.local",
    ".netrc",
    ".npmrc",
    ".pypirc",
    "id_rsa",
    "server.key",
    "cert.pem",
    "credentials",
    "credentials.json",
    "secrets.yml",
    "secrets.json",
    ".git-credentials",
    "secret.txt",
    "token",
)
"""Names that stand for all secret ones: a pattern that matches one of them may find secrets."""


def find_commands(words: tuple[Word, ...]) -> list[tuple[Word, ...]]:
    """Return the commands that `find` runs by `-exec`; what it finds lies below its first starting point."""
    found = _found_below(words)
    commands: list[tuple[Word, ...]] = []
    for index, word in enumerate(words):
        if word.text in (*FIND_ACTIONS, "-ok", "-okdir"):
            rest = words[index + 1 :]
            end = _exec_end(rest)
            is_exact = word.text == "-exec"
            commands.append(
                tuple(
                    (found if is_exact and each.text == "{}" and at else Word(each.text, Certainty.UNKNOWN))
                    if "{}" in each.text
                    else each
                    for at, each in enumerate(rest[:end])
                )
            )
    return commands


def passes_names(words: tuple[Word, ...]) -> bool:
    """Return whether a command prints some lines of its input and nothing else."""
    usage = usage_of(words) if words and words[0].text in _FILTERS else None
    return usage is not None and not usage.reads and not usage.writes and _has_only(_FILTER_OPTIONS, words[1:])


def found_word(words: tuple[Word, ...]) -> Word:
    """Return a word for the names of files that a command prints; any text if it may print something else."""
    usage = usage_of(words)
    name = " ".join(word.text for word in words[: 2 if words[:1] == (Word("git"),) else 1])
    options = _LISTING_OPTIONS.get(name)
    if usage is None or options is None:
        return Word("", Certainty.UNKNOWN)
    texts = {word.text for word in words}
    if name == "find":
        prints_names = not texts & {*FIND_ACTIONS, "-printf", "-ls"}
        return _found_below(words[1:]) if prints_names else Word("", Certainty.UNKNOWN)
    if not _has_only(options, words[1:]) or not (name in _ALWAYS_LIST or texts & _LISTS_FILES):
        return Word("", Certainty.UNKNOWN)
    names = [word.text.rpartition("/")[2] for word in (*usage.reads, *usage.looks)]
    return Word(_secret_among(names) or ".", Certainty.EXPANDS)


def _has_only(options: re.Pattern[str], words: tuple[Word, ...]) -> bool:
    return all(options.fullmatch(word.text) for word in words if word.text.startswith("-"))


def _secret_among(patterns: list[str]) -> str | None:
    return next((each for each in _SECRET_EXAMPLES if any(fnmatchcase(each, one.casefold()) for one in patterns)), None)


def _is_secret_filter(pattern: str) -> bool:
    """Return whether a search is limited to secrets; one for all files of a common type is not."""
    secret = _secret_among([pattern])
    return secret is not None and not pattern.startswith(("!", "*.json", "*.y", "*.txt"))


def _found_below(words: tuple[Word, ...]) -> Word:
    """Return a word for what `find` finds: its first starting point, or a secret below it that its tests match."""
    start = next((word for word in words[:1] if not word.text.startswith(("-", "(", "!"))), Word("."))
    texts = [word.text for word in words]
    names = [
        after
        for before, test, after in zip(["", *texts], texts, texts[1:], strict=False)
        if test in ("-name", "-iname") and before not in ("!", "-not")
    ]
    alternatives = 1 + texts.count("-o") + texts.count("-or")
    secret = _secret_among(names)
    if len(names) < alternatives and start.text in (".", "./"):
        secret = _SECRET_EXAMPLES[0]
    text = start.text if secret is None else f"{start.text}/{secret}"
    return Word(text, max(start.certainty, Certainty.EXPANDS, key=list(Certainty).index))


def _exec_end(words: tuple[Word, ...]) -> int:
    """Return where a command of `-exec` ends: at a semicolon, or at a plus after the braces."""
    for at, word in enumerate(words):
        if word.text == ";" or (word.text == "+" and at and words[at - 1].text == "{}"):
            return at
    return len(words)


def _find_usage(words: tuple[Word, ...]) -> Usage:
    reading, at = _Reading(), 0
    while at < len(words):
        word = words[at]
        kind = _FIND_TESTS.get(word.text)
        if word.text in FIND_ACTIONS:
            at += 2 + _exec_end(words[at + 1 :])
        elif kind is not None:
            if at + 1 == len(words):
                raise _NotKnownError
            _take_word(kind, words[at + 1], reading)
            at += 2
        else:
            if word.text not in _FIND_WORDS:
                _take_word("start", word, reading)
            at += 1
    if at > len(words) or any(word.is_unknown for word in words):
        raise _NotKnownError
    return Usage("read", tuple(reading.reads))
