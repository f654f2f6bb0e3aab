"""The usage of a command: which files a known program reads and writes with its arguments.

`programs.toml` lists the harmless options and operands of each program. A command has a usage only if that file lists
all of its words. With an unknown option, an abbreviation or a computed operand it has none, and a user is asked.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from agenttool.policy.find_command import (
    ANY_FILE,
    ANY_TEXT,
    FIND_ACTIONS,
    MAX_FOUND,
    files_below,
    files_found,
    find_arguments,
)
from agenttool.policy.paths import SOURCE_FILES
from agenttool.policy.program_table import ProgramOption, ProgramSignature, program_name, program_table
from agenttool.policy.scripts import SCRIPT_CHECKS
from agenttool.policy.shell_words import Certainty, Word, Words, inherited_text

MAX_ARGUMENTS = 100
"""A command with more arguments has no usage."""

_ASKS_FOR_HELP = frozenset({"--version", "--help", "-version", "-V"})
_PROGRAM = re.compile(r"[A-Za-z][\w.+-]*")
_STREAMS = frozenset({"-", "/dev/fd/63", "/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_MAX_SUBCOMMANDS = 5
_MAX_VALUE = 300
"""A longer value is compared only with the expressions for any text."""
_ANYTHING = frozenset({"(?s).*", "[^\\n]+"})
_ANY_VALUE = frozenset({"text", "number", "pair", "pattern"})
"""The kinds of values that may be computed."""
_COMMON_FILES = re.compile(r"\*\.(?:(\w+)|\{([\w,]+)\})")
_DATA_FILES = frozenset({"cfg", "csv", "json", "lock", "log", "sh", "sql", "toml", "txt", "xml", "yaml", "yml"})
_SECRET_WORDS = re.compile(
    r"(?i)passw|secret|token|database_url|_dsn\b|\bkeys?\b|[-_ ]key|apikey|key[=:]|credential|private|bearer|aws_|begin"
)
_VAGUE = re.compile(r"\[[^\]]*\]|\\.|\(|\)[*?{]|\w[*?{]")
_LITERAL = re.compile(r"\w{3}")
_DELETES_ALL = re.compile(r"\s*(?:[01]\s*,\s*\$|[01]~1)?\s*d\s*;?\s*")
_BACKUPS = frozenset({".bak", ".backup", ".old", ".orig", "~"})
"""Endings that no tool reads."""
_TAKE_OPTION_FILES = frozenset({"build", "edit"})
"""The kinds of programs that may read options from a file: `@file`."""
_READ_ROLES = frozenset({"read", "run", "source", "linked", "packed"})
_WRITE_ROLES = frozenset({"linked", "passed", "write", "file", "dest"})
"""The roles of words that name written files; a later write to a link changes the file that it leads to."""
_PACKED = re.compile(r"[-._](?:gz|z|Z)$")
_PACKED_TAR = re.compile(r"(?<=\.)t[ag]z$")
_PATH_MARKS = re.compile(r"[/~]|^\.")


class Usage(NamedTuple):
    """How a command uses a known program.

    Attributes:
        kind: the table of `programs.toml` that lists the program: `read`, `build` and so on.
        reads: the files that it reads, or runs.
        writes: the files that it writes.
        looks: the files of which it only shows names, sizes or counts.
        lists: the files whose names it may print, if it searches for files.
        runs: the scripts among the files that it reads.
        trees: the folders that it moves or links to, with everything in them.
        adds: the files and folders that it adds to a repository, except for what git ignores.
        passed: what the project's own program gets, which may be names of files.
    """

    kind: str
    reads: Words = ()
    writes: Words = ()
    looks: Words = ()
    lists: Words = ()
    runs: Words = ()
    trees: Words = ()
    adds: Words = ()
    passed: Words = ()


class _ReadArguments:
    """The arguments of one command that are read so far, by their role.

    Attributes:
        operands: the words that are neither options nor their values.
        rest: the words that go to the project's own program.
        by_role: the words by their roles, which are those of `[kinds]` in `programs.toml`.
        marks: the marks of the options that are given; see `ProgramOption`.
    """

    def __init__(self, marks: Iterable[str] = ()) -> None:
        self.operands: list[Word] = []
        self.reads: list[Word] = []
        self.writes: list[Word] = []
        self.rest: list[Word] = []
        self.by_role = defaultdict[str, list[Word]](list)
        self.marks = set(marks)

    @property
    def sources(self) -> list[Word]:
        """The files that are copied, moved or linked."""
        return [*self.by_role["source"], *self.by_role["linked"]]


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


class _NotKnownError(Exception):
    """A program or one of its arguments is not in `programs.toml`."""


@lru_cache(maxsize=128)
def usage_of(words: Words) -> Usage | None:
    """Return how a command uses a known program; None if the program or one of its arguments is not known."""
    try:
        return _known_usage(words)
    except _NotKnownError:
        return None


def only_shows_names(program: str) -> bool:
    """Return whether a program shows no more of its operands than names, sizes or counts, as `ls` does."""
    kinds = program_table().value_kinds
    operands = {kind.rstrip("*+") for each in program_table().signatures(program) for kind in each.operands}
    return "look" in {kinds[each][0] for each in operands} <= {"look", "text"}


def why_unknown(words: Words) -> str:
    """Return which part of a command is not known to be harmless."""
    name = words[0].text
    known = program_table().first_words.union(program_table().packages)
    if words[0].is_plain and "/" not in name and name not in known:
        return f"program {name!r} is not known"
    try:
        _known_usage(words)
    except _NotKnownError as error:
        return f"{name!r} gets {str(error) or 'arguments'}; that is not known to be harmless"
    return f"{name!r} may run other programs"


def _known_usage(words: Words) -> Usage:
    if not words or len(words) > MAX_ARGUMENTS or not words[0].is_plain:
        raise _NotKnownError
    inherited = inherited_text(words)
    if inherited is not None:
        raise _NotKnownError(f"the variable {inherited!r} of the environment")
    name = words[0].text
    if _is_help(words) and _PROGRAM.fullmatch(name):
        return Usage("read")
    name = program_name(name)
    words = (Word(name), *words[1:])
    return _usage_by_path(words) if "/" in name else _usage_by_name(words)


def _is_help(words: Words) -> bool:
    return len(words[1:]) == 1 and words[1].is_plain and words[1].text in _ASKS_FOR_HELP


def _usage_by_path(words: Words) -> Usage:
    """Return the usage of a program that lies in the workspace: a tool of an environment, or a script."""
    name, table = words[0].text, program_table()
    folder, _, base = name.rpartition("/")
    if name in table.programs:
        return _usage_by_name(words)
    if base not in table.first_words:
        return _usage_by_name((Word("sh"), *words))
    if folder not in table.tool_folders:
        raise _NotKnownError
    return _require_build(_usage_by_name((Word(base), *words[1:])), words[0])


def _require_build(usage: Usage, *files: Word) -> Usage:
    """Return a usage of a program of the project, with its own files; other programs are not known."""
    if usage.kind != "build":
        raise _NotKnownError
    return usage._replace(runs=(*usage.runs, *files))


def _usage_by_name(words: Words) -> Usage:
    """Return the usage of a program by its name, also behind words such as `uv run` that only start it."""
    words = _tar_words(words)
    if _is_help(words) and words[0].text in program_table().first_words:
        return Usage("build")
    if words[0].text == "find":
        return _find_usage(words[1:])
    try:
        return _usage_by_table(words)
    except _NotKnownError:
        texts = tuple(word.text if word.is_plain else "" for word in words)
        if len(texts) > 1 and texts[1] in program_table().packages.get(texts[0], ()):
            return _require_build(_usage_by_name(words[1:]))
        for runner in program_table().runners:
            if len(texts) > len(runner) and texts[: len(runner)] == runner:
                module = (Word(f"{texts[len(runner)]}.py"),) if runner[-1] == "-m" else ()
                return _require_build(_usage_by_name(words[len(runner) :]), *module)
        raise


def _usage_by_table(words: Words) -> Usage:
    """Return the usage by the longest name in the table: `git stash push`, then `git stash`, then `git`."""
    table = program_table()
    before = _ReadArguments()
    texts: list[str] = []
    ends: list[int] = []
    at = 0
    while at < len(words) and len(texts) < _MAX_SUBCOMMANDS and words[at].is_plain:
        prefix = table.before_subcommand.get(" ".join(texts))
        while prefix and at < len(words) and words[at].is_plain and words[at].head in prefix.options:
            at += _take_option(prefix, words, at, before)
        if at < len(words):
            texts.append(words[at].text)
            at += 1
            ends.append(at)
    for count in range(len(texts), 0, -1):
        signatures = table.signatures(" ".join(texts[:count]))
        if signatures:
            found = _usage_by_signatures(signatures, words[ends[count - 1] :])
            given = tuple(before.reads)
            trees, adds = (each and (*given, *each) for each in (found.trees, found.adds))
            return found._replace(reads=(*given, *found.reads), trees=trees, adds=adds)
    raise _NotKnownError(f"the arguments {' '.join(word.text for word in words[1:3])[:80]!r}")


def _usage_by_signatures(signatures: tuple[ProgramSignature, ...], words: Words) -> Usage:
    """Return the usage by the first signature that accepts all words."""
    for signature in signatures[:-1]:
        try:
            return _read_arguments(signature, words)
        except _NotKnownError:
            continue
    return _read_arguments(signatures[-1], words)


def _read_arguments(signature: ProgramSignature, words: Words) -> Usage:
    if "%any" in signature.flags:
        if words and words[0].text.startswith("-v"):
            raise _NotKnownError
        return Usage(signature.kind)
    reading = _ReadArguments({"~", ">"} & {flag[1:] for flag in signature.flags})
    _take_words(signature, words, reading)
    if any(word.is_unknown for word in (*reading.operands, *reading.rest)):
        raise _NotKnownError
    given = words[: len(words) - len(reading.rest)]
    options = next((word.text for word in given if word.text.startswith("@")), None)
    if options is not None and signature.kind in _TAKE_OPTION_FILES and "%at" not in signature.flags:
        raise _NotKnownError(f"the argument {options[:80]!r}, which may be a file with options")
    return _usage_by_operands(signature, reading)


def _take_words(signature: ProgramSignature, words: Words, reading: _ReadArguments) -> None:
    """Read the options and the operands, and what a runner passes to a tool of the project."""
    passed, at = None, 0
    while at < len(words):
        word = words[at]
        if passed is None and _begins_rest(signature, word, len(reading.operands)):
            reading.rest += words[at + (word.text == "--") :]
            break
        if passed is None and word.text == "--" and word.is_plain and "%nodash" not in signature.flags:
            at += 1
            if "--+" not in signature.flags:
                reading.operands += words[at:]
                break
            passed = program_table().passed  # a tool of the project gets the words that follow
        elif word.text.startswith("-") and word.text != "-":
            at += _take_option(passed or signature, words, at, reading)
        else:
            # A word that is computed could be an option.
            at += 1
            if passed is None:
                reading.operands.append(word)
            else:
                _take_word("passed", word, reading)


def _begins_rest(signature: ProgramSignature, word: Word, count: int) -> bool:
    """Return whether the project's own program gets a word and all that follow."""
    kinds = signature.operands
    is_after = bool(kinds) and kinds[-1] == "rest*" and count >= len(kinds) - 1
    return is_after or (word.is_plain and word.text == "--" and "--*" in signature.flags)


