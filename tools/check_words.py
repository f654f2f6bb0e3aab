"""Count the words of `words.toml` in the names, docstrings, comments and strings of `src` and `tests`, by folder.

Usage: python tools/check_words.py [--show [FOLDER]] [--update]. Fails when a folder has more findings than
`words.toml` allows; a folder that is not listed there may have none. `--show` lists each finding. `--update` lowers the
allowed counts to those found now.
"""

import argparse
import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {ROOT / "src" / "agenttool": "", ROOT / "tests": "tests/"}
"""The folders that are counted, each with the prefix of its names in the table of allowed counts."""

LIST = Path(__file__).with_name("words.toml")
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """Give each piece of prose of a module with its line: its file name, defined names, comments and strings."""
    yield 1, words_in(path.stem)
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, words_in(node.name)
        elif isinstance(node, ast.arg):
            yield node.lineno, words_in(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, words_in(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, words_in(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def words_in(name: str) -> str:
    """Split a name of code into words."""
    return CAMEL.sub(" ", name).replace("_", " ")


def findings(path: Path, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """Give the line and the word of each finding in a module."""
    for line, text in texts_of(path):
        for found in pattern.finditer(text):
            yield line + text.count("\n", 0, found.start()), found.group().lower()


def folder_of(path: Path) -> str:
    """Give the folder that a module is counted with: the top folder of the package or of the tests, or the module."""
    root = next(each for each in FOLDERS if path.is_relative_to(each))
    return FOLDERS[root] + path.relative_to(root).parts[0]


def write_allowed(counts: Counter[str]) -> None:
    """Replace the table of allowed counts."""
    head = LIST.read_text(encoding="utf-8").split("[allowed]")[0]
    rows = "".join(f'"{folder}" = {count}\n' for folder, count in sorted(counts.items()))
    LIST.write_text(f"{head}[allowed]\n{rows}", encoding="utf-8")


def main() -> int:
    """Print the counts and return 1 when a folder exceeds what is allowed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", nargs="?", const="", metavar="FOLDER", help="list each finding, of one folder or all")
    parser.add_argument("--update", action="store_true", help="lower the allowed counts to those found now")
    options = parser.parse_args()
    settings = tomllib.loads(LIST.read_text(encoding="utf-8"))
    words: dict[str, str] = settings["words"]
    allowed: dict[str, int] = settings["allowed"]
    pattern = re.compile(r"\b(" + "|".join(word.replace(" ", r"\s+") for word in words) + r")\b", re.IGNORECASE)
    counts: Counter[str] = Counter()
    for path in sorted(each for folder in FOLDERS for each in folder.rglob("*.py")):
        for line, word in findings(path, pattern):
            counts[folder_of(path)] += 1
            if options.show is not None and folder_of(path).startswith(options.show):
                print(f"{path.relative_to(ROOT)}:{line}: {word}: {words.get(' '.join(word.split()), '')}")
    if options.update:
        write_allowed(Counter({folder: min(count, allowed.get(folder, count)) for folder, count in counts.items()}))
        return 0
    for folder, count in sorted(counts.items()):
        print(f"{count:6} {folder} (allowed: {allowed.get(folder, 0)})")
    worse = [folder for folder, count in counts.items() if count > allowed.get(folder, 0)]
    for folder in worse:
        print(f"{folder!r} has more words of tools/words.toml than before; see: check_words.py --show {folder}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
