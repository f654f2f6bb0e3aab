"""What a simple command may run besides itself.

A command is understood if its program is known to run nothing that its arguments or its input name: see `_PLAIN`. A few
wrappers (`env`, `sudo`, `xargs`, `bash -c`, `find -exec`) are understood because the commands that they run can be
listed. Every other command is *opaque*: it may run anything. A deny or an ask on commands then asks, unless an allow
rule names the program. A program that is missing from these tables is therefore only asked about.
"""

import re
import shlex
from collections.abc import Callable, Iterable
from getopt import GetoptError, getopt
from typing import NamedTuple

from agenttool.policy.find_command import filled_in, find_commands
from agenttool.policy.paths import split
from agenttool.policy.program_table import RUNS_NOTHING, program_name, program_table
from agenttool.policy.shell import RESERVED, CommandLine, Subcommand, parse_commands
from agenttool.policy.shell_words import HARMLESS_VARIABLES, Word, Words, inherited_text
from agenttool.policy.usage import found_words, usage_of

MAX_NESTED_COMMANDS = 6
"""How many wrappers may stand before a command; a longer chain leaves the line in doubt."""

NO_FILES = frozenset(
    """
    : [ [[ basename break continue date dirname echo exit expr false printf pwd return seq shift sleep test true type
    umask uname wait which
    """.split()  # noqa: SIM905 -- a list of words reads best as words
)
"""Programs that neither read nor write the files that their arguments name."""

WRITERS = frozenset(
    """
    bunzip2 bzip2 chgrp chmod chown cp curl dd fallocate gunzip gzip install ln mkdir mkfifo mv rm rmdir rsync shred
    shuf sort split tar tee touch tree truncate uniq unlink unxz unzip wget xxd xz yq zip zstd
    """.split()  # noqa: SIM905 -- as above
)
"""Programs that may write the files that their arguments name."""

_PLAIN = NO_FILES | frozenset(
    """
    ar arch b2sum base32 base64 bc bg bunzip2 bzcat bzip2 cal cat cd chdir chgrp chmod chown cksum clear cloc cmp column
    comm command cp csplit curl cut dd df diff diff3 dig dirs dos2unix du egrep expand factor fallocate fd fg fgrep file
    fmt fold free getconf getent grep groups gunzip gzip head hexdump history host hostname iconv id ifconfig install
    jobs join jq kill killall last link ln locale logname ls lsblk lscpu lsof md5sum mkdir mkfifo mktemp mv netstat nl
    nm nproc nslookup numfmt objdump od paste pgrep pidof ping pkill popd pr printenv ps pushd readelf readlink realpath
    rev rg rm rmdir rsync sha1sum sha224sum sha256sum sha384sum sha512sum shasum shred shuf size sort split ss stat
    strings sum sync tac tail tar tee tokei touch tr traceroute tree truncate tsort tty unexpand uniq unix2dos unlink
    unset unxz unzip uptime users uuidgen vmstat w wc wget whereis who whoami xxd xz xzcat yes zcat zgrep zip zstd
    """.split()  # noqa: SIM905 -- as above
)
"""Programs that run no program which their arguments or input name, except by an option of `ProgramTable.risks`."""

_GIT_COMMANDS = frozenset(
    """
    add apply blame branch cat-file check-ignore checkout cherry cherry-pick commit count-objects describe diff
    diff-tree for-each-ref fsck grep init log ls-files ls-tree merge merge-base mv name-rev range-diff reflog remote
    reset restore rev-list rev-parse revert rm shortlog show show-ref stash status switch symbolic-ref tag version
    whatchanged
    """.split()  # noqa: SIM905 -- as above
)
_GIT_OPTIONS = frozenset({"-C", "-P", "--no-pager", "--no-optional-locks", "--version"})
_GIT_RISKY_COMMANDS = frozenset({"bisect", "config", "difftool", "filter-branch", "mergetool"})
_GIT_CONFIG_READS = frozenset({"-l", "--list", "--get", "--get-all", "--get-regexp"})

