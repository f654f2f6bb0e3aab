"""Tool declarations and namespaces."""

from agenttool.records.contracts import InputContract, OutputContract
from agenttool.records.ids import ExecutionProfileId, InterfaceId, PermissionProfileId, ToolId
from agenttool.records.mapping import ExternalMapping
from agenttool.records.record import ClosedEnum, Digest, JsonObject, OpenEnum, Record


class Lifecycle(ClosedEnum):
    """The lifecycle of a declaration; only `available` and `deprecated` tools may run."""

    DRAFT = "draft"
    AVAILABLE = "available"
    DISABLED = "disabled"
    REQUIRES_SETUP = "requires_setup"
    DEFERRED = "deferred"
    DEPRECATED = "deprecated"
    RETIRED = "retired"


class ToolKind(OpenEnum):
    """The kind of implementation of a tool."""

    FUNCTION = "function"
    MCP_TOOL = "mcp_tool"
    OPENAPI_OPERATION = "openapi_operation"
    NATIVE_TOOL = "native_tool"
    BROWSER_ACTION = "browser_action"
    SHELL_COMMAND = "shell_command"
    CODE_EXECUTION = "code_execution"
    FILE_OPERATION = "file_operation"
    WEB_SEARCH = "web_search"
    RETRIEVAL = "retrieval"
    MODEL_TASK = "model_task"
    SKILL_TOOL = "skill_tool"
    PEER_AGENT_TOOL = "peer_agent_tool"
    POLICY_CHECK = "policy_check"
    ARTIFACT_OPERATION = "artifact_operation"
    EVIDENCE_EXPORT = "evidence_export"
    CUSTOM = "custom"


class ToolNamespace(Record, frozen=True, kw_only=True, tag="tool_namespace"):
    """The boundary within which a name is unique: one server, skill, provider or domain."""

    namespace: str
    title: str | None = None
    description: str | None = None
    producer: str | None = None
    external_mappings: tuple[ExternalMapping, ...] | None = None


class ToolDeclaration(Record, frozen=True, kw_only=True, tag="tool_declaration"):
    """One callable capability; its `tool_id` never changes, whatever its native name is."""

    tool_id: ToolId
    namespace: str
    name: str
    aliases: tuple[str, ...] | None = None
    search_hint: str | None = None
    title: str | None = None
    description: str
    lifecycle: Lifecycle
    tool_kind: ToolKind
    capability_refs: tuple[str, ...] | None = None
    input_contract: InputContract | None = None
    output_contract: OutputContract | None = None
    interface_ref: InterfaceId | None = None
    execution_profile_ref: ExecutionProfileId | None = None
    permission_profile_ref: PermissionProfileId | None = None
    external_mappings: tuple[ExternalMapping, ...] | None = None
    annotations: JsonObject | None = None
    digest: Digest | None = None