def _take_option(signature: ProgramSignature, words: Words, at: int, reading: _ReadArguments) -> int:
    """Read one word with options and their values, and return how many words it takes."""
    word = words[at]
    if re.fullmatch(r"-\d+", word.text) and "-#" in signature.options:
        reading.marks.add(signature.options["-#"].mark)
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


def _known_option(signature: ProgramSignature, name: str) -> ProgramOption:
    option = signature.options.get(name)
    if option is None or name == "-#":
        raise _NotKnownError(f"the option {name!r}")
    return option


def _take_value(option: ProgramOption, joined: Word | None, words: Words, reading: _ReadArguments) -> int:
    """Read the value of the option in the first of some words, and return how many words both take."""
    reading.marks.add(option.mark)
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


def _take_word(name: str, word: Word, reading: _ReadArguments, *, is_value: bool = False) -> None:
    """Check that a word is of a kind, and note the file that it names."""
    role, pattern = program_table().value_kinds[name]
    is_number = word.is_number and role in ("text", "pattern")
    is_free = is_number or (is_value and word.certainty is Certainty.COMPUTED and name in _ANY_VALUE)
    is_long = len(word.text) > _MAX_VALUE and pattern not in _ANYTHING
    if not is_free and (word.is_unknown or is_long or not _compiled(pattern).fullmatch(word.text)):
        raise _NotKnownError(f"the argument {word.text[:80]!r}")
    check = SCRIPT_CHECKS.get(role)
    if check is not None and not (word.is_plain and check(word.text)):
        raise _NotKnownError("the script")
    is_many = role == "dest" and any("/**" in each.text for each in reading.sources) and not word.text.endswith("/")
    if role in ("file", "dest") and (is_many or word.expands):
        raise _NotKnownError  # It may write many files over each other, or over files that a wildcard names.
    if word.text not in _STREAMS or role not in ("read", "write", "file"):
        _note_word(role, word, reading)


