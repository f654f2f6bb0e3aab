"""Execution and permission profiles: facts, never decisions."""

from agenttool.records.ids import ExecutionProfileId, PermissionProfileId
from agenttool.records.mapping import ExternalMapping
from agenttool.records.record import UNSET, ClosedEnum, Json, OpenEnum, Record, UnsetType


class ExecutionKind(OpenEnum):
    """Where the work happens."""

    MCP_SERVER = "mcp_server"
    HTTP_API = "http_api"
    NATIVE_APP = "native_app"
    LOCAL_PROCESS = "local_process"
    SHELL = "shell"
    BROWSER = "browser"
    MODEL_SERVICE = "model_service"
    PEER_AGENT = "peer_agent"
    EMBEDDED_RUNTIME = "embedded_runtime"
    HYBRID = "hybrid"


class ExecutionProfile(Record, frozen=True, kw_only=True, tag="tool_execution_profile"):
    """What an executor supports; an undeclared capability is reported as missing (AT-EXEC-03)."""

    execution_profile_id: ExecutionProfileId
    execution_kind: ExecutionKind
    supports_progress: bool | None = None
    supports_cancel: bool | None = None
    supports_timeout: bool | None = None
    supports_resume: bool | None = None
    supports_retries: bool | None = None
    supports_partial_results: bool | None = None
    supports_background: bool | None = None
    supports_result_persistence: bool | None = None
    supports_artifacts: bool | None = None
    sandboxed: bool | None = None
    supports_credential_delegation: bool | None = None
    supports_offline: bool | None = None
    supports_context_modifiers: bool | None = None
    sandbox_profile: str | None = None
    timeout_ms: int | None = None
    command_parsing: Json | UnsetType = UNSET
    working_directory_policy: Json | UnsetType = UNSET
    environment_policy: Json | UnsetType = UNSET
    timeout_behavior: Json | UnsetType = UNSET
    exit_code_interpretation: Json | UnsetType = UNSET
    classifier_input: Json | UnsetType = UNSET
    retry_semantics: Json | UnsetType = UNSET
    external_mappings: tuple[ExternalMapping, ...] | None = None
    inferred_facts: tuple[str, ...] | None = None


class RiskLevel(ClosedEnum):
    """The risk of a tool."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class AccessKind(OpenEnum):
    """What a tool accesses."""

    FILE_READ = "file_read"
    FILE_WRITE = "file_write"
    NETWORK = "network"
    BROWSER = "browser"
    CREDENTIAL = "credential"
    PAYMENT = "payment"
    EXTERNAL_SEND = "external_send"
    CODE_EXECUTION = "code_execution"


class WriteEffect(OpenEnum):
    """The lasting effects of a tool."""

    NONE = "none"
    LOCAL_DRAFT = "local_draft"
    LOCAL_PERSISTENT = "local_persistent"
    REMOTE_MUTATION = "remote_mutation"
    IRREVERSIBLE = "irreversible"

    @property
    def is_harmless(self) -> bool:
        """Whether there is no lasting effect; an unlisted effect counts as the worst."""
        return self is WriteEffect.NONE


class NonInteractivePrompt(ClosedEnum):
    """What happens to a prompt when no approver is available; `require` then means deny (G-33)."""

    AVOID = "avoid"
    REQUIRE = "require"


class PermissionProfile(Record, frozen=True, kw_only=True, tag="tool_permission_profile"):
    """The risk of a tool, for rules and approvers; credentials by reference, never by value (AT-PERM-06)."""

    permission_profile_id: PermissionProfileId
    risk_level: RiskLevel
    access_kinds: tuple[AccessKind, ...] | None = None
    write_effects: tuple[WriteEffect, ...] | None = None
    network_scope: str | None = None
    tenant_scope: str | None = None
    credential_refs: tuple[str, ...] | None = None
    sandbox_profile: str | None = None
    approval_required: bool | None = None
    approval_reason: str | None = None
    permission_channel: str | None = None
    non_interactive_prompt: NonInteractivePrompt | None = None
    rule_matching_fields: tuple[str, ...] | None = None
    data_sensitivity: str | None = None
    retention_hint: str | None = None
    redaction_required: bool | None = None
    policy_refs: tuple[str, ...] | None = None
