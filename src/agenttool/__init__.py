"""The governed tool layer for AI agents: declare a tool once, run every call through one explained pipeline.

The names below are loaded when they are first used, so that the command line starts at once (ADR 0007).
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agenttool.adapters.python.context import Context as Context
    from agenttool.adapters.python.context import Progress as Progress
    from agenttool.adapters.python.declare import tool as tool
    from agenttool.adapters.python.threads import FunctionHook as FunctionHook
    from agenttool.adapters.rap.settings import RapSource as RapSource
    from agenttool.errors import AgentToolError as AgentToolError
    from agenttool.errors import ConfigError as ConfigError
    from agenttool.errors import RecordError as RecordError
    from agenttool.errors import ReplyError as ReplyError
    from agenttool.errors import StoreError as StoreError
    from agenttool.errors import ToolFailure as ToolFailure
    from agenttool.hooks.definition import Hook as Hook
    from agenttool.ports.advice import Advice as Advice
    from agenttool.ports.advice import Adviser as Adviser
    from agenttool.ports.calls import ToolCall as ToolCall
    from agenttool.ports.limits import RateLimit as RateLimit
    from agenttool.ports.output import Media as Media
    from agenttool.ports.retriever import Retriever as Retriever
    from agenttool.ports.source import Source as Source
    from agenttool.ports.source import SourceHost as SourceHost
    from agenttool.ports.source import SourceStatus as SourceStatus
    from agenttool.ports.source import SourceTable as SourceTable
    from agenttool.ports.surfacing import Circumstances as Circumstances
    from agenttool.ports.surfacing import ModelCapabilities as ModelCapabilities
    from agenttool.ports.surfacing import ProviderState as ProviderState
    from agenttool.ports.surfacing import Role as Role
    from agenttool.ports.surfacing import SurfacePolicy as SurfacePolicy
    from agenttool.records.result import ToolResult as ToolResult
    from agenttool.records.surface import ToolSurface as ToolSurface
    from agenttool.runtime import Runtime as Runtime
    from agenttool.schema.markers import CommandArg as CommandArg
    from agenttool.schema.markers import Internal as Internal
    from agenttool.schema.markers import PathArg as PathArg
    from agenttool.schema.markers import Sensitive as Sensitive
    from agenttool.schema.markers import UrlArg as UrlArg

__version__ = "0.1.0.dev0"

_MODULES = {
    "Advice": "agenttool.ports.advice",
    "Adviser": "agenttool.ports.advice",
    "AgentToolError": "agenttool.errors",
    "Circumstances": "agenttool.ports.surfacing",
    "CommandArg": "agenttool.schema.markers",
    "ConfigError": "agenttool.errors",
    "Context": "agenttool.adapters.python.context",
    "FunctionHook": "agenttool.adapters.python.threads",
    "Hook": "agenttool.hooks.definition",
    "Internal": "agenttool.schema.markers",
    "Media": "agenttool.ports.output",
    "ModelCapabilities": "agenttool.ports.surfacing",
    "PathArg": "agenttool.schema.markers",
    "Progress": "agenttool.adapters.python.context",
    "ProviderState": "agenttool.ports.surfacing",
    "RapSource": "agenttool.adapters.rap.settings",
    "RateLimit": "agenttool.ports.limits",
    "RecordError": "agenttool.errors",
    "Retriever": "agenttool.ports.retriever",
    "ReplyError": "agenttool.errors",
    "Role": "agenttool.ports.surfacing",
    "Runtime": "agenttool.runtime",
    "Sensitive": "agenttool.schema.markers",
    "Source": "agenttool.ports.source",
    "SourceHost": "agenttool.ports.source",
    "SourceStatus": "agenttool.ports.source",
    "SourceTable": "agenttool.ports.source",
    "StoreError": "agenttool.errors",
    "SurfacePolicy": "agenttool.ports.surfacing",
    "ToolCall": "agenttool.ports.calls",
    "ToolFailure": "agenttool.errors",
    "ToolResult": "agenttool.records",
    "ToolSurface": "agenttool.records",
    "UrlArg": "agenttool.schema.markers",
    "tool": "agenttool.adapters.python.declare",
}

__all__ = [
    "Advice",
    "Adviser",
    "AgentToolError",
    "Circumstances",
    "CommandArg",
    "ConfigError",
    "Context",
    "FunctionHook",
    "Hook",
    "Internal",
    "Media",
    "ModelCapabilities",
    "PathArg",
    "Progress",
    "ProviderState",
    "RapSource",
    "RateLimit",
    "RecordError",
    "Retriever",
    "Role",
    "Runtime",
    "Sensitive",
    "Source",
    "SourceHost",
    "SourceStatus",
    "SourceTable",
    "StoreError",
    "SurfacePolicy",
    "ToolCall",
    "ToolFailure",
    "ToolResult",
    "ToolSurface",
    "UrlArg",
    "__version__",
    "tool",
]


def __getattr__(name: str) -> object:
    """Load a public name on first use."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(module), name)
    globals()[name] = value
    return value
