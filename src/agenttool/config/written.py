"""A settings file as written: its tables, and the lines that the parser forgets."""

import itertools
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Self, cast

from agenttool.errors import ConfigError
from agenttool.records import JsonObject


@dataclass(frozen=True, slots=True)
class Written:
    """One file, read; every complaint about it names the line."""

    file: Path
    lines: tuple[str, ...]
    tables: JsonObject

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a file.

        Raises:
            ConfigError: it cannot be read, or is not TOML.
        """
        file = Path(path)
        try:
            text = file.read_text(encoding="utf-8-sig")
            return cls(file, tuple(text.splitlines()), tomllib.loads(text))
        except OSError as error:
            raise ConfigError(f"settings cannot be read: {str(path)!r}: {error.strerror}; name another file") from error
        except (ValueError, RecursionError) as error:  # not UTF-8, not TOML, or numbers and lists beyond all measure
            raise ConfigError(f"{path}: not TOML: {error}; correct it") from error

    def headings(self, *names: str) -> list[int]:
        """Give the lines of this table's headings, or of each table in a list of this name."""
        return self._lines(rf"\s*\[+\s*{_dotted(names)}\s*\]")

    def place(self, *names: str, key: str | None = None) -> str:
        """Say where a table stands, or one of its keys; where neither is found, where the file begins."""
        begun = self.headings(*names) or self._lines(rf"\s*\[*\s*{_dotted(names)}\s*[=.]") or [1]
        begin = begun[0]
        if key is not None:
            table = itertools.takewhile(lambda line: not line.lstrip().startswith("["), self.lines[begin:])
            member = re.compile(rf'\s*["\']?{re.escape(key)}["\']?\s*[=.]')
            begin = next((number for number, line in enumerate(table, begin + 1) if member.match(line)), begin)
        return f"{self.file}:{begin}"

    def members(self, name: str, known: tuple[str, ...]) -> JsonObject:
        """Give the members of a table that may be left out.

        Raises:
            ConfigError: it is no table, or has a member that nobody knows.
        """
        table = self.tables.get(name, {})
        if not isinstance(table, dict):
            raise ConfigError(f"{self.place(name)}: {name} must be a table; write [{name}]")
        for each in table:
            if each not in known:
                place = self.place(name, key=each)
                raise ConfigError(f"{place}: [{name}] has no {each!r}; use one of {', '.join(sorted(known))}")
        return cast("JsonObject", table)

    def _lines(self, pattern: str) -> list[int]:
        found = re.compile(pattern)
        return [number for number, line in enumerate(self.lines, 1) if found.match(line)]


def _dotted(names: tuple[str, ...]) -> str:
    return r"\s*\.\s*".join(rf'["\']?{re.escape(each)}["\']?' for each in names)
