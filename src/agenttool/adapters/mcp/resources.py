"""The resources and prompts of a server, as tools that read them."""

import asyncio
from dataclasses import replace

from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND, ServerCapabilities

from agenttool.adapters.mcp.content import contents_output, messages_output
from agenttool.adapters.mcp.declare import declare
from agenttool.adapters.mcp.elicitation import ASK_USER
from agenttool.adapters.mcp.execute import ConnectionPool, McpExecutor, Operation
from agenttool.adapters.mcp.session import TASKS_EXTENSION, McpSession
from agenttool.adapters.mcp.settings import McpServer
from agenttool.ports.tool import DeclaredTool
from agenttool.records import Json, JsonObject, Lifecycle, McpMapping, RiskLevel, ToolKind, WriteEffect
from agenttool.records import replace as replace_record

LISTED_RESOURCES, LISTED_PROMPTS = "listed_resources", "listed_prompts"
"""The features of a server whose lists have entries; many servers declare lists that are empty."""

LIST_S = 2.0
"""The time limit of each list at the start of a session; a list that takes longer counts as not empty."""

_CURSOR: JsonObject = {"cursor": {"type": "string", "description": "nextCursor of the page before; none at first."}}
_URI: JsonObject = {"uri": {"type": "string", "description": "The URI of the resource."}}
_COMPLETION: JsonObject = {name: {"type": "object"} for name in ("ref", "argument", "context")}
_PROMPT: JsonObject = {
    "name": {"type": "string"},
    "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
}


OPERATIONS = {
    "list_resources": Operation(
        "resources",
        LISTED_RESOURCES,
        "resources/list",
        "List the resources of the server.",
        _CURSOR,
        entries="resources",
    ),
    "list_resource_templates": Operation(
        "resources",
        LISTED_RESOURCES,
        "resources/templates/list",
        "List the templates of the URIs of resources of the server.",
        _CURSOR,
        entries="resourceTemplates",
    ),
    "read_resource": Operation(
        "resources",
        LISTED_RESOURCES,
        "resources/read",
        "Read a resource of the server.",
        _URI,
        ("uri",),
        contents_output,
    ),
    "list_prompts": Operation(
        "prompts",
        LISTED_PROMPTS,
        "prompts/list",
        "List the prompts of the server, with their arguments.",
        _CURSOR,
        entries="prompts",
    ),
    "get_prompt": Operation(
        "prompts",
        LISTED_PROMPTS,
        "prompts/get",
        "Fill in a prompt of the server.",
        _PROMPT,
        ("name",),
        messages_output,
    ),
    "complete": Operation(
        "completions",
        None,
        "completion/complete",
        "Complete an argument of a prompt or of a URI of the server.",
        _COMPLETION,
        ("ref", "argument"),
    ),
}
"""The tools that read resources and prompts, by name."""


_RESERVED = frozenset({ASK_USER, *OPERATIONS})

TASKS_FEATURE = "tasks"


def features_of(capabilities: ServerCapabilities) -> tuple[str, ...]:
    """Return which of resources, prompts, completions and tasks a server has."""
    names = ("resources", "prompts", "completions")
    found = tuple(name for name in names if getattr(capabilities, name) is not None)
    return (*found, TASKS_FEATURE) if TASKS_EXTENSION in (capabilities.extensions or {}) else found


async def listed_features(session: McpSession) -> tuple[str, ...]:
    """Return which lists of a server have entries; one that cannot be read counts as not empty."""
    declared = features_of(session.client.server_capabilities)

    async def feature_of(operation: Operation) -> str | None:
        try:
            async with asyncio.timeout(LIST_S):
                reply = await session.request(operation.method, {})
        except MCPError as error:
            return None if error.code == METHOD_NOT_FOUND else operation.shown_with
        except TimeoutError:
            return operation.shown_with
        return operation.shown_with if reply.get(str(operation.entries)) else None

    lists = (each for each in OPERATIONS.values() if each.entries is not None and each.feature in declared)
    found = await asyncio.gather(*map(feature_of, lists))
    return tuple(each for each in dict.fromkeys(found) if each is not None)


def offered_name(native: str) -> str:
    """Return the name under which a tool of a server is offered.

    The names of our own tools are reserved, whatever features the server has: a rule for one of them must not apply to
    a tool that the server adds. No two tools get the same name.
    """
    return f"{native}_" if native.rstrip("_") in _RESERVED else native


def reading_tool(server: McpServer, name: str, pool: ConnectionPool, *, is_shown: bool) -> DeclaredTool:
    """Return the tool of one operation; if it is not shown to models, calls can still name it.

    The protocol defines these requests as reads, so the tool is declared as one, whatever the server is trusted with.
    """
    operation = OPERATIONS[name]
    required: list[Json] = [*operation.required]
    definition: JsonObject = {
        "name": name,
        "description": operation.description,
        "inputSchema": {"type": "object", "properties": operation.properties, "required": required},
        "annotations": {"readOnlyHint": True},
    }
    executor = McpExecutor(server.name, name, pool, may_repeat=True, operation=operation)
    # A deprecated tool can be called, and is not shown to models.
    lifecycle = Lifecycle.AVAILABLE if is_shown else Lifecycle.DEPRECATED
    tool = declare(server, definition, executor, lifecycle=lifecycle)
    mapping = McpMapping(server_id=server.name, method=operation.method)
    declaration = replace_record(
        tool.declaration,
        annotations=None,
        external_mappings=(mapping,),
        tool_kind=ToolKind.RETRIEVAL,
    )
    return replace(
        tool,
        declaration=declaration,
        interface=replace_record(tool.interface, is_read_only=True, is_destructive=False, is_open_world=False),
        permission_profile=replace_record(
            tool.permission_profile,
            risk_level=RiskLevel.LOW,
            write_effects=(WriteEffect.NONE,),
            approval_required=False,
        ),
        locks=None,  # a read that hangs delays no other call of the server
    )
