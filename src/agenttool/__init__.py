"""The governed tool layer for AI agents: declare a tool once, run every call through one explained pipeline.

The names below are loaded when they are first used, so that the command line starts at once (ADR 0007).
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agenttool.adapters.mcp.settings import McpServer, OAuthSettings
    from agenttool.adapters.openapi.settings import OAuthGrant, OpenApiService
    from agenttool.adapters.python.context import Context, Progress
    from agenttool.adapters.python.declare import tool
    from agenttool.adapters.python.files import File, Image
    from agenttool.adapters.python.from_objects import make_tool, tools_from
    from agenttool.adapters.python.threads import FunctionHook
    from agenttool.adapters.rap.settings import RapServer
    from agenttool.agent.call_access import CallHandle
    from agenttool.errors import (
        AgentToolError,
        ConfigError,
        CredentialMissing,
        RecordError,
        ReplyError,
        StoreError,
        ToolFailure,
    )
    from agenttool.hooks.definition import Hook
    from agenttool.policy.approvals import Allow, Answered, Deny, Edit, Question, Refused, Remember
    from agenttool.policy.rules import Rule
    from agenttool.ports.advice import Advice, Adviser
    from agenttool.ports.calls import ToolCall
    from agenttool.ports.credentials import FetchedCredential, Secret
    from agenttool.ports.limits import RateLimit
    from agenttool.ports.output import Media
    from agenttool.ports.retriever import Retriever
    from agenttool.ports.source import Source, SourceHost, SourceStatus, SourceTable
    from agenttool.ports.surfacing import Circumstances, ModelCapabilities, ProviderState, Role, SurfacePolicy
    from agenttool.ports.tool import DeclaredTool
    from agenttool.records import Behavior, HookEvent, RuleSource, ToolError, ToolInvocation, ToolSearchResult
    from agenttool.records.result import ToolResult
    from agenttool.records.surface import ToolSurface
    from agenttool.runtime import Runtime
    from agenttool.schema.markers import CommandArg, Inject, Internal, PathArg, Sensitive, UrlArg

__version__ = "0.1.0.dev0"

_MODULES = {
    "Advice": "agenttool.ports.advice",
    "Adviser": "agenttool.ports.advice",
    "AgentToolError": "agenttool.errors",
    "Allow": "agenttool.policy.approvals",
    "Answered": "agenttool.policy.approvals",
    "Behavior": "agenttool.records",
    "CallHandle": "agenttool.agent.call_access",
    "Circumstances": "agenttool.ports.surfacing",
    "CommandArg": "agenttool.schema.markers",
    "ConfigError": "agenttool.errors",
    "Context": "agenttool.adapters.python.context",
    "CredentialMissing": "agenttool.errors",
    "DeclaredTool": "agenttool.ports.tool",
    "Deny": "agenttool.policy.approvals",
    "Edit": "agenttool.policy.approvals",
    "File": "agenttool.adapters.python.files",
    "FetchedCredential": "agenttool.ports.credentials",
    "FunctionHook": "agenttool.adapters.python.threads",
    "Hook": "agenttool.hooks.definition",
    "HookEvent": "agenttool.records",
    "Image": "agenttool.adapters.python.files",
    "Inject": "agenttool.schema.markers",
    "Internal": "agenttool.schema.markers",
    "McpServer": "agenttool.adapters.mcp.settings",
    "OAuthGrant": "agenttool.adapters.openapi.settings",
    "OAuthSettings": "agenttool.adapters.mcp.settings",
    "OpenApiService": "agenttool.adapters.openapi.settings",
    "Media": "agenttool.ports.output",
    "ModelCapabilities": "agenttool.ports.surfacing",
    "PathArg": "agenttool.schema.markers",
    "Progress": "agenttool.adapters.python.context",
    "ProviderState": "agenttool.ports.surfacing",
    "Question": "agenttool.policy.approvals",
    "RapServer": "agenttool.adapters.rap.settings",
    "RateLimit": "agenttool.ports.limits",
    "RecordError": "agenttool.errors",
    "Refused": "agenttool.policy.approvals",
    "Remember": "agenttool.policy.approvals",
    "ReplyError": "agenttool.errors",
    "Retriever": "agenttool.ports.retriever",
    "Role": "agenttool.ports.surfacing",
    "Rule": "agenttool.policy.rules",
    "RuleSource": "agenttool.records",
    "Runtime": "agenttool.runtime",
    "Secret": "agenttool.ports.credentials",
    "Sensitive": "agenttool.schema.markers",
    "Source": "agenttool.ports.source",
    "SourceHost": "agenttool.ports.source",
    "SourceStatus": "agenttool.ports.source",
    "SourceTable": "agenttool.ports.source",
    "StoreError": "agenttool.errors",
    "SurfacePolicy": "agenttool.ports.surfacing",
    "ToolCall": "agenttool.ports.calls",
    "ToolError": "agenttool.records",
    "ToolFailure": "agenttool.errors",
    "ToolInvocation": "agenttool.records",
    "ToolResult": "agenttool.records",
    "ToolSearchResult": "agenttool.records",
    "ToolSurface": "agenttool.records",
    "UrlArg": "agenttool.schema.markers",
    "make_tool": "agenttool.adapters.python.from_objects",
    "tool": "agenttool.adapters.python.declare",
    "tools_from": "agenttool.adapters.python.from_objects",
}

__all__ = [
    "Advice",
    "Adviser",
    "AgentToolError",
    "Allow",
    "Answered",
    "Behavior",
    "CallHandle",
    "Circumstances",
    "CommandArg",
    "ConfigError",
    "Context",
    "CredentialMissing",
    "DeclaredTool",
    "Deny",
    "Edit",
    "FetchedCredential",
    "File",
    "FunctionHook",
    "Hook",
    "HookEvent",
    "Image",
    "Inject",
    "Internal",
    "McpServer",
    "Media",
    "ModelCapabilities",
    "OAuthGrant",
    "OAuthSettings",
    "OpenApiService",
    "PathArg",
    "Progress",
    "ProviderState",
    "Question",
    "RapServer",
    "RateLimit",
    "RecordError",
    "Refused",
    "Remember",
    "ReplyError",
    "Retriever",
    "Role",
    "Rule",
    "RuleSource",
    "Runtime",
    "Secret",
    "Sensitive",
    "Source",
    "SourceHost",
    "SourceStatus",
    "SourceTable",
    "StoreError",
    "SurfacePolicy",
    "ToolCall",
    "ToolError",
    "ToolFailure",
    "ToolInvocation",
    "ToolResult",
    "ToolSearchResult",
    "ToolSurface",
    "UrlArg",
    "__version__",
    "make_tool",
    "tool",
    "tools_from",
]


def __getattr__(name: str) -> object:
    """Load a public name on first use."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(module), name)
    globals()[name] = value
    return value