_SET_OPTIONS = re.compile(r"[-+][euxv]+|[-+][eux]*o|pipefail|errexit|nounset|xtrace")
# Shells that read text as the parser does, and the builtins that read a file as they do.
_SHELLS = frozenset({"sh", "bash", "dash", "ksh", "ash", "source", "."})
_SHELL_FLAGS = re.compile(r"^-[ceuxlvnaf]*c[ceuxlvnaf]*$")
_TEXT_RUNNERS = frozenset({"eval", "trap", "alias", "let", "enable", "hash", "bind", "complete", "shopt"})
_SCRIPTED = frozenset({"awk", "gawk", "jq", "mawk", "sed", "yq"})
"""Programs with a language of their own, which could run others."""
_VARIABLE_SETTERS = frozenset(
    "[ [[ declare export getopts local mapfile printf read readarray readonly test typeset unset".split()  # noqa: SIM905 -- as above
)
_STREAMS = (("dev",), ("proc",))
_TESTS = frozenset({"[", "test"})
_SUBSCRIPT = re.compile(r"\[[^\]]*(?:\$\(|\$\{|`)")
_ELEMENT = re.compile(r"[A-Za-z_]\w*\[")
_WILD_ELEMENT = re.compile(r"[A-Za-z_]\w*\?")

_READ_BY_PROGRAMS = re.compile(
    r"(?i)\w*(?:path|proxy)\+?=|(?=[A-Z_]+[0-9]?\+?=)\w*(?:BASH|BROWSER|CC|COMMAND|CONFIG|CXX|DIFF|DIR|EDITOR|ENV|FLAGS|GIT|"
    r"HIST|HOME|IFS|JAVA|LD|LESS|LIB|MAKE|MAN|NODE|NPM|OPT|PAGER|PERL|PIP|PROMPT|PS[0-9]|PYTHON|RC|RUBY|RUST|SHELL|SSH|TERM|TMP|"
    r"VISUAL|ZDOT)"
)
"""Names of variables that programs may read. Others stay inside the shell that sets them."""

_PRIVILEGED = frozenset({"sudo", "doas"})
"""Wrappers that an allow must name."""


_FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""A text that makes the reading of commands fail is in doubt, and so it is asked about."""


def list_commands(text: str) -> CommandLine:
    """Parse shell text, and list the commands that its wrappers run."""
    try:
        return _expanded(parse_commands(text), MAX_NESTED_COMMANDS)
    except _FAULTS:
        return CommandLine(text=text, doubt="reading it failed")


def list_argv(argv: list[str]) -> CommandLine:
    """List the commands of a program and its arguments that run without a shell."""
    words = tuple(Word(each) for each in argv)
    line = CommandLine(text=shlex.join(argv), subcommands=(Subcommand(words=words),))
    try:
        return _expanded(line, MAX_NESTED_COMMANDS)
    except _FAULTS:
        return line._replace(doubt="reading it failed")


def _expanded(line: CommandLine, depth: int) -> CommandLine:
    found: list[Subcommand] = []
    doubt = line.doubt
    for subcommand in line.subcommands:
        inner = _inner(subcommand)
        found.append(
            subcommand._replace(
                is_wrapper=inner.is_transparent,
                opaque=inner.opaque,
                risk=inner.risk,
                usage=usage_of(subcommand.words),
            )
        )
        if depth == 0 and inner.line.subcommands:
            doubt = doubt or "commands are nested too deeply"
            continue
        below = _expanded(inner.line, depth - 1)
        found += [each._replace(is_wrapper=each.is_wrapper or inner.is_privileged) for each in below.subcommands]
        doubt = doubt or below.doubt
    return line._replace(subcommands=tuple(found), doubt=doubt)


class _Inner(NamedTuple):
    """The commands that one command runs.

    Attributes:
        is_transparent: whether the command does nothing else, so that an allow need not name it.
        is_privileged: whether an allow must name it, which then covers what it runs.
        opaque: why the command may run others that are not listed; None if it cannot.
        risk: the word that makes a known program opaque.
    """

    line: CommandLine = CommandLine()
    is_transparent: bool = False
    is_privileged: bool = False
    opaque: str | None = None
    risk: str | None = None


def _doubtful(why: str) -> _Inner:
    return _Inner(line=CommandLine(doubt=why))


def _inner(subcommand: Subcommand) -> _Inner:
    """Return what one command runs; what is not understood is opaque."""
    if not subcommand.words:
        return _Inner(opaque=_why_not_variables(tuple(filter(_may_reach_programs, subcommand.assignments))))
    name = subcommand.name
    if name is None:
        return _doubtful("the name of a program is computed")
    if name in RESERVED - {"[["} or name.startswith("-") or name in _TEXT_RUNNERS:
        return _doubtful(f"{name!r} runs text or changes what names mean")
    base = program_name(name)
    if "/" in base:
        # A program elsewhere may have the name of a known one and be something else.
        return _Inner(opaque=f"{name!r} may be any program")
    return _run_by(base, subcommand)


def _run_by(name: str, subcommand: Subcommand) -> _Inner:
    words = subcommand.words[1:]
    if name in _VARIABLE_SETTERS and _names_element(name, words):
        return _doubtful("the name of a variable runs a command")
    if name in _SHELLS:
        return _shell(name, subcommand)
    if name in program_table().wrappers and not (name == "command" and words[:1] and words[0].text in ("-v", "-V")):
        return _unwrapped(name, subcommand)
    if name == "tar" and words and not words[0].text.startswith("-"):
        # Its first word may be options without a dash.
        words = (Word(f"-{words[0].text}", words[0].certainty), *words[1:])
    assigned = tuple(word for word in subcommand.assignments if name != "read" or not word.text.startswith("IFS="))
    why = _why_not_variables(assigned) or _why_not_words(name, words)
    if why is None and name == "find":
        return _Inner(line=CommandLine(subcommands=tuple(Subcommand(words=each) for each in find_commands(words))))
    return _git(words) if why is None and name == "git" else _known(name, words, why)


def _names_element(name: str, words: Words) -> bool:
    """Return whether a builtin may get an element of an array as a variable: the shell calculates its subscript.

    An unquoted subscript is also a wildcard, and it is read as one.
    """
    is_name = name not in _TESTS | {"printf"} or any(word.text == "-v" for word in words)
    return any(
        _SUBSCRIPT.search(word.text)
        or (is_name and _ELEMENT.match(word.text))
        or (is_name and word.expands and _WILD_ELEMENT.match(word.text))
        for word in words
    )


def _known(name: str, words: Words, why: str | None) -> _Inner:
    """Return whether the tables know a program to run no other, given these arguments."""
    risk = _risk(words, program_table().risks.get(name, ()))
    if risk is not None:
        return _Inner(opaque=f"option {risk!r} of {name!r} may run other programs", risk=risk)
    usage = usage_of((Word(name), *words))
    check = _CHECKS.get(name)
    is_understood = usage is not None if name in _SCRIPTED else check is None or check(words)
    if not is_understood:
        script = next((word.text for word in words if not word.text.startswith("-")), "")
        return _Inner(opaque=why or f"the arguments of {name!r} are not understood", risk=script)
    runs_nothing = usage is not None and usage.kind in RUNS_NOTHING
    is_plain = runs_nothing or check is not None or name in _PLAIN
    return _Inner(opaque=why or (None if is_plain else f"{name!r} may run other programs"))


def _why_not_variables(assignments: Words) -> str | None:
    """Return which variable may change what runs, such as `GIT_PAGER` or `LD_PRELOAD`."""
    inherited = inherited_text(assignments)
    if inherited is not None:
        return f"{inherited!r} copies a variable of the environment"
    names = (word.head.rstrip("+") for word in assignments)
    name = next((each for each in names if each not in HARMLESS_VARIABLES), None)
    return None if name is None else f"variable {name!r} may change which programs run"


def _may_reach_programs(assignment: Word) -> bool:
    """Return whether a program may read a variable that is set in the shell itself."""
    return assignment.is_inherited or _READ_BY_PROGRAMS.match(assignment.text[:200]) is not None


def _why_not_words(name: str, words: Words) -> str | None:
    """Return which word hides what a program does: a secret, or perhaps an option that runs other programs."""
    inherited = inherited_text(words)
    if inherited is not None:
        return f"{name!r} gets {inherited!r} from the environment"
    has_risks = name in program_table().risks or name in ("find", "git")
    return (
        f"{name!r} gets arguments that are computed" if has_risks and any(word.is_unknown for word in words) else None
    )


def _risk(words: Words, options: Iterable[str]) -> str | None:
    """Return the first of some options that is given, perhaps abbreviated, joined to others or to its value."""
    for option in options:
        for word in words:
            text = word.head
            is_short = len(option) == 2 and re.match(rf"-[A-Za-z]*{option[1]}", text) is not None  # noqa: PLR2004 -- a dash and a letter
            is_long = text.startswith("--") and text != "--" and option.startswith(text)
            if text == option or is_short or is_long:
                return option
    return None


def _is_plain_declaration(words: Words) -> bool:
    sets = tuple(word for word in words if "=" in word.text)
    is_shown = any(word.text.startswith("-p") for word in words) or not words
    return not is_shown and _has_plain_names(words) and _why_not_variables(sets) is None


def _has_plain_names(words: Words) -> bool:
    """Return whether the variables that a builtin sets are known, and none of them is one that programs read."""
    return not any((word.is_unknown and "=" not in word.text) or word.text.isupper() for word in words)


def _is_plain_printf(words: Words) -> bool:
    is_set = words[:1] and words[0].text.startswith("-") and words[0].text != "--"
    return not is_set or (words[0].text == "-v" and _has_plain_names(words[1:2]))


def _is_plain_set(words: Words) -> bool:
    return bool(words) and all(word.is_plain and _SET_OPTIONS.fullmatch(word.text) for word in words)


_CHECKS: dict[str, Callable[[Words], bool]] = {
    **dict.fromkeys(("declare", "export", "local", "readonly", "typeset"), _is_plain_declaration),
    **dict.fromkeys(("getopts", "mapfile", "read", "readarray", "unset"), _has_plain_names),
    "printf": _is_plain_printf,
    "set": _is_plain_set,
}
"""Programs that depend on what their arguments say."""


def _git(words: Words) -> _Inner:
    """Return whether git gets one of its own simple commands: not an alias, and no option that runs a program."""
    index = 0
    while index < len(words) and words[index].is_plain and words[index].text in _GIT_OPTIONS:
        index += 2 if words[index].text == "-C" else 1
    name = words[index].text if index < len(words) and words[index].is_plain else ""
    rest = {word.text for word in words[index + 1 :]}
    risks = program_table().git_risks
    risk = name if name.startswith("-") else _risk(words[index + 1 :], (*risks.get(name, ()), *risks["*"]))
    if risk is None and name == "config" and rest & _GIT_CONFIG_READS:
        return _Inner()
    if risk is not None or name in _GIT_RISKY_COMMANDS:
        return _Inner(opaque=f"{risk or name!r} may make 'git' run other programs", risk=risk or name)
    is_plain = name in _GIT_COMMANDS or index == len(words) > 0
    return _Inner(opaque=None if is_plain else f"'git {name}' may run other programs")


def _shell(name: str, subcommand: Subcommand) -> _Inner:
    """Parse `bash -c 'text'`; a file is opaque, and other text, also from a stream, may come from the line itself."""
    words = subcommand.words[1:]
    if any(not word.is_plain for word in words[:2]):
        return _doubtful(f"{name!r} runs text that is computed")
    if len(words) > 1 and _SHELL_FLAGS.match(words[0].text):
        why = _why_not_variables(subcommand.assignments)
        return _Inner(line=parse_commands(words[1].text), is_transparent=True, opaque=why)
    only_checks = len(words) > 1 and words[0].text == "-n" and not words[1].text.startswith(("-", "+"))
    if (len(words) == 1 and words[0].text == "--version") or (only_checks and name not in ("source", ".")):
        return _Inner()
    if not words or words[0].text.startswith(("-", "+")) or split(words[0].text)[:1] in _STREAMS:
        return _doubtful(f"{name!r} runs the text of its input")
    return _Inner(opaque=f"{name!r} runs a file")


def _unwrapped(name: str, subcommand: Subcommand) -> _Inner:
    """Skip the options of a wrapper and return what it runs; a wrapper with other options is opaque."""
    given, (short, *long) = subcommand.words[1:], program_table().wrappers[name]
    try:
        options, rest = getopt([word.text for word in given], short, long)
    except GetoptError:
        return _Inner(opaque=f"an option of {name!r} is not understood")
    # The first operand of `timeout` is its duration; `env -` starts with an empty environment.
    skipped = len(given) - len(rest) + (name == "timeout" or rest[:1] == ["-"])
    words = list(given[skipped:])
    if any(not word.is_plain for word in given[:skipped]):
        return _Inner(opaque=f"an option of {name!r} is computed")
    assignments: list[Word] = []
    while name in ("env", "sudo") and words and "=" in words[0].text and not words[0].text.startswith("="):
        assignments.append(words.pop(0))
    if name == "xargs":
        placeholder = dict(options).get("-I", "{}" if ("-i", "") in options else None)
        run, found = tuple(words) or (Word("echo"),), found_words(subcommand.source)
        words = list(filled_in(run, placeholder, found) if placeholder else (*run, *found))
    if not words:
        return _doubtful(f"{name!r} runs no command, and changes or shows the shell's own state")
    inner = Subcommand(words=tuple(words), assignments=(*subcommand.assignments, *assignments))
    return _Inner(
        line=CommandLine(subcommands=(inner,)),
        is_transparent=name not in _PRIVILEGED,
        is_privileged=name in _PRIVILEGED,
    )