def _note_word(role: str, word: Word, reading: _ReadArguments) -> None:
    """Record a word under its role, and the files that it stands for."""
    reading.by_role[role].append(word)
    if role == "read" and word.text.startswith("@"):
        raise _NotKnownError(f"the argument {word.text[:80]!r}, which may be a file with options")
    if role in _READ_ROLES:
        reading.reads.append(word)
    if role in _WRITE_ROLES:
        reading.writes.append(word)
    match role:
        case "rev":
            texts = dict.fromkeys((word.text, *word.text.split(":")))
            reading.reads += [_pathspec(Word(each, word.certainty)) for each in texts if each]
        case "passed":
            reading.reads += filter(_has_path_marks, _argument_parts(word))
        case "prefix":
            reading.writes.append(Word(f"{word.text}??", Certainty.EXPANDS))
        case "packed":
            unpacked = _PACKED.sub("", _PACKED_TAR.sub("tar", word.text))
            reading.writes.append(Word(unpacked, word.certainty))
        case "write" | "file" | "dest":
            reading.writes += [_below(word, each) for each in reading.sources]
        case _:
            pass


def _pathspec(word: Word) -> Word:
    """Return the files that git finds for an operand, except for a wildcard for all files of a common kind."""
    folder, _, name = word.text.rpartition("/")
    if not word.is_plain or not set("*?[") & set(name) or name in ("*", "**") or _is_common(name):
        return word
    return files_below(Word(folder or "."), name)


