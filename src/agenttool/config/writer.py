"""Write settings: values as TOML, tables and members of tables into a file whose other text stays as it is.

A file that the user trusted stays trusted, and so does a file that did not exist: the user asked for the change.
"""

import json
import operator
import re
import tomllib
from functools import reduce
from pathlib import Path

from agenttool.config.reader import digest_of_settings, user_folder
from agenttool.config.trust import is_trusted, trust_file
from agenttool.errors import ConfigError
from agenttool.records import Json, JsonObject

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_table(heading: str, members: JsonObject) -> str:
    """Return a table as text; the heading has its brackets, such as `[[rules]]`.

    Raises:
        ValueError: it holds a null, for which TOML has no word.
    """
    lines = [f"{toml_key(name)} = {toml_value(value)}" for name, value in members.items()]
    return "\n".join([heading, *lines, ""])


def toml_key(name: str) -> str:
    """Return a key, in quotes if it needs them."""
    return name if _BARE_KEY.fullmatch(name) else _toml_text(name)


def toml_value(value: Json) -> str:
    """Return a value on one line.

    Raises:
        ValueError: it holds a null.
    """
    match value:
        case None:
            raise ValueError("TOML has no null")
        case bool():
            return "true" if value else "false"
        case str():
            return _toml_text(value)
        case int() | float():
            return repr(value)
        case list():
            return f"[{', '.join(toml_value(each) for each in value)}]"
        case _:
            return "{ " + ", ".join(f"{toml_key(name)} = {toml_value(each)}" for name, each in value.items()) + " }"


def _toml_text(value: str) -> str:
    # JSON's escapes are TOML's too, except for the delete character, which JSON leaves bare and TOML forbids.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def append_tables(file: Path, tables: str) -> None:
    """Append tables to a settings file, which is created if there is none.

    Raises:
        ConfigError: the file would not be TOML any more, or cannot be read or written.
    """
    try:
        before = file.read_bytes() if file.exists() else b""
        text = before.decode()
        added = f"{'' if text.endswith(chr(10)) or not text else chr(10)}{chr(10) if text else ''}{tables}"
        tomllib.loads((text + added).removeprefix("\ufeff"))
        file.parent.mkdir(parents=True, exist_ok=True)
        _write(file, before, before + added.encode())
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}; name another file") from error
    except ValueError as error:
        raise ConfigError(f"these tables cannot be appended to {file}: {error}; add them by hand:\n{tables}") from error


def change_table(file: Path, heading: str, members: JsonObject) -> None:
    """Set members of a table of a settings file, each on one line; its other lines stay as they are.

    Raises:
        ConfigError: the file has no such table, or writes one of these members on several lines.
    """
    try:
        before = file.read_bytes()
        _write(file, before, _with_members(before.decode(), heading, members).encode())
    except (OSError, ValueError) as error:
        reason = f"{file} cannot be changed: {error}; write these lines yourself"
        raise ConfigError(f"{reason}:\n{toml_table(heading, members)}") from error


def _with_members(text: str, heading: str, members: JsonObject) -> str:
    lines = (text if text.endswith("\n") else f"{text}\n").splitlines(keepends=True)
    at = next((number for number, line in enumerate(lines) if line.partition("#")[0].strip() == heading), None)
    if at is None:
        raise ValueError(f"it has no line {heading}")
    expected = tomllib.loads(text.removeprefix("\ufeff"))
    reduce(operator.getitem, heading.strip("[]").split("."), expected).update(members)
    end = next((number for number in range(at + 1, len(lines)) if lines[number].startswith("[")), len(lines))
    written = {toml_key(name): f"{toml_key(name)} = {toml_value(value)}\n" for name, value in members.items()}
    others = [line for line in lines[at + 1 : end] if line.partition("=")[0].strip() not in written]
    found = "".join((*lines[: at + 1], *written.values(), *others, *lines[end:]))
    if tomllib.loads(found.removeprefix("\ufeff")) != expected:
        raise ValueError(f"{heading} has lines that are not read here")
    return found


def create_settings(file: Path, text: str) -> None:
    """Create a settings file, which is trusted.

    Raises:
        ConfigError: its record of trust cannot be written.
        OSError: it exists, or cannot be written.
    """
    with file.open("xb") as opened:
        opened.write(text.encode())
    trust_file(file, digest_of_settings(text.encode()))


def _write(file: Path, before: bytes, after: bytes) -> None:
    stays_trusted = not before or is_trusted(file, digest_of_settings(before))
    if after.startswith(before):
        with file.open("ab") as opened:
            opened.write(after[len(before) :])
    else:
        file.write_bytes(after)
    if stays_trusted and file.resolve().parent != user_folder().resolve():  # the user's own file needs no trust
        trust_file(file, digest_of_settings(after))
