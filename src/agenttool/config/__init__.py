"""Settings: the only reader of settings files and of the environment."""

from agenttool.config.reader import SETTINGS_FILE, environment, find_config, read_config, starter_rules
from agenttool.config.settings import Config, ServerSetting, Setting, StoreSetting, SurfaceSetting

__all__ = [
    "SETTINGS_FILE",
    "Config",
    "ServerSetting",
    "Setting",
    "StoreSetting",
    "SurfaceSetting",
    "environment",
    "find_config",
    "read_config",
    "starter_rules",
]
