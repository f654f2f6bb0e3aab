"""The conversion of a server's tool definitions to declared tools, trusted only as far as configured."""

from mcp.shared.inbound import find_invalid_x_mcp_header

from agenttool.adapters.mcp.settings import McpServer
from agenttool.adapters.remote_tool import network_scope, remote_tool
from agenttool.codec import object_of
from agenttool.ports.executor import Executor
from agenttool.ports.tool import DeclaredTool
from agenttool.records import (
    ExecutionKind,
    InputContract,
    InterfaceId,
    InterruptBehavior,
    JsonObject,
    Lifecycle,
    McpMapping,
    OutputContract,
    ResourceLock,
    ToolDeclaration,
    ToolId,
    ToolInterface,
    ToolKind,
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
    reason = find_invalid_x_mcp_header(object_of(definition.get("inputSchema"))) if is_modern else None
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
    own_name, description = str(definition["name"]), definition.get("description")
    name = name or own_name
    # What no record has stays unchanged: hints, icons, `_meta` and extensions.
    native: JsonObject = {key: value for key, value in definition.items() if key not in _TRANSLATED}
    hints = object_of(definition.get("annotations"))
    titles = definition.get("title"), hints.get("title")
    untrusted = [] if server.trust else sorted(hint for hint, value in _HINTS.items() if hints.get(hint) is value)
    trusted = hints if server.trust else {}
    is_read_only = trusted.get("readOnlyHint") is True
    is_destructive = hints.get("destructiveHint") is True and not is_read_only
    is_harmless = is_read_only or trusted.get("destructiveHint") is False
    annotations: JsonObject = {"mcp": native} if native else {}
    annotations |= {"untrusted": [*untrusted]} if untrusted else {}
    tool_id = ToolId(f"tool_{server.name}.{name}")
    schema = object_of(definition.get("inputSchema")) or _EMPTY_OBJECT
    output = definition.get("outputSchema")
    output_schema = output if isinstance(output, dict) else None
    # Calls run one after another at their server, and beside those of other servers. A server that hangs, or that
    # waits for its user, then blocks no other.
    lock = ResourceLock(resource=f"mcp:{server.name}", mode="shared" if is_read_only else "exclusive")
    return remote_tool(
        ToolDeclaration(
            tool_id=tool_id,
            namespace=server.name,
            name=name,
            aliases=None if name == own_name else (f"{server.name}.{own_name}",),
            title=next((each for each in titles if isinstance(each, str)), None),
            description=description if isinstance(description, str) else "",
            lifecycle=lifecycle,
            tool_kind=ToolKind.MCP_TOOL,
            input_contract=InputContract(model_input_schema=schema, runtime_input_schema=schema),
            output_contract=None if output_schema is None else OutputContract(structured_schema=output_schema),
            external_mappings=(McpMapping(server_id=server.name, method="tools/list", tool_name=own_name),),
            annotations=annotations or None,
        ),
        ToolInterface(
            interface_id=InterfaceId(f"interface:{tool_id}"),
            tool_id=tool_id,
            native_ids={"mcp": {"server": server.name, "tool": own_name}},
            output_schema=output_schema,
            is_read_only=is_read_only,
            is_destructive=True if is_destructive else False if is_harmless else None,
            is_concurrency_safe=True,
            is_open_world=False if trusted.get("openWorldHint") is False else None,
            interrupt_behavior=InterruptBehavior.CANCEL,
            timeout_ms=round(server.timeout_s * 1000),
            required_credentials=server.credentials or None,
        ),
        executor,
        kind=ExecutionKind.MCP_SERVER,
        is_idempotent=trusted.get("idempotentHint") is True,
        network_scope=None if server.url is None else network_scope(server.url),
        approval_reason="its server says that it destroys things",
        is_trusted=server.trust,
        locks=None if server.parallel else (lock,),
        locks_by_actor=server.sessions == "actor",
    )
