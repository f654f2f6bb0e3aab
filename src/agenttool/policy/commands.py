"""Patterns for commands, and what it means for one to cover or to catch a command."""

import re
import shlex
from dataclasses import dataclass, replace

from agenttool.policy.paths import split
from agenttool.policy.shell import RESERVED, Certainty, CommandLine, Subcommand, Word, parse_commands
from agenttool.policy.wildcards import Wild, fits, has_wildcard

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


MAX_LAUNCHES = 6
"""How many commands may stand behind each other before the line is in doubt."""

MAX_TAILS = 200
"""How many words a launcher may have before it is no longer told what it might run."""

MAX_CLUSTER = 8
"""How many options of one letter may stand together before the value of the last."""

# Shells that read text as our grammar does; `zsh` and `fish` have tricks of their own, so they are launchers.
_SHELLS = frozenset({"sh", "bash", "dash", "ksh", "ash"})
_SYSTEM = frozenset({"/bin", "/usr/bin"})
_SOURCES = frozenset({"source", "."})
_INTERPRETED = frozenset({"eval", "trap", "alias", "let"})
_LAUNCHERS = frozenset(
    """
    sudo doas su sg runuser pkexec chroot unshare nsenter setpriv capsh firejail bwrap systemd-run systemd-inhibit
    start-stop-daemon fakeroot faketime eatmydata cgexec cpulimit prlimit taskset chrt numactl setarch linux32 linux64
    find gfind fd fdfind ssh mosh parallel watch flock script strace ltrace gdb valgrind perf rlwrap unbuffer expect
    entr at batch busybox toybox screen tmux xterm xvfb-run dbus-run-session torsocks torify proxychains proxychains4
    npx pnpx bunx uvx caffeinate time env genv nice gnice nohup timeout gtimeout stdbuf setsid ionice
    command builtin exec xargs gxargs hash complete jobs mapfile readarray bind enable
    zsh fish mksh rbash csh tcsh yash elvish nu pwsh
    choom uclampset coresched i386 x86_64 uname26 run-parts compgen chpst softlimit setuidgid envdir setlock
    dumb-init tini catchsegv chronic sem hyperfine ld.so
    """.split()  # noqa: SIM905 -- a list of words reads best as words
)
_LOADER = re.compile(r"^ld-(?:linux|musl).*\.so")
# What these run stands behind one of their words; without it they run nothing of anybody's choice.
_RUNNERS = {
    "exec": frozenset("bundle npm pnpm yarn docker podman nerdctl kubectl oc lxc direnv mise aws-vault".split()),  # noqa: SIM905 -- as above
    "run": frozenset("uv poetry pipenv pdm hatch rye conda mamba docker podman nerdctl kubectl op doppler".split()),  # noqa: SIM905 -- as above
    "shell": frozenset({"machinectl"}),
}
_RUNNING = frozenset("BASH_ENV PS4 PROMPT_COMMAND LD_PRELOAD LD_AUDIT GIT_SSH_COMMAND GIT_EXTERNAL_DIFF".split())  # noqa: SIM905 -- a list of words reads best as words
_STREAMS = (("dev",), ("proc",))
_SHELL_FLAGS = re.compile(r"^-[ceuxlvnaf]*c[ceuxlvnaf]*$")
_ENV_ASSIGNMENT = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*=")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wrapper:
    """The options of a wrapper that we understand: those that stand alone, those with a value, and its operands."""

    alone: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    operands: int = 0


def _wrapper(alone: str = "", valued: str = "", operands: int = 0) -> _Wrapper:
    return _Wrapper(alone=frozenset(alone.split()), valued=frozenset(valued.split()), operands=operands)


_WRAPPERS = {
    "env": _wrapper("-i --ignore-environment -", "-u --unset"),
    "nice": _wrapper("", "-n"),
    "nohup": _wrapper(),
    "timeout": _wrapper("--preserve-status --foreground -v", "-k -s", operands=1),
    "stdbuf": _wrapper("", "-i -o -e"),
    "setsid": _wrapper("-w -f -c"),
    "ionice": _wrapper("-t", "-c -n"),
    "time": _wrapper("-p"),
    "command": _wrapper("-p"),
    "builtin": _wrapper(),
    "exec": _wrapper("-c -l", "-a"),
    "xargs": _wrapper("-0 -r -t -x -i --null --no-run-if-empty --replace", "-n -P -L -d -E -s -I"),
}


