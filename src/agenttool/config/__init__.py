"""Settings: the only reader of settings files and of the environment."""

from agenttool.config.reader import environment, read_config, starter_rules
from agenttool.config.settings import Config, ServerSetting, Setting, StoreSetting, SurfaceSetting

__all__ = [
    "Config",
    "ServerSetting",
    "Setting",
    "StoreSetting",
    "SurfaceSetting",
    "environment",
    "read_config",
    "starter_rules",
]
