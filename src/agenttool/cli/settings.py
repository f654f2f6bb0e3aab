"""`agenttool init` and `agenttool settings`: write a first settings file, and show which files apply."""

import re
from collections.abc import Iterator
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from agenttool.cli.format import print_json
from agenttool.cli.options import argument
from agenttool.cli.output import done, heading, indented, is_json, plain_table, print_blocks
from agenttool.config import settings_layers
from agenttool.config.layers import LOCAL_FILE, SETTINGS_FILE, SettingsLayer, merge_layers, strictness
from agenttool.config.program import program_name
from agenttool.config.reader import SettingsFile
from agenttool.config.secret_words import MASK, REFERENCE, masked_text, masked_word, replace_secrets
from agenttool.config.trust import is_trusted
from agenttool.config.writer import create_settings
from agenttool.errors import ConfigError
from agenttool.records import Json, JsonObject, RuleSource

_FIRST_SETTINGS = f"""\
# Settings of agenttool for this project. `agenttool settings` shows what applies.
# Yours alone belong into {LOCAL_FILE} beside this file, which is not shared.

[store]
url = "sqlite:agenttool.db"     # calls and approvals survive the process

[permissions]
mode = "default"                # or read_only: deny every tool that may write; accept_edits
rules = "starter"               # the package's rules for commands: reads and tests run, deletion is asked about

# The strictest rule that matches wins: deny before ask, ask before allow.
# A call that no rule covers runs only if its tool is declared read-only; any other is asked about.
#
# [[rules]]
# name = "small-payments"
# behavior = "allow"            # allow, ask or deny
# tool = "bank.pay"             # namespace.name; * matches any characters
# argument = {{ "/amount" = {{ max = 50 }} }}
#
# [[rules]]
# name = "no-secrets"
# behavior = "deny"
# path = ["secrets/**", "~/.ssh/**"]
# because = "keys stay on this machine"

# Where tools come from, besides those that a program declares:
#
# [sources.mytools]
# kind = "python"
# module = "mytools"
"""

_IGNORED_STORE = "/agenttool.db*\n/agenttool.*.db*\n"


def init(
    folder: Path = argument("FOLDER", "The folder of the project", default=Path()),
) -> None:
    """Write a first settings file, with comments."""
    file = folder / SETTINGS_FILE
    try:
        create_settings(file, _FIRST_SETTINGS)
    except FileExistsError as error:
        raise ConfigError(
            f"{file} exists; change it with an editor, or see it with: {program_name()} settings"
        ) from error
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}; name another folder") from error
    _ignore_store(folder)
    print_json({"file": str(file)})
    done(f"wrote {file}; see it with: {program_name()} settings")


