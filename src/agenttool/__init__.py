"""The governed tool layer for AI agents: declare a tool once, run every call through one explained pipeline.

The names below are loaded when they are first used, so that the command line starts at once (ADR 0007).
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agenttool.adapters.mcp.settings import McpServer as McpServer
    from agenttool.adapters.openapi.settings import OpenApiService as OpenApiService
    from agenttool.adapters.python.context import Context as Context
    from agenttool.adapters.python.context import Progress as Progress
    from agenttool.adapters.python.declare import tool as tool
    from agenttool.adapters.python.files import File as File
    from agenttool.adapters.python.files import Image as Image
    from agenttool.adapters.python.from_objects import make_tool as make_tool
    from agenttool.adapters.python.from_objects import tools_from as tools_from
    from agenttool.adapters.python.threads import FunctionHook as FunctionHook
    from agenttool.adapters.rap.settings import RapServer as RapServer
    from agenttool.errors import AgentToolError as AgentToolError
    from agenttool.errors import ConfigError as ConfigError
    from agenttool.errors import CredentialMissing as CredentialMissing
    from agenttool.errors import RecordError as RecordError
    from agenttool.errors import ReplyError as ReplyError
    from agenttool.errors import StoreError as StoreError
    from agenttool.errors import ToolFailure as ToolFailure
    from agenttool.hooks.definition import Hook as Hook
    from agenttool.policy.approvals import Allow as Allow
    from agenttool.policy.approvals import Answered as Answered
    from agenttool.policy.approvals import Deny as Deny
    from agenttool.policy.approvals import Edit as Edit
    from agenttool.policy.approvals import Question as Question
    from agenttool.policy.approvals import Refused as Refused
    from agenttool.policy.approvals import Remember as Remember
    from agenttool.policy.rules import Rule as Rule
    from agenttool.ports.advice import Advice as Advice
    from agenttool.ports.advice import Adviser as Adviser
    from agenttool.ports.calls import ToolCall as ToolCall
    from agenttool.ports.credentials import FetchedCredential as FetchedCredential
    from agenttool.ports.credentials import Secret as Secret
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
    from agenttool.ports.tool import DeclaredTool as DeclaredTool
    from agenttool.records import Behavior as Behavior
    from agenttool.records import HookEvent as HookEvent
    from agenttool.records import RuleSource as RuleSource
    from agenttool.records import ToolError as ToolError
    from agenttool.records import ToolInvocation as ToolInvocation
    from agenttool.records import ToolSearchResult as ToolSearchResult
    from agenttool.records.result import ToolResult as ToolResult
    from agenttool.records.surface import ToolSurface as ToolSurface
    from agenttool.runtime import Runtime as Runtime
    from agenttool.schema.markers import CommandArg as CommandArg
    from agenttool.schema.markers import Inject as Inject
    from agenttool.schema.markers import Internal as Internal
    from agenttool.schema.markers import PathArg as PathArg
    from agenttool.schema.markers import Sensitive as Sensitive
    from agenttool.schema.markers import UrlArg as UrlArg

__version__ = "0.1.0.dev0"

_MODULES = {
    "Advice": "agenttool.ports.advice",
    "Adviser": "agenttool.ports.advice",
    "AgentToolError": "agenttool.errors",
    "Allow": "agenttool.policy.approvals",
    "Answered": "agenttool.policy.approvals",
    "Behavior": "agenttool.records",
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
