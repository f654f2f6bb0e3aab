"""The conversion of a server's tool definitions to declared tools, trusted only as far as configured."""

from typing import cast
from urllib.parse import urlsplit

from mcp.shared.inbound import find_invalid_x_mcp_header

from agenttool.adapters.mcp.settings import McpServer
from agenttool.ports.executor import Executor
from agenttool.ports.tool import DeclaredTool
from agenttool.records import (
    AccessKind,
    ExecutionKind,
    ExecutionProfile,
    ExecutionProfileId,
    InputContract,
    InterfaceId,
    InterruptBehavior,
    Json,
    JsonObject,
    Lifecycle,
    McpMapping,
    OutputContract,
    PermissionProfile,
    PermissionProfileId,
    ResourceLock,
    RiskLevel,
    ToolDeclaration,
    ToolId,
    ToolInterface,
    ToolKind,
    WriteEffect,
)

_HINTS = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}
"""The hints of tools, each with the value that relaxes checks, so that only a trusted server may state it."""

_TRANSLATED = frozenset({"name", "title", "description", "inputSchema", "outputSchema"})
_EMPTY_OBJECT: JsonObject = {"type": "object"}


def definition_fault(definition: JsonObject, *, is_modern: bool) -> str | None:
    """Return why a definition cannot be used; None if it can.

    Revisions without a handshake can send arguments as headers, and require that such a definition is valid.
    """
    name = definition.get("name")
    if not isinstance(name, str) or not name:
        return f"a tool has no name, got {name!r}"
    if not isinstance(definition.get("inputSchema", _EMPTY_OBJECT), dict):
        return f"the inputSchema of {name!r} is not an object"
    if not isinstance(definition.get("outputSchema", _EMPTY_OBJECT), dict | None):
        return f"the outputSchema of {name!r} is not an object"
    reason = find_invalid_x_mcp_header(_object(definition.get("inputSchema"))) if is_modern else None
    return None if reason is None else f"the tool {name!r} has an invalid x-mcp-header: {reason}"


def declare(
    server: McpServer,
    definition: JsonObject,
    executor: Executor,
    *,
    name: str | None = None,
    lifecycle: Lifecycle = Lifecycle.AVAILABLE,
) -> DeclaredTool:
    """Return the declaration of one tool; `name` is the name under which it is offered, if that is another one.

    The server's hints can tighten the declaration, and relax it only if the server is trusted.
    """
    native, description = str(definition["name"]), definition.get("description")
    name = name or native
    hints = _object(definition.get("annotations"))
    titles = definition.get("title"), hints.get("title")
    stated = {hint: hints.get(hint) for hint in _HINTS if isinstance(hints.get(hint), bool)}
    untrusted = () if server.trust else tuple(sorted(hint for hint, value in stated.items() if value is _HINTS[hint]))
    is_read_only = server.trust and stated.get("readOnlyHint") is True
    is_destructive = stated.get("destructiveHint") is True and not is_read_only
    is_harmless = is_read_only or (server.trust and stated.get("destructiveHint") is False)
    tool_id = ToolId(f"tool_{server.name}.{name}")
    interface_id, execution_id = InterfaceId(f"interface:{tool_id}"), ExecutionProfileId(f"execution:{tool_id}")
    permission_id = PermissionProfileId(f"permission:{tool_id}")
    schema = _object(definition.get("inputSchema")) or _EMPTY_OBJECT
    output_schema = definition.get("outputSchema")
    output_schema = output_schema if isinstance(output_schema, dict) else None
    return DeclaredTool(
        declaration=ToolDeclaration(
            tool_id=tool_id,
            namespace=server.name,
            name=name,
            aliases=None if name == native else (f"{server.name}.{native}",),
            title=next((each for each in titles if isinstance(each, str)), None),
            description=description if isinstance(description, str) else "",
            lifecycle=lifecycle,
            tool_kind=ToolKind.MCP_TOOL,
            input_contract=InputContract(model_input_schema=schema, runtime_input_schema=schema),
            output_contract=None if output_schema is None else OutputContract(structured_schema=output_schema),
            interface_ref=interface_id,
            execution_profile_ref=execution_id,
            permission_profile_ref=permission_id,
            external_mappings=(McpMapping(server_id=server.name, method="tools/list", tool_name=native),),
            annotations=_annotations(definition, untrusted),
        ),
        interface=ToolInterface(
            interface_id=interface_id,
            tool_id=tool_id,
            native_ids={"mcp": {"server": server.name, "tool": native}},
            output_schema=output_schema,
            is_read_only=is_read_only,
            is_destructive=True if is_destructive else False if is_harmless else None,
            is_concurrency_safe=True,
            is_open_world=False if server.trust and stated.get("openWorldHint") is False else None,
            interrupt_behavior=InterruptBehavior.CANCEL,
            timeout_ms=round(server.timeout_s * 1000),
            required_credentials=server.credentials or None,
        ),
        execution_profile=ExecutionProfile(
            execution_profile_id=execution_id,
            execution_kind=ExecutionKind.MCP_SERVER,
            supports_progress=True,
            supports_cancel=True,
            supports_timeout=True,
            supports_result_persistence=True,
            retry_semantics={"idempotent": server.trust and stated.get("idempotentHint") is True},
        ),
        permission_profile=PermissionProfile(
            permission_profile_id=permission_id,
            risk_level=RiskLevel.HIGH if is_destructive else RiskLevel.LOW if is_read_only else RiskLevel.MEDIUM,
            access_kinds=None if server.url is None else (AccessKind.NETWORK, AccessKind.EXTERNAL_SEND),
            write_effects=_effects(server, is_read_only=is_read_only, is_destructive=is_destructive),
            network_scope=None if server.url is None else _origin(server.url),
            approval_required=True if is_destructive else None,
            approval_reason="its server says that it destroys things" if is_destructive else None,
        ),
        executor=executor,
        shared_state=None,  # the lock of the server separates its calls, also those of one conversation
        locks=None if server.parallel else (_lock(server.name, is_read_only=is_read_only),),
        is_trusted=server.trust,
    )


def _lock(server: str, *, is_read_only: bool) -> ResourceLock:
    """Return the lock of calls that run one after another at their server, and beside those of other servers.

    A server that hangs, or that waits for its user, then blocks no other.
    """
    return ResourceLock(resource=f"mcp:{server}", mode="shared" if is_read_only else "exclusive")


def _effects(server: McpServer, *, is_read_only: bool, is_destructive: bool) -> tuple[WriteEffect, ...]:
    if is_read_only:
        return (WriteEffect.NONE,)
    if is_destructive:
        return (WriteEffect.IRREVERSIBLE,)
    return (WriteEffect.LOCAL_PERSISTENT if server.url is None else WriteEffect.REMOTE_MUTATION,)


def _annotations(definition: JsonObject, untrusted: tuple[str, ...]) -> JsonObject | None:
    """Return the members of a definition that no record has, unchanged: hints, icons, `_meta` and extensions."""
    native: JsonObject = {key: value for key, value in definition.items() if key not in _TRANSLATED}
    if not native:
        return None
    return {"mcp": native, "untrusted": [*untrusted]} if untrusted else {"mcp": native}


def _object(value: Json) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
