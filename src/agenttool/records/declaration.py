"""Tool declarations with their input and output contracts, and namespaces."""

from agenttool.records.content import ContentClass
from agenttool.records.ids import ExecutionProfileId, InterfaceId, PermissionProfileId, ToolId
from agenttool.records.mapping import ExternalMapping
from agenttool.records.record import UNSET, ClosedEnum, Digest, Json, JsonObject, OpenEnum, Part, Record, UnsetType


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


class ArgumentMode(OpenEnum):
    """How the arguments of a call travel."""

    JSON = "json"
    TEXT = "text"
    FILE = "file"
    MULTIPART = "multipart"
    STREAM = "stream"
    CUSTOM = "custom"


class MutationPolicy(Part, frozen=True, kw_only=True):
    """Who may replace the input of a call; if missing, a change is allowed, recorded and decided again (G-23)."""

    hooks: bool | None = None
    permission_prompts: bool | None = None


class InputContract(Part, frozen=True, kw_only=True):
    """The input of a tool: what a model may produce, what the runtime may add, and what must be hidden."""

    model_input_schema: JsonObject | None = None
    runtime_input_schema: JsonObject | None = None
    strict: bool | None = None
    defaults: JsonObject | None = None
    examples: tuple[Json, ...] | None = None
    sensitive_fields: tuple[str, ...] | None = None
    internal_only_fields: tuple[str, ...] | None = None
    argument_mode: ArgumentMode | None = None
    media_modes: tuple[str, ...] | None = None
    mutation_policy: MutationPolicy | None = None


class OutputContract(Part, frozen=True, kw_only=True):
    """The output of a tool: its shape, its size limits, and where each representation belongs."""

    structured_schema: JsonObject | None = None
    content_types: tuple[ContentClass, ...] | None = None
    media_modes: tuple[str, ...] | None = None
    result_shape: Json | UnsetType = UNSET
    artifact_expectations: Json | UnsetType = UNSET
    max_inline_bytes: int | None = None
    max_inline_chars: int | None = None
    persistence_policy_ref: str | None = None
    rendering_boundary: Json | UnsetType = UNSET
    redaction_rules: tuple[Json, ...] | None = None
    fallback_summary: str | None = None


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
