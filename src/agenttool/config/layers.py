"""The settings files that apply together: those of the user, of the project, and of this copy of the project.

A project may be the work of a stranger. Its files apply only after the user has trusted them, and they cannot weaken
the file of the user: rules and hooks of all layers apply, and the strictest rule and the strictest mode win. Members
of roles and teams are united, but an allow of the user counts only the members that the user lists. Relative paths in
rules of the user refer to the user's workspace, too. Of any other setting the last layer wins.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path

from agenttool.config.reader import SettingsFile, config_in, read_config, user_folder
from agenttool.config.settings import MODES, Config, ServerSetting, SurfaceSetting
from agenttool.config.table import read_table
from agenttool.config.trust import place_of, record_file, require_trust
from agenttool.errors import ConfigError
from agenttool.records import JsonObject, RuleSource

SETTINGS_FILE = "agenttool.toml"
"""The file of a project; it is looked for in the working directory and above."""

LOCAL_FILE = "agenttool.local.toml"
"""The file beside it that is not shared, for this copy of the project."""

AUTO = "auto"
"""Names the settings files that apply in the working directory."""


@dataclass(frozen=True, slots=True)
class SettingsLayer:
    """A settings file, which may not exist, and the source of its rules."""

    source: RuleSource
    file: Path

    @property
    def is_user(self) -> bool:
        """Whether it is the user's own file, which needs no trust."""
        return self.source == RuleSource.USER_SETTINGS

    def read(self) -> SettingsFile | None:
        """Return the parsed file; none if there is no such file, or if it is the user's own under another name.

        Raises:
            ConfigError: it cannot be read, or is not TOML.
        """
        if not self.file.is_file() or (not self.is_user and self.file.resolve() == user_file().resolve()):
            return None
        return SettingsFile.read(self.file)


def settings_layers() -> tuple[SettingsLayer, ...]:
    """Return the places of the settings files that apply in the working directory, the strongest last."""
    project = _find_project_file()
    return (
        SettingsLayer(RuleSource.USER_SETTINGS, user_file()),
        SettingsLayer(RuleSource.PROJECT_SETTINGS, project),
        SettingsLayer(RuleSource.LOCAL_SETTINGS, project.with_name(LOCAL_FILE)),
    )


def rule_files(config: str | Path | None = AUTO) -> dict[str, Path]:
    """Return the settings files to which rules can be added, by the names `user`, `project` and `local`.

    If one file is named, it alone applies, and it is that of the project.
    """
    if config not in (None, AUTO):
        return {"project": Path(config)}
    return {each.source.value.partition("_")[0]: each.file for each in settings_layers()}


def user_file() -> Path:
    """Return the place of the user's settings file."""
    return user_folder() / SETTINGS_FILE


def _find_project_file() -> Path:
    """Return the nearest settings file from the working directory upwards; if there is none, its place here."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / SETTINGS_FILE).is_file():
            return Path(os.path.relpath(folder / SETTINGS_FILE))
    return Path(SETTINGS_FILE)


def load_config(config: str | Path | None) -> Config:
    """Return the settings of one file, of all layers for `"auto"`, or none. A file that is named needs no trust.

    Raises:
        ConfigError: a file cannot be read, is not TOML, or has an unknown or invalid setting; names the line. Or a
            file of the project is not trusted.
    """
    if config is None:
        return Config()
    if config != AUTO:
        return replace(read_config(config), named_file=Path(config))
    found = [(layer, written) for layer in settings_layers() if (written := layer.read()) is not None]
    user = user_config()
    for layer, written in found:
        if not layer.is_user:
            require_trust(written, user)
    return merge_layers(found)


def files_of(config: str | Path | None) -> tuple[Path, ...]:
    """Return the files on which the result of `load_config` depends, whether they exist or not."""
    if config is None or config != AUTO:
        return () if config is None else (Path(config),)
    layers = [each.file for each in settings_layers()]
    return (*layers, *(record_file(place_of(each)) for each in layers))


def user_config() -> Config:
    """Return the settings of the user's file alone.

    Raises:
        ConfigError: the file is invalid.
    """
    written = SettingsLayer(RuleSource.USER_SETTINGS, user_file()).read()
    return Config() if written is None else config_in(written, source=RuleSource.USER_SETTINGS)


def merge_layers(found: Iterable[tuple[SettingsLayer, SettingsFile]]) -> Config:
    """Return the settings of all layers together, the strongest last; none of them needs trust here.

    Raises:
        ConfigError: a setting is invalid, or the workspace of the project is outside of that of the user.
    """
    merged, user = Config(), None
    tables: dict[str, JsonObject] = {"server": {}, "surface": {}}
    for layer, written in found:
        config = config_in(written, source=layer.source)
        if layer.is_user:
            user = config
        for name, members in tables.items():
            table = written.tables.get(name)
            members.update(table if isinstance(table, dict) else {})
        merged = _merge(merged, config)
    if user is not None and user.workspace and merged.workspace != user.workspace:
        merged = replace(merged, workspace=_narrowed(user.workspace, merged.workspace))
    return replace(
        merged,
        user=user,
        is_layered=True,
        server=None if merged.server is None else read_table(tables["server"], ServerSetting, "[server]"),
        surface=None if merged.surface is None else read_table(tables["surface"], SurfaceSetting, "[surface]"),
    )


def _merge(lower: Config, upper: Config) -> Config:
    """Return the settings of two layers together."""
    merged: dict[str, object] = {}
    for name in (field.name for field in fields(Config)):
        below, above = getattr(lower, name), getattr(upper, name)
        if name in ("rules", "hooks"):
            places = {each.place for each in above}  # the starter rules may be in both
            merged[name] = (*above, *(each for each in below if each.place not in places))
        elif name in ("roles", "teams"):
            united = {each: (*below.get(each, ()), *above.get(each, ())) for each in {**below, **above}}
            merged[name] = {each: tuple(dict.fromkeys(actors)) for each, actors in united.items()}
        elif isinstance(above, dict):
            merged[name] = {**below, **above}
        else:
            merged[name] = below if above in (None, (), "") else above
    if lower.mode is not None and (upper.mode is None or strictness(lower.mode) > strictness(upper.mode)):
        merged |= {"mode": lower.mode, "mode_place": lower.mode_place}
    if False in (lower.interactive, upper.interactive):
        merged["interactive"] = False
    return Config(**merged)  # pyright: ignore[reportArgumentType] -- each value is one of the same field


def strictness(mode: str) -> int:
    """Return the rank of a permission mode; an unknown one is the strictest, so that it is reported."""
    return MODES.index(mode) if mode in MODES else len(MODES)


def _narrowed(user: tuple[str, ...], project: tuple[str, ...]) -> tuple[str, ...]:
    """Return the folders that are within both workspaces.

    Raises:
        ConfigError: there is none.
    """
    ours, theirs = ([Path(os.path.realpath(each)) for each in folders] for folders in (user, project))
    within = [each for each in theirs if any(each.is_relative_to(folder) for folder in ours)]
    within += [each for each in ours if any(each.is_relative_to(folder) for folder in theirs)]
    if not within:
        raise ConfigError(
            f"the workspace of this project, {', '.join(project)}, is outside of yours, {', '.join(user)}; "
            f"change [permissions] workspace in {user_file()}"
        )
    return tuple(dict.fromkeys(str(each) for each in within))
