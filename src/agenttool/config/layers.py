"""The settings files that apply together: those of the user, of the project, and of this copy of the project.

Rules and hooks of all layers apply, and the strictest rule wins. Of any other setting the last layer wins.
"""

import os
from dataclasses import dataclass, fields
from pathlib import Path

from agenttool.config.reader import environment, read_config
from agenttool.config.settings import Config
from agenttool.records import RuleSource

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


def settings_layers() -> tuple[SettingsLayer, ...]:
    """Return the places of the settings files that apply in the working directory, the strongest last."""
    project = _find_project_file()
    return (
        SettingsLayer(RuleSource.USER_SETTINGS, user_file()),
        SettingsLayer(RuleSource.PROJECT_SETTINGS, project),
        SettingsLayer(RuleSource.LOCAL_SETTINGS, project.with_name(LOCAL_FILE)),
    )


def user_file() -> Path:
    """Return the place of the user's settings file."""
    folder = environment(["XDG_CONFIG_HOME"]).get("XDG_CONFIG_HOME") or "~/.config"
    return Path(folder).expanduser() / "agenttool" / SETTINGS_FILE


def _find_project_file() -> Path:
    """Return the nearest settings file from the working directory upwards; if there is none, its place here."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / SETTINGS_FILE).is_file():
            return Path(os.path.relpath(folder / SETTINGS_FILE))
    return Path(SETTINGS_FILE)


def load_config(config: str | Path | None) -> Config:
    """Return the settings of one file, of all layers for `"auto"`, or none.

    Raises:
        ConfigError: a file cannot be read, is not TOML, or has an unknown or invalid setting; names the line.
    """
    if config is None:
        return Config()
    if config != AUTO:
        return read_config(config)
    found = Config()
    for layer in settings_layers():
        if layer.file.is_file():
            found = _merge(found, read_config(layer.file, source=layer.source))
    return found


_JOINED = ("rules", "hooks")


def _merge(lower: Config, upper: Config) -> Config:
    """Return the settings of two layers together."""
    merged: dict[str, object] = {}
    for name in (field.name for field in fields(Config)):
        below, above = getattr(lower, name), getattr(upper, name)
        if name in _JOINED:
            places = {each.place for each in above}  # the starter rules may be in both
            merged[name] = (*above, *(each for each in below if each.place not in places))
        elif isinstance(above, dict):
            merged[name] = {**below, **above}
        else:
            merged[name] = below if above in (None, (), "") else above
    return Config(**merged)  # pyright: ignore[reportArgumentType] -- each value is one of the same field