def _ignore_store(folder: Path) -> None:
    """Add the files of the store to `.gitignore`, if the folder is in a repository of git."""
    file, above = folder / ".gitignore", folder.resolve()
    if not any((each / ".git").exists() for each in (above, *above.parents)):
        return
    try:
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        if _IGNORED_STORE not in text:
            joint = "\n" if text and not text.endswith("\n") else ""
            file.write_text(f"{text}{joint}{_IGNORED_STORE}", encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be changed: {error}; add these lines to it:\n{_IGNORED_STORE}") from error


def settings() -> None:
    """Show which settings files apply, and where settings come from."""
    files = [(layer, layer.read()) for layer in settings_layers()]
    merge_layers((layer, written) for layer, written in files if written is not None)  # raises if something is invalid
    states = [_state(layer, written) for layer, written in files]
    rows = _settings_rows([(layer, written) for layer, written in files if written is not None])
    if is_json():
        layers: list[Json] = [
            {"layer": _name(layer), "file": str(layer.file), "exists": written is not None, "state": state}
            for (layer, written), state in zip(files, states, strict=True)
        ]
        print_json({"files": layers, "settings": [*rows]})
        return
    listed = ((_name(layer), str(layer.file), state) for (layer, _), state in zip(files, states, strict=True))
    blocks: list[RenderableType] = [heading("Files, the strongest last"), indented(plain_table(rows=listed))]
    if _UNTRUSTED in states:
        blocks.append(
            Text(f"a file is not trusted, so commands do not run here; see: {program_name()} trust", style="yellow")
        )
    blocks.append(heading("Settings"))
    shown = ((Text(str(row["setting"]), "cyan"), str(row["value"]), Text(_where(row), "dim")) for row in rows)
    print_blocks([*blocks, indented(plain_table("", "", "", rows=shown) if rows else "none")])


_UNTRUSTED = "not trusted"


def _state(layer: SettingsLayer, written: SettingsFile | None) -> str:
    if written is None:
        return "none"
    return "yours" if layer.is_user else "trusted" if is_trusted(written.file, written.digest) else _UNTRUSTED


def _name(layer: SettingsLayer) -> str:
    return {RuleSource.USER_SETTINGS: "user", RuleSource.PROJECT_SETTINGS: "project"}.get(layer.source, "local")


def _where(row: JsonObject) -> str:
    return f"{row['place']}" + (f", overridden by {row['overridden_by']}" if row["overridden_by"] else "")


def _settings_rows(files: list[tuple[SettingsLayer, SettingsFile]]) -> list[JsonObject]:
    """Return each setting with its place, and the layer that overrides it."""
    found = [(layer, row) for layer, written in files for row in _rows_of(written)]
    for layer, row in found:
        setting = str(row["setting"])
        rivals = [(_strictness(each), at) for at, (_, each) in enumerate(found) if _is_rival(each, setting)]
        winner = found[max(rivals)[1]][0] if rivals else layer
        row["overridden_by"] = None if winner is layer else _name(winner)
    return [_masked_row(row) for _, row in found]


_UNITED = ("[[", "roles.", "teams.", "permissions.rules", "permissions.workspace")
"""Settings that add up."""


def _is_rival(row: JsonObject, setting: str) -> bool:
    """Return whether only one of two settings applies; a [store] table applies as a whole."""
    other = str(row["setting"])
    if setting.startswith("store."):
        return other.startswith("store.")
    return other == setting and not setting.startswith(_UNITED)


def _strictness(row: JsonObject) -> int:
    """Return how strict a setting is, if the strictest one applies; the last one of equal strictness does."""
    if row["setting"] == "permissions.mode":
        return strictness(str(row["value"]))
    return int(row["setting"] == "permissions.interactive" and row["value"] is False)


_COMMANDS = ("command", "args")
_SECRET_TABLES = ("env", "headers", "oauth")
_URL_SECRET = re.compile(r"(?<=://)[^/@\s]*(?=@)|(?<=[?#]).*")


def _masked_row(row: JsonObject) -> JsonObject:
    is_secret = str(row["setting"]).startswith("credentials.")
    return {**row, "value": _masked(row["value"], is_secret=is_secret)}


def _masked(value: Json, *, is_secret: bool = False) -> Json:
    """Return a value without its secrets: headers, variables, words of commands, parts of credentials and of URLs."""
    if isinstance(value, dict):
        return {
            name: _masked(
                _masked_words(each) if name in _COMMANDS else each,
                is_secret=is_secret or (name in _SECRET_TABLES and isinstance(each, dict)),
            )
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [_masked(each, is_secret=is_secret) for each in value]
    if isinstance(value, str) and not is_secret:
        return _URL_SECRET.sub(MASK, value) if "://" in value else value
    return value if isinstance(value, str) and REFERENCE.fullmatch(value) else MASK if is_secret else value


def _masked_words(command: Json) -> Json:
    """Return a command, or its arguments, without the words that look like secrets."""
    if isinstance(command, str):
        return masked_text(command)
    words = command if isinstance(command, list) else []
    return [*replace_secrets(map(str, words), masked_word)] if words else command


def _rows_of(written: SettingsFile) -> Iterator[JsonObject]:
    for table, members in written.tables.items():
        if isinstance(members, list):
            lines = written.headings(table)
            lines = lines if len(lines) == len(members) else [written.line(table)] * len(members)
            yield from (
                _row(f"[[{table}]]", _title(each), f"{written.file}:{line}")
                for each, line in zip(members, lines, strict=True)
            )
        elif isinstance(members, dict):
            for key, value in members.items():
                place = written.place(table, key) if isinstance(value, dict) else written.place(table, key=key)
                yield _row(f"{table}.{key}", value, place)


def _row(setting: str, value: Json, place: str) -> JsonObject:
    return {"setting": setting, "value": value, "place": place, "overridden_by": None}


def _title(table: Json) -> Json:
    """Return what identifies a rule or a hook: its name, or else all of it."""
    return table.get("name", table) if isinstance(table, dict) else table
