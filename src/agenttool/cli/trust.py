"""`agenttool trust`: agree to the settings and the store of a project, list the trusted files, and revoke trust."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import typer

from agenttool.assemble.settings import check_file
from agenttool.cli.format import print_json, print_rows
from agenttool.cli.options import argument, flag, option
from agenttool.cli.output import done, is_json, plain_table, print_text
from agenttool.cli.store_effects import store_effects
from agenttool.config import settings_layers
from agenttool.config.effects import SettingsEffect, effects_of
from agenttool.config.layers import LOCAL_FILE, SETTINGS_FILE, user_config, user_file
from agenttool.config.program import program_name
from agenttool.config.reader import SettingsFile, config_in, digest_of_settings
from agenttool.config.trust import (
    TrustRecord,
    is_trusted,
    place_of,
    revoke_trust,
    trust_file,
    trust_record,
    trusted_files,
)
from agenttool.errors import ConfigError
from agenttool.history.printable import one_line
from agenttool.records import Json, JsonObject, RuleSource
from agenttool.stores.location import store_location, store_path
from agenttool.stores.store_trust import STORE_FILE, found_stores, is_store_digest, store_digest

DECLINED = 1
"""Exit code: the user did not agree."""


class FoundFile(NamedTuple):
    """A settings file or a store that trust is about: as it was read, and what it would do."""

    file: Path
    digest: str
    effects: list[SettingsEffect]


def trust(
    path: Path | None = argument("PATH", "The project or its file; default: the one found from here"),
    *,
    yes: bool = flag("--yes", "Trust without a question"),
    list_all: bool = flag("--list", "List the trusted files"),
    revoke: Path | None = option("--revoke PATH", "No longer trust this project or file"),
) -> None:
    """Trust the settings and the store of a project.

    Settings of a project can start commands and use your credentials. So they apply only after you trust
    them. After each change you must trust them again. A file that you name with --settings needs no trust.

    A store can hold approved calls and remembered rules. If neither options nor settings name a store,
    commands use agenttool.db, but only if you created it or trust it. `agenttool call` uses no store then.
    """
    if list_all:
        _print_list()
    elif revoke is not None:
        _revoke(revoke)
    else:
        _trust(_found_files(path), yes=yes)


def _found_files(path: Path | None) -> list[FoundFile]:
    """Return the files of a project: those found from here, those in a folder, or one of them.

    Raises:
        ConfigError: there are none, or a settings file is invalid.
    """
    if path is None:
        files = [layer.file for layer in settings_layers() if not layer.is_user]
        stores = found_stores(Path())
    elif path.is_dir():
        files, stores = [path / SETTINGS_FILE, path / LOCAL_FILE], found_stores(path)
    elif path.name in (SETTINGS_FILE, LOCAL_FILE):
        files, stores = [path], []
    elif path in found_stores(path.parent):
        files, stores = [], [path]
    else:
        raise ConfigError(
            f"only {SETTINGS_FILE}, {LOCAL_FILE} and {STORE_FILE} are found, got {str(path)!r};"
            " use --settings for it, or --store"
        )
    written = [SettingsFile.read(each) for each in files if each.is_file() and each.resolve() != user_file().resolve()]
    for each in written:
        check_file(config_in(each, source=RuleSource.PROJECT_SETTINGS))
    found = [FoundFile(each.file, each.digest, [*_effects(each, stores)]) for each in written]
    found += map(_read_store, stores)
    if not found:
        where = "here or above" if path is None else f"at {str(path)!r}"
        raise ConfigError(f"there are no settings of a project {where}; write them with: {program_name()} init")
    return found


def _read_store(file: Path) -> FoundFile:
    effects, digest = store_effects(file), store_digest(file)
    if digest is None:
        raise ConfigError(f"{file} has lost its first entry, which identifies a store; name it with --store")
    return FoundFile(file, digest, effects)


def _effects(written: SettingsFile, stores: list[Path]) -> Iterator[SettingsEffect]:
    """Yield the effects of a settings file, and of the store that it names if that is not listed itself.

    To trust settings is to trust the store that they name, so it has no trust of its own.
    """
    yield from effects_of(written, user_config())
    setting = config_in(written, source=RuleSource.PROJECT_SETTINGS).store
    file = None if setting is None else store_path(store_location(setting)[0])
    is_listed = file is None or place_of(file) in map(place_of, stores)
    if file is not None and not is_listed and file.is_file() and file.stat().st_size:
        yield from store_effects(file)


def _trust(files: list[FoundFile], *, yes: bool) -> None:
    new = [each for each in files if not is_trusted(each.file, each.digest)]
    for each in files:
        _print_effects(each)
    if new and not yes:
        if is_json() or not sys.stdin.isatty():
            raise ConfigError("no user can confirm here; read the file, and pass --yes")
        until = "" if any(is_store_digest(each.digest) for each in new) else ", until the next change"
        if not typer.confirm(f"Trust {'it' if len(new) == 1 else 'them'}{until}?"):
            raise typer.Exit(DECLINED)
    for each in new:
        trust_file(each.file, each.digest)  # the bytes that were shown, not those of now
    for each in files:
        would: list[Json] = [{"verb": effect.verb, "what": effect.what} for effect in each.effects]
        print_json({"file": str(place_of(each.file)), "state": "trusted", "would": would})
        if each in new:
            done(f"trusted {one_line(str(place_of(each.file)))}")


def _print_effects(found: FoundFile) -> None:
    state = "has changed" if trust_record(found.file) else "is not trusted"
    state = "is trusted" if is_trusted(found.file, found.digest) else state
    print_text(f"{one_line(str(place_of(found.file)))} {state}. It would", "bold")
    nothing = "resume", "no call, and allow nothing"
    if not is_store_digest(found.digest):
        nothing = "start", "no command, and use no credential"
    for verb, what in found.effects or [nothing]:
        print_text(f"  {verb:<10} {what}")


def _print_list() -> None:
    found = trusted_files()
    rows: list[JsonObject] = [{"file": str(each.file), "state": _state(each), "digest": each.digest} for each in found]
    cells = ((str(row["state"]), str(row["file"])) for row in rows)
    empty = f"no file is trusted; trust one with: {program_name()} trust"
    print_rows(rows, [plain_table("state", "file", rows=cells)], empty=empty)


def _state(record: TrustRecord) -> str:
    """Return `trusted`, `changed` if the file differs now, or `deleted`."""
    try:
        is_store = is_store_digest(record.digest)
        digest = store_digest(record.file) if is_store else digest_of_settings(record.file.read_bytes())
    except OSError:
        return "deleted"
    return "trusted" if digest == record.digest else "changed" if record.file.exists() else "deleted"


def _revoke(path: Path) -> None:
    place = place_of(path)
    found = [
        each for each in trusted_files() if place in (each.file, each.file.parent) or each.file.parent == path.resolve()
    ]
    if not found:
        raise ConfigError(f"{str(path)!r} is not trusted; list the trusted files with: {program_name()} trust --list")
    for each in found:
        revoke_trust(each)
        print_json({"file": str(each.file), "state": "revoked"})
        done(f"revoked {each.file}")
