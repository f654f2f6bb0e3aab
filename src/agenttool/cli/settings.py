"""`agenttool init` and `agenttool settings`: write a first settings file, and show which files apply."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from agenttool.cli.format import print_json
from agenttool.cli.options import JsonOption
from agenttool.cli.output import heading, indented, plain_table, print_blocks, print_text, printable
from agenttool.config import load_config, settings_layers
from agenttool.config.layers import AUTO, LOCAL_FILE, SETTINGS_FILE, SettingsLayer
from agenttool.config.reader import SettingsFile
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


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of the project")] = Path(),
    *,
    as_json: JsonOption = False,
) -> None:
    """Write a first settings file, with comments."""
    file = folder / SETTINGS_FILE
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(_FIRST_SETTINGS)
    except FileExistsError as error:
        raise ConfigError(f"{file} exists; change it with an editor, or see it with: agenttool settings") from error
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}; name another folder") from error
    if as_json:
        print_json({"file": str(file)})
    else:
        print_text(Console(), f"wrote {file}; see it with: agenttool settings", "green")


def settings(*, as_json: JsonOption = False) -> None:
    """Show which settings files apply, and where settings come from."""
    load_config(AUTO)  # raises if something is invalid
    files = [(layer, SettingsFile.read(layer.file) if layer.file.is_file() else None) for layer in settings_layers()]
    rows = _settings_rows(files)
    if as_json:
        layers: list[Json] = [
            {"layer": _name(layer), "file": str(layer.file), "exists": written is not None} for layer, written in files
        ]
        print_json({"files": layers, "settings": [*rows]})
        return
    blocks: list[RenderableType] = [heading("Files, the strongest last")]
    table = plain_table(rows=((_name(layer), str(layer.file), "" if found else "none") for layer, found in files))
    blocks += [indented(table), heading("Settings")]
    shown = [
        (Text(str(row["setting"]), style="cyan"), Text(printable(str(row["value"]))), Text(_where(row), style="dim"))
        for row in rows
    ]
    print_blocks([*blocks, indented(plain_table(rows=shown)) if shown else indented(Text("none"))])


def _name(layer: SettingsLayer) -> str:
    return {RuleSource.USER_SETTINGS: "user", RuleSource.PROJECT_SETTINGS: "project"}.get(layer.source, "local")


def _where(row: JsonObject) -> str:
    return f"{row['place']}" + (f", overridden by {row['overridden_by']}" if row["overridden_by"] else "")


def _settings_rows(files: list[tuple[SettingsLayer, SettingsFile | None]]) -> list[JsonObject]:
    """Return each setting with its place, and the layer that overrides it; rules and hooks of all layers apply."""
    found = [(layer, row) for layer, written in files if written is not None for row in _rows_of(written)]
    last = {str(row["setting"]): layer for layer, row in found}
    for layer, row in found:
        winner = last[str(row["setting"])]
        if winner is not layer and not str(row["setting"]).startswith("[["):
            row["overridden_by"] = _name(winner)
    return [row for _, row in found]


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
