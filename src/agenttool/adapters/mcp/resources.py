"""The resources and prompts of a server, as tools that read them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

from mcp_types import (
    ClientRequest,
    CompleteRequest,
    GetPromptRequest,
    ListPromptsRequest,
    ListResourcesRequest,
    ListResourceTemplatesRequest,
    ReadResourceRequest,
    ServerCapabilities,
)
from pydantic import BaseModel, ValidationError

from agenttool.adapters.mcp.content import contents_output, messages_output
from agenttool.adapters.mcp.declare import declare
from agenttool.adapters.mcp.elicitation import ASK_USER
from agenttool.adapters.mcp.execute import ConnectionPool, McpExecutor
from agenttool.adapters.mcp.session import TASKS_EXTENSION, Exchange, InvalidResult, McpSession
from agenttool.adapters.mcp.settings import McpServer
from agenttool.ports.executor import Job
from agenttool.ports.output import NativeOutput
from agenttool.ports.tool import DeclaredTool
from agenttool.records import Json, JsonObject, Lifecycle, McpMapping, RiskLevel, ToolKind, WriteEffect
from agenttool.records import replace as replace_record

_CURSOR: JsonObject = {"cursor": {"type": "string", "description": "nextCursor of the page before; none at first."}}
_URI: JsonObject = {"uri": {"type": "string", "description": "The URI of the resource."}}
_COMPLETION: JsonObject = {name: {"type": "object"} for name in ("ref", "argument", "context")}
_PROMPT: JsonObject = {
    "name": {"type": "string"},
    "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
}


@dataclass(frozen=True, slots=True)
class Operation:
    """One request about resources or prompts.

    Attributes:
        feature: the capability of the server that it needs.
        output: returns the output of a reply; None returns the reply as a value.
        is_shown: whether models are shown its tool.
    """

    feature: str
    method: str
    request: type[BaseModel]
    description: str
    properties: JsonObject
    required: tuple[str, ...] = ()
    output: Callable[[JsonObject, McpMapping], NativeOutput] | None = None
    is_shown: bool = True


OPERATIONS = {
    "list_resources": Operation(
        "resources", "resources/list", ListResourcesRequest, "List the resources of the server.", _CURSOR
    ),
    "list_resource_templates": Operation(
        "resources",
        "resources/templates/list",
        ListResourceTemplatesRequest,
        "List the templates of the URIs of resources of the server.",
        _CURSOR,
    ),
    "read_resource": Operation(
        "resources",
        "resources/read",
        ReadResourceRequest,
        "Read a resource of the server.",
        _URI,
        ("uri",),
        contents_output,
    ),
    "list_prompts": Operation(
        "prompts", "prompts/list", ListPromptsRequest, "List the prompts of the server, with their arguments.", _CURSOR
    ),
    "get_prompt": Operation(
        "prompts",
        "prompts/get",
        GetPromptRequest,
        "Fill in a prompt of the server.",
        _PROMPT,
        ("name",),
        messages_output,
    ),
    "complete": Operation(
        "completions",
        "completion/complete",
        CompleteRequest,
        "Complete an argument of a prompt or of a URI of the server.",
        _COMPLETION,
        ("ref", "argument"),
        is_shown=False,
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


@dataclass(frozen=True, slots=True, eq=False)
class ReadingExecutor(McpExecutor):
    """Sends one request about resources or prompts."""

    @property
    def method(self) -> str:
        """The method of its requests."""
        return OPERATIONS[self.tool].method

    async def send(self, job: Job, session: McpSession, exchange: Exchange) -> JsonObject:
        """Send the request, and return its result."""
        return await session.request(request_of(self.tool, job.call_input), exchange)

    def output(self, result: JsonObject, mapping: McpMapping) -> NativeOutput:
        """Return the reply as output, from which `reply_in` returns it as it was sent.

        Raises:
            ValueError: the reply is not valid.
        """
        reply: JsonObject = {name: each for name, each in result.items() if name != "resultType"}
        output = OPERATIONS[self.tool].output
        return NativeOutput(value=reply, external_mappings=(mapping,)) if output is None else output(reply, mapping)


def request_of(operation: str, members: JsonObject) -> ClientRequest:
    """Return the request of an operation.

    Raises:
        InvalidResult: the members do not fit it.
    """
    try:
        return cast("ClientRequest", OPERATIONS[operation].request.model_validate({"params": members}))
    except ValidationError as error:
        raise InvalidResult(f"the arguments do not fit: {error.errors()[0]['msg']}") from error


def offered_name(native: str) -> str:
    """Return the name under which a tool of a server is offered.

    The names of our own tools are reserved, whatever features the server has: a rule for one of them must not apply to
    a tool that the server adds. No two tools get the same name.
    """
    return f"{native}_" if native.rstrip("_") in _RESERVED else native


def reading_tool(server: McpServer, name: str, pool: ConnectionPool) -> DeclaredTool:
    """Return the tool of one operation.

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
    executor = ReadingExecutor(server.name, name, pool, may_repeat=True, is_reviewed=False)
    # Calls reach a deprecated tool, and models are not shown it.
    lifecycle = Lifecycle.AVAILABLE if operation.is_shown else Lifecycle.DEPRECATED
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
