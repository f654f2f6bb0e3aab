"""The table of known programs, `programs.toml`; the head of that file explains its syntax."""

import re
import tomllib
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from agenttool.codec import read_own, write_own

WRITES = "writes"
"""The kind, in a deny or an ask, of all commands that write files or may do so."""
PROGRAM_KINDS = ("read", "edit", "move", "git", "build", "services", "local")
"""The tables of `programs.toml` that list programs; rules name them as `@read` and so on."""
RUNS_NOTHING = frozenset({"read", "edit", "move"})
"""The kinds of programs that run no others."""


_SYSTEM_DIRECTORIES = frozenset({"/bin", "/usr/bin"})


def program_name(name: str) -> str:
    """Return the name of a program, without a system directory such as `/usr/bin`."""
    folder, _, base = name.rpartition("/")
    return base if folder in _SYSTEM_DIRECTORIES else name


class ProgramOption(NamedTuple):
    """One option of a program.

    Attributes:
        kind: the kind of its value; none if it takes no value.
        is_optional: the value may be missing; it is joined to the option if it is there.
        mark: the character after the option in `programs.toml` that changes what operands mean.
    """

    kind: str | None = None
    is_optional: bool = False
    mark: str = ""


class ProgramSignature(NamedTuple):
    """The options and operands that a program may get: one line of `programs.toml`.

    Attributes:
        kind: the table that has the line, one of `PROGRAM_KINDS`.
        operands: the kinds of its operands, in order.
        flags: the words of the line that start with a percent sign, and `--*` or `--+`.
    """

    kind: str
    options: dict[str, ProgramOption]
    operands: tuple[str, ...]
    flags: frozenset[str]


class ProgramTable:
    """The parsed content of `programs.toml`.

    Attributes:
        value_kinds: the role of each kind of value, and the expression that a value must match.
        before_subcommand: the options that a program takes before its sub-command.
        sweeping: the words of commands that may change all files of the working directory.
        runners: the words that start a program of the project, such as `uv run`; the longest first.
        tool_folders: the folders that hold programs of the project, such as `.venv/bin`.
        passed: what may come after `--` for a tool of the project.
        packages: the packages that a program such as `npx` may download and run.
        risks: the options by which programs run others; an abbreviation or a joined value counts.
        git_risks: the options by which git runs other programs: of every command (`*`), and of some.
        wrappers: the options of programs that only run another program, as `getopt` expects them.
        listing_options: the options of the programs that print names of files if they get only these.
        long_names: the long names of short options, by program and sub-command; `*` is for programs not listed.
        programs: the kind and the lines of each program, by its name and sub-command.
        first_words: the names of these programs without sub-command.
    """

    def __init__(self) -> None:
        """Read the file."""
        text = (files("agenttool") / "policy" / "programs.toml").read_text(encoding="utf-8")
        tables = read_own(write_own(tomllib.loads(text)), dict[str, dict[str, str | list[str]]])
        lists = {
            name: {key: [each] if isinstance(each, str) else each for key, each in table.items()}
            for name, table in tables.items()
        }
        kinds = lists["kinds"]

        def expression(name: str) -> str:
            return re.sub(r"(?<!\?)<(\w+)>", lambda match: expression(match[1]), kinds[name][1])

        self.value_kinds = {name: (role, expression(name)) for name, (role, _) in kinds.items()}
        self._sets = {f":{name}": text.split() for name, (text,) in lists["sets"].items()}
        self.passed = self._parsed("build", ":passed | passed*")
        self.before_subcommand = {name: self._parsed("", f"{text} |") for name, (text,) in lists["lookup"].items()}
        self.sweeping = [each.split() for each in lists["sweeping"]["words"]]
        self.runners = sorted((tuple(each.split()) for each in lists["runners"]["words"]), key=len, reverse=True)
        self.tool_folders = frozenset(lists["runners"]["folders"])
        self.packages = {name: frozenset(text.split()) for name, (text,) in lists["packages"].items()}
        self.risks, self.git_risks, self.wrappers = lists["risks"], lists["git risks"], lists["wrappers"]
        self.listing_options = {name: re.compile(options) for name, (options,) in lists["listing"].items()}
        self.long_names = {
            program: {each[0]: each[2:].split(",") for each in names.split()}
            for program, (names,) in lists["long names"].items()
        }
        self.programs = {name: (kind, ["|"]) for kind, names in lists["bare"].items() for name in names}
        self.programs |= {
            name: (kind, lines)
            for kind in PROGRAM_KINDS
            for names, lines in lists[kind].items()
            for name in names.split(", ")
        }
        self.first_words = frozenset(name.split()[0] for name in self.programs)
        self._signatures: dict[str, tuple[ProgramSignature, ...]] = {}

    def signatures(self, name: str) -> tuple[ProgramSignature, ...]:
        """Return the signatures of a program; they are parsed on first use."""
        if name not in self._signatures and name in self.programs:
            kind, lines = self.programs[name]
            self._signatures[name] = tuple(self._parsed(kind, text) for text in lines)
        return self._signatures.get(name, ())

    def _parsed(self, kind: str, text: str) -> ProgramSignature:
        listed, _, operands = text.rpartition("|") if "|" in text else (text, "", "")
        options: dict[str, ProgramOption] = {}
        parts = [part for each in listed.split() for part in self._sets.get(each, [each])]
        for part in parts:
            if part.startswith("-") and part not in ("--*", "--+"):
                self._add(options, part, is_words="%words" in parts)
        flags = frozenset(each for each in parts if each[0] == "%" or each in ("--*", "--+"))
        return ProgramSignature(kind, options, tuple(operands.split()), flags)

    @staticmethod
    def _add(options: dict[str, ProgramOption], text: str, *, is_words: bool) -> None:
        match = re.fullmatch(r"(-[^:=!^~/>+]+)(?:([:=])([a-z0-9]+))?([!^~/>+]?)", text)
        if match is None:
            raise ValueError(f"{text!r} is no option in programs.toml")
        names, joint, kind, mark = match.groups()
        option = ProgramOption(kind, joint == "=", mark)
        if names.startswith("--") or is_words:
            options[names] = option
            return
        *plain, last = names[1:]
        for letter in plain:
            options.setdefault(f"-{letter}", ProgramOption())
        options[f"-{last}"] = option


@lru_cache(maxsize=1)
def program_table() -> ProgramTable:
    """Return the table, which is read once."""
    return ProgramTable()


def check_kind(kind: str) -> None:
    """Check that a kind of programs exists, and load the table.

    Raises:
        ValueError: it does not exist; the message lists the kinds.
    """
    if kind not in (*PROGRAM_KINDS, WRITES) or not program_table():
        known = ", ".join(f"@{each}" for each in (*PROGRAM_KINDS, WRITES))
        raise ValueError(f"there are no known commands of the kind {'@' + kind!r}; use one of {known}")
