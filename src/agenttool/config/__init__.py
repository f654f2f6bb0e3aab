"""Settings: the only reader of settings files and of the environment."""

from agenttool.config.layers import AUTO, SETTINGS_FILE, files_of, load_config, rule_files, settings_layers
from agenttool.config.reader import environment, read_config, starter_rules
from agenttool.config.settings import Config, JwtTable, ServerSetting, Setting, StoreSetting, SurfaceSetting

__all__ = [
    "AUTO",
    "SETTINGS_FILE",
    "Config",
    "JwtTable",
    "ServerSetting",
    "Setting",
    "StoreSetting",
    "SurfaceSetting",
    "environment",
    "files_of",
    "load_config",
    "read_config",
    "rule_files",
    "settings_layers",
    "starter_rules",
]