def list_commands(text: str) -> CommandLine:
    """Take shell text apart, down to the commands that its commands run."""
    return _expanded(parse_commands(text), MAX_LAUNCHES)


def list_argv(argv: list[str]) -> CommandLine:
    """Take a command apart that no shell will read: a list of words, each exactly itself."""
    return _expanded(CommandLine(subcommands=(Subcommand(words=tuple(Word(each) for each in argv)),)), MAX_LAUNCHES)


def _expanded(line: CommandLine, launches: int) -> CommandLine:
    found: list[Subcommand] = []
    doubts = dict.fromkeys(line.doubts)
    suspicions = dict.fromkeys(line.suspicions)
    for subcommand in line.subcommands:
        doubts |= {f"{name} runs what it names": None for name in _RUNNING & _variables(subcommand)}
        inner = _launched(subcommand)
        found.append(replace(subcommand, is_wrapper=subcommand.is_wrapper or inner.adds_nothing))
        if launches == 0 and inner.line.subcommands:
            doubts["too many commands stand behind each other"] = None
            continue
        below = _expanded(inner.line, launches - 1)
        found += below.subcommands
        doubts |= dict.fromkeys(below.doubts)
        suspicions |= dict.fromkeys(below.suspicions)
    return CommandLine(subcommands=tuple(found), doubts=tuple(doubts), suspicions=tuple(suspicions))


def _variables(subcommand: Subcommand) -> set[str]:
    return {word.text.partition("=")[0] for word in subcommand.assignments}


_NOTHING = CommandLine()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Launch:
    """What one command runs, and whether the command itself has no power beyond that."""

    line: CommandLine = _NOTHING
    adds_nothing: bool = False


def _doubtful(why: str) -> _Launch:
    return _Launch(line=CommandLine(doubts=(why,)))


def _launched(subcommand: Subcommand) -> _Launch:
    if subcommand.is_wrapper:
        return _Launch()
    if subcommand.words and subcommand.name is None:
        return _doubtful("the name of a command is made when it runs")
    if subcommand.name in RESERVED:
        return _doubtful(f"{subcommand.name!r} stands where a command should")
    directory, slash, name = (subcommand.name or "").rpartition("/")
    # A program elsewhere that is called the same may be anything, so an allow must name it.
    is_the_known_one = not slash or directory in _SYSTEM
    understood = _interpreted(name, subcommand) if is_the_known_one else None
    if understood is None and is_the_known_one and name in _WRAPPERS:
        understood = _understood(name, subcommand)
    if understood is None and _may_launch(name.casefold(), subcommand):
        understood = _Launch(line=_everything_after(subcommand))
    return understood or _Launch()


def _may_launch(name: str, subcommand: Subcommand) -> bool:
    """Tell whether a command may run another that stands among its words; case is nothing to some file systems."""
    if name in _LAUNCHERS or name in _SHELLS or _LOADER.match(name):
        return True
    return any(name in _RUNNERS.get(word.text, ()) for word in subcommand.words[1:])


def _interpreted(name: str, subcommand: Subcommand) -> _Launch | None:
    """Read a command that runs text; nothing if it is no such command."""
    if name in _SHELLS:
        return _shell(subcommand)
    if name in _SOURCES:
        return _file(subcommand.words[1:])
    return _doubtful(f"{name} runs text that is made when it runs") if name in _INTERPRETED else None


def _shell(subcommand: Subcommand) -> _Launch:
    """Read `bash -c 'text'`; a shell that is given no text and no file reads what it is sent."""
    words = subcommand.words[1:]
    if any(not word.is_plain for word in words[:2]):
        return _doubtful("a shell runs text that is made when it runs")
    if len(words) > 1 and _SHELL_FLAGS.match(words[0].text):
        return _Launch(line=parse_commands(words[1].text), adds_nothing=True)
    if not words or words[0].text.startswith(("-", "+")):
        return _doubtful("a shell runs text that it reads")
    return _file(words)


def _file(words: tuple[Word, ...]) -> _Launch:
    """Read a shell that is given a file: what that holds is not ours to know, but a stream has just been written."""
    is_stream = any(not word.is_plain or split(word.text)[:1] in _STREAMS for word in words[:1])
    return _doubtful("a shell runs text that it reads") if is_stream else _Launch()


