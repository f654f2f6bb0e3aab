"""`agenttool trust`: agree to the settings files of a project, list the trusted files, and revoke trust."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agenttool.cli.format import print_json
from agenttool.cli.options import JsonOption
from agenttool.cli.output import escape_markup, plain_table, print_blocks, print_text
from agenttool.config import settings_layers
from agenttool.config.effects import SettingsEffect, effects_of
from agenttool.config.layers import LOCAL_FILE, SETTINGS_FILE, user_config, user_file
from agenttool.config.reader import SettingsFile
from agenttool.config.trust import is_trusted, place_of, revoke_trust, trust_file, trust_record, trusted_files
from agenttool.errors import ConfigError
from agenttool.history.printable import one_line
from agenttool.records import Json, JsonObject

DECLINED = 1
"""Exit code: the user did not agree."""


def trust(
    path: Annotated[
        Path | None, typer.Argument(metavar="PATH", help="The project or its file; default: the one found from here")
    ] = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Trust without a question")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="List the trusted files")] = False,
    revoke: Annotated[Path | None, typer.Option(metavar="PATH", help="No longer trust this project or file")] = None,
    as_json: JsonOption = False,
) -> None:
    """Trust the settings of a project, after a look at what they do.

    Settings of a project can start commands and use your credentials. They apply only after you trust
    them, and again after each change. A file that you name with --settings needs no trust.
    """
    if list_all:
        _print_list(as_json=as_json)
    elif revoke is not None:
        _revoke(revoke, as_json=as_json)
    else:
        _trust(_settings_files(path), yes=yes, as_json=as_json)


def _settings_files(path: Path | None) -> list[SettingsFile]:
    """Return the settings files of a project: those found from here, those in a folder, or one of them.

    Raises:
        ConfigError: there are none.
    """
    if path is None:
        files = [layer.file for layer in settings_layers() if not layer.is_user]
    elif path.is_dir():
        files = [path / SETTINGS_FILE, path / LOCAL_FILE]
    elif path.name in (SETTINGS_FILE, LOCAL_FILE):
        files = [path]
    else:
        raise ConfigError(f"only {SETTINGS_FILE} and {LOCAL_FILE} are found, got {str(path)!r}; use --settings for it")
    found = [SettingsFile.read(each) for each in files if each.is_file() and each.resolve() != user_file().resolve()]
    if not found:
        where = "here or above" if path is None else f"at {str(path)!r}"
        raise ConfigError(f"there are no settings of a project {where}; write them with: agenttool init")
    return found


def _trust(files: list[SettingsFile], *, yes: bool, as_json: bool) -> None:
    user = user_config()
    shown = [(each, effects_of(each, user)) for each in files]
    new = [each for each in files if not is_trusted(each)]
    if not as_json:
        for each, effects in shown:
            _print_effects(each, effects)
    if new and not yes:
        if as_json or not sys.stdin.isatty():
            raise ConfigError("no user can confirm here; read the file, and pass --yes")
        if not _agrees(f"Trust {'it' if len(new) == 1 else 'them'}, until the next change? [y/N]: "):
            raise typer.Exit(DECLINED)
    for each in new:
        trust_file(each.file, each.digest)  # the bytes that were shown, not those of now
    for each, effects in shown:
        if as_json:
            would: list[Json] = [{"verb": effect.verb, "what": effect.what} for effect in effects]
            print_json({"file": str(place_of(each.file)), "state": "trusted", "would": would})
        elif each in new:
            print_text(Console(), f"trusted {one_line(str(place_of(each.file)))}", "green")


def _agrees(question: str) -> bool:
    """Ask the user; the end of the input is a no."""
    try:
        return Console().input(question, markup=False).strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _print_effects(written: SettingsFile, effects: list[SettingsEffect]) -> None:
    place = place_of(written.file)
    state = "is trusted" if is_trusted(written) else "has changed" if trust_record(place) else "is not trusted"
    print_text(Console(), f"{one_line(str(place))} {state}. It would", "bold")
    for verb, what in effects or [("start", "no command, and use no credential")]:
        print_text(Console(), f"  {verb:<10} {what}")


def _print_list(*, as_json: bool) -> None:
    found = trusted_files()
    rows: list[JsonObject] = [{"file": str(each.file), "state": each.state, "digest": each.digest} for each in found]
    if as_json:
        for row in rows:
            print_json(row)
    elif rows:
        print_blocks(
            [plain_table("state", "file", rows=((str(row["state"]), escape_markup(str(row["file"]))) for row in rows))]
        )
    else:
        print_text(Console(stderr=True), "no file is trusted; trust one with: agenttool trust", "dim")


def _revoke(path: Path, *, as_json: bool) -> None:
    place = place_of(path)
    found = [
        each for each in trusted_files() if place in (each.file, each.file.parent) or each.file.parent == path.resolve()
    ]
    if not found:
        raise ConfigError(f"{str(path)!r} is not trusted; list the trusted files with: agenttool trust --list")
    for each in found:
        revoke_trust(each)
        if as_json:
            print_json({"file": str(each.file), "state": "revoked"})
        else:
            print_text(Console(), f"revoked {each.file}", "green")