def _below(folder: Word, source: Word) -> Word:
    """Return the file that a copy into a folder creates: it has the name of its source."""
    certainty = source.certainty if folder.is_plain else folder.certainty
    return Word(f"{folder.text.rstrip('/') or '/'}/{source.text.rstrip('/').rpartition('/')[2]}", certainty)


def _usage_by_operands(signature: ProgramSignature, reading: _ReadArguments) -> Usage:
    by_role, marks = reading.by_role, reading.marks
    kinds = list(signature.operands[1:] if "!" in marks else signature.operands)
    if kinds[-1:] == ["rest*"]:
        kinds.pop()
    operands = reading.operands
    star = next((index for index, each in enumerate(kinds) if each.endswith("*")), None)
    if star is not None:
        count = max(len(operands) - len(kinds) + 1, int(star < len(kinds) - 1))
        kinds[star : star + 1] = [kinds[star].rstrip("*")] * count
    if len(operands) > len(kinds):
        raise _NotKnownError(f"the argument {operands[len(kinds)].text[:80]!r}")
    if any(each.endswith("+") for each in kinds[len(operands) :]):
        raise _NotKnownError("too few arguments")
    for kind, word in zip(kinds, operands, strict=False):
        _take_word(kind.rstrip("+"), word, reading)
    operand_files = [*by_role["read"], *by_role["rev"]] if by_role["pattern"] else []
    lists, searched = _searched(reading)
    passed = [part for each in reading.rest for part in _argument_parts(each)]
    reading.reads += [*searched, *filter(_has_path_marks, passed)]
    # What is moved is gone from where it was.
    moved = reading.sources if signature.kind != "edit" else []
    looks = by_role["look"]
    folders = operand_files or [Word(".")]
    trees = [*moved, *by_role["linked"], *(folders if ">" in marks else [])]
    adds = [*(reading.reads if "%+" in signature.flags else []), *([Word(".")] if "+" in marks else [])]
    changed = [*reading.reads, *looks] if "^" in marks else moved
    if "^" in marks and any(_DELETES_ALL.fullmatch(word.text) for word in by_role["sed"]):
        raise _NotKnownError("a script that deletes all lines")
    suffixes = [suffix for suffix in by_role["suffix"] if suffix.text not in _BACKUPS]
    backups = [Word(word.text + suffix.text, word.certainty) for suffix in suffixes for word in changed]
    written = (*reading.writes, *changed, *backups)
    kind = "edit" if signature.kind == "read" and written else signature.kind
    return Usage(kind, *map(tuple, (reading.reads, written, looks, lists, by_role["run"], trees, adds, passed)))


