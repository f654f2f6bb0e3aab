"""Read the words of `find`: which files it finds, and which commands it runs with them."""

import re
from itertools import groupby, pairwise

from agenttool.policy.shell_words import Certainty, Word, Words, unknown

_OPERATORS = frozenset({"(", ")", "!", ","})
FIND_ACTIONS = frozenset({"-exec", "-execdir"})
"""The actions that run a command for each file without asking."""
_TESTS_OF_OTHER_NAMES = frozenset(
    {"-path", "-ipath", "-wholename", "-regex", "-iregex", "-lname", "-samefile", "-inum"}
)
"""The tests that limit what is found, but not by a pattern for the name of a file."""
MAX_FOUND = 8
"""How many words may stand for the files that a command finds; more become `ANY_FILE`."""
ANY_TEXT = unknown("")
ANY_FILE = Word("./**", Certainty.EXPANDS)


def find_commands(words: Words) -> list[Words]:
    """Return the commands that `find` runs by `-exec`, with words for what it finds."""
    found = files_found(words)
    commands: list[Words] = []
    for index, word in enumerate(words):
        if word.text in (*FIND_ACTIONS, "-ok", "-okdir"):
            rest = words[index + 1 :]
            is_exact = word.text == "-exec"
            commands.append(filled_in(rest[: _exec_end(rest)], "{}", found if is_exact else (ANY_TEXT,)))
    return commands


def filled_in(words: Words, placeholder: str, found: Words) -> Words:
    """Return a command with the found files in place of a placeholder.

    A word that only contains the placeholder, or the name of the program, becomes unknown.
    """
    filled: list[Word] = []
    for at, word in enumerate(words):
        if placeholder not in word.text:
            filled.append(word)
        elif at and word.text == placeholder and ANY_TEXT not in found:
            filled += found
        else:
            filled.append(unknown(word.text))
    return tuple(filled)


def files_found(words: Words) -> Words:
    """Return a word for the files that `find` finds, for each start folder and each name that its tests require."""
    first = next((at for at, word in enumerate(words) if word.text.startswith(("-", "(", "!"))), len(words))
    starts = words[:first] or (Word("."),)
    texts = [word.text for word in words[first:]]
    names: list[str] = []
    parts = [[*group] for is_separator, group in groupby(texts, ("-o", "-or", ",").__contains__) if not is_separator]
    for part in parts or [[]]:
        tests = list(zip(["", *part], part, part[1:], strict=False))
        named = [after for before, test, after in tests if test in ("-name", "-iname") and before not in ("!", "-not")]
        named += ["*" for _, test, _ in tests if not named and test in _TESTS_OF_OTHER_NAMES]
        is_pruned = part[-1:] == ["-prune"]
        names += [] if is_pruned else named[:1] or [""]
    if "" in names or any(pair in (("!", "("), ("-not", "(")) for pair in pairwise(texts)):
        names = [""]
    found = tuple(files_below(start, name) for start in starts for name in names)
    return found if len(found) <= MAX_FOUND else (ANY_FILE,)


def find_arguments(words: Words) -> Words | None:
    """Return the folders, tests and other actions of `find`; None if a command of `-exec` does not end."""
    found: list[Word] = []
    at = 0
    while at < len(words):
        if words[at].text in FIND_ACTIONS:
            at += 1 + _exec_end(words[at + 1 :])
            if at == len(words):
                return None
        elif words[at].text not in _OPERATORS:
            found.append(words[at])
        at += 1
    return tuple(found)


def _exec_end(words: Words) -> int:
    """Return the index at which a command of `-exec` ends: that of a semicolon, or of a plus after the braces."""
    for at, word in enumerate(words):
        if word.text == ";" or (word.text == "+" and at and words[at - 1].text == "{}"):
            return at
    return len(words)


def files_below(folder: Word, name: str = "") -> Word:
    """Return a word for all files below a folder, or for those of a name; a name may have wildcards."""
    name = re.sub(r"\[[^\]]*\]", "?", name).replace("\\", "")
    text = f"{folder.text.rstrip('/')}/**/{name}".rstrip("/")
    return Word(text, max(folder.certainty, Certainty.EXPANDS))