def _understood(name: str, subcommand: Subcommand) -> _Launch | None:
    """Skip the options of a wrapper and give what it runs; nothing if one of its options is not understood."""
    skipped = _skip_options(_WRAPPERS[name], subcommand.words[1:])
    if skipped is None:
        return None
    assignments: list[Word] = []
    words = list(skipped)
    while name == "env" and words and words[0].is_plain and _ENV_ASSIGNMENT.match(words[0].text):
        assignments.append(words.pop(0))
    if name == "time" and words and _ENV_ASSIGNMENT.match(words[0].text):
        # Whether this is a variable or a command depends on quotes that are gone.
        return None
    if name == "xargs":
        words = _filled_in(words or [Word("echo")], _placeholder(subcommand.words[1 : -len(words) or None]))
    inner = Subcommand(words=tuple(words), assignments=(*subcommand.assignments, *assignments))
    return _Launch(line=CommandLine(subcommands=(inner,) if words else ()), adds_nothing=bool(words))


def _placeholder(options: tuple[Word, ...]) -> str | None:
    """Give what `xargs` replaces by what it reads; nothing if that becomes further arguments."""
    found: str | None = None
    for index, word in enumerate(options):
        if word.text == "-I" and index + 1 < len(options):
            found = options[index + 1].text
        elif word.text in ("-i", "--replace"):
            found = "{}"
        elif word.text.startswith("-I"):
            found = word.text[2:]
    return found


def _filled_in(words: list[Word], placeholder: str | None) -> list[Word]:
    """Give the words of a command as `xargs` runs it: what it reads can be anything."""
    if not placeholder:
        return [*words, Word("", Certainty.UNKNOWN)]
    return [Word(word.text, Certainty.UNKNOWN) if placeholder in word.text else word for word in words]


def _skip_options(wrapper: _Wrapper, words: tuple[Word, ...]) -> tuple[Word, ...] | None:
    index = 0
    while index < len(words):
        word = words[index]
        if not word.is_plain:
            return None
        if word.text == "--":
            index += 1
            break
        if not word.text.startswith("-"):
            break
        step = _option_length(wrapper, word.text)
        if step is None:
            return None
        index += step
    rest = words[index:]
    if any(not word.is_plain for word in rest[: wrapper.operands]):
        return None
    return rest[wrapper.operands :]


def _option_length(wrapper: _Wrapper, option: str) -> int | None:
    """Tell how many words an option takes up; nothing if it is unknown."""
    if option in wrapper.alone:
        return 1
    if option in wrapper.valued:
        return 2
    attached = any(option.startswith(each) for each in wrapper.valued if not each.startswith("--"))
    return 1 if attached and not option.startswith("--") else None


def _values_of(word: str) -> list[str]:
    """Give what of a word may be the value of an option: `-qcVALUE` may be that of `-q` or of `-c`."""
    if not word.startswith("-"):
        return []
    found = [word.partition("=")[2]] if word.startswith("--") else [word[at:] for at in range(2, MAX_CLUSTER)]
    return [*dict.fromkeys(text for text in found if text)]


def _texts_in(word: str) -> list[str]:
    """Give what of a word may be a command with its arguments: all of it, or the value of an option."""
    return [text for text in (word, *_values_of(word)) if re.search(r"\s", text)]


def _heads_in(word: Word) -> list[Word]:
    """Give what of a word may be the name of a command: the word, or what is joined to an option."""
    if not word.is_plain or not word.text.startswith("-"):
        return [word]
    return [Word(value) for value in _values_of(word.text) if not re.search(r"\s", value)]


def _everything_after(subcommand: Subcommand) -> CommandLine:
    """List, for a deny alone, every command that might begin at a word or stand inside one."""
    words = subcommand.words[1:]
    if len(words) > MAX_TAILS:
        return CommandLine(suspicions=("a command that runs others has too many words to be sure",))
    tails = [
        Subcommand(words=(head, *words[index + 1 :])) for index, word in enumerate(words) for head in _heads_in(word)
    ]
    texts = [parse_commands(text) for word in words if word.is_plain for text in _texts_in(word.text)]
    for tail in tails:
        text = _interpreted((tail.name or "").rpartition("/")[2], tail)
        texts += [] if text is None else [_expanded(text.line, 1)]
    maybe = [*tails, *(each for text in texts for each in text.subcommands)]
    return CommandLine(
        subcommands=tuple(replace(each, is_wrapper=True) for each in maybe),
        suspicions=tuple(doubt for text in texts for doubt in (*text.doubts, *text.suspicions)),
    )