def _searched(reading: _ReadArguments) -> tuple[list[Word], list[Word]]:
    """Return the files whose names a search may print, and those of which it may print every line."""
    filters = [word for word in reading.by_role["filter"] if not word.text.startswith("!")]
    patterns = reading.by_role["pattern"]
    folders = reading.reads or [Word(".")]
    lists = [files_below(folder, each.text) for folder in folders for each in filters or [Word("")]]
    is_vague = not all(map(_is_specific, patterns)) or "/" in reading.marks
    if is_vague or not (patterns or "!" in reading.marks):
        return lists, lists if filters or "~" in reading.marks else []
    reading.marks.discard(">")
    if patterns:
        reading.reads = [_without_wildcard(word) for word in reading.reads]
    rare = [word.text for word in filters if not _is_common(word.text)]
    return lists, [files_below(folder, each) for folder in folders for each in rare]


def _without_wildcard(word: Word) -> Word:
    """Return the folder of a wildcard for all files, or for all of a common kind."""
    folder, _, name = word.text.rpartition("/")
    if not word.expands or not (name in ("*", "**") or _is_common(name)):
        return word
    return Word(folder.removesuffix("/**") or ".", word.certainty)


def _is_common(name: str) -> bool:
    """Return whether a pattern is for all files with an extension of source code or data, such as `*.py`."""
    match = _COMMON_FILES.fullmatch(name.rpartition("/")[2])
    return match is not None and (SOURCE_FILES | _DATA_FILES).issuperset((match[1] or match[2]).split(","))


def _is_specific(pattern: Word) -> bool:
    """Return whether few lines match a search: each alternative has a literal word, and none suggests a secret."""
    parts = [_VAGUE.sub(" ", each) for each in re.split(r"\\?\||\n", pattern.text)]
    is_secret = _SECRET_WORDS.search(re.sub(r"[\[\]\\.?*]", "", pattern.text))
    return pattern.is_plain and not is_secret and all(map(_LITERAL.search, parts))


def _argument_parts(word: Word) -> list[Word]:
    """Return what may be the name of a file in an argument of the project's own program."""
    joined = word.text[2:] if re.match(r"-[^-]", word.text) else word.text.removeprefix("@")
    parts = dict.fromkeys((word.text, joined, word.text.partition("=")[2]))
    return [Word(each, word.certainty) for each in parts if each]


def _has_path_marks(word: Word) -> bool:
    return _PATH_MARKS.search(word.text) is not None


def _tar_words(words: Words) -> Words:
    """Split the first argument of `tar` (`xzf`) into options; the one that creates, lists or extracts comes first."""
    if words[0].text != "tar" or len(words) == 1 or not re.fullmatch(r"-?[a-zA-Z]+", words[1].text):
        return words
    letters = words[1].text.removeprefix("-")
    action = next((each for each in letters if each in "ctx"), "x")
    action = "x" if action == "c" and "f" not in letters else action  # It would write to its output.
    others = re.sub("[ctx]", "", letters, count=1)
    options = [Word(f"-{others}")] if others else []
    return (words[0], Word(f"-{action}"), *options, *words[2:])


_FILTERS = frozenset({"grep", "head", "sort", "tail", "uniq"})
_FILTER_OPTIONS = re.compile(r"-[viEFwxPnur]*|-\d+")
_ALWAYS_LIST = frozenset({"find", "ls", "git ls-files"})
_LISTS_FILES = frozenset(
    {"-l", "-rl", "-lr", "-ril", "-rli", "-rln", "-rIl", "-il", "-li", "--files-with-matches", "--files", "--name-only"}
)
_NO_NAMES = frozenset({*FIND_ACTIONS, "-printf", "-ls"})


def passes_names(words: Words) -> bool:
    """Return whether a command prints some lines of its input and nothing else."""
    usage = usage_of(words) if words and words[0].text in _FILTERS else None
    return usage is not None and not usage.reads and not usage.writes and _has_only(_FILTER_OPTIONS, words[1:])


def found_words(words: Words) -> Words:
    """Return words for the names of files that a command prints; `ANY_TEXT` if it may print other text."""
    usage = usage_of(words)
    name = " ".join(word.text for word in words[: 2 if words[:1] == (Word("git"),) else 1])
    options, texts = program_table().listing_options.get(name), {word.text for word in words}
    if usage is None or options is None or texts & _NO_NAMES or not (name in _ALWAYS_LIST or texts & _LISTS_FILES):
        return (ANY_TEXT,)
    if name != "find" and not _has_only(options, words[1:]):
        return (ANY_TEXT,)
    if name == "ls":
        # It prints the names in a folder without the folder.
        return (*(usage.looks), Word("./*", Certainty.EXPANDS))
    found = usage.lists if not name.startswith("git") else _pathspecs(usage.reads, has_revisions=name == "git diff")
    return found if len(found) <= MAX_FOUND else (ANY_FILE,)


def _pathspecs(words: Words, *, has_revisions: bool) -> Words:
    """Return the files that git names for its operands; a wildcard of git also matches slashes."""
    found: list[Word] = []
    has_wildcard = any(set("*?[") & set(word.text) for word in words)
    for word in words:
        folder, _, name = word.text.rpartition("/")
        if folder.endswith("/**") and not word.is_plain:
            found.append(word)
        else:
            found.append(files_below(Word(folder or "."), name) if set("*?[") & set(name) else files_below(word))
    return tuple(found) if has_wildcard or (words and not has_revisions) else (*found, ANY_FILE)


def _has_only(options: re.Pattern[str], words: Words) -> bool:
    return all(options.fullmatch(word.text) for word in words if word.text.startswith("-"))


def _find_usage(words: Words) -> Usage:
    arguments = find_arguments(words)
    if arguments is None or any(word.is_unknown for word in words):
        raise _NotKnownError
    return _usage_by_table((Word("find"), *arguments))._replace(lists=files_found(words))
