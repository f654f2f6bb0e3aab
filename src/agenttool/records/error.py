"""Errors of calls, and guidance for retries."""

from agenttool.records.record import UNSET, Json, OpenEnum, Part, UnsetType


class ErrorClass(OpenEnum):
    """The 22 classes of the standard's list and the five its phase table adds (G-05)."""

    UNKNOWN_TOOL = "unknown_tool"
    INVALID_ARGUMENTS = "invalid_arguments"
    SCHEMA_VALIDATION_FAILED = "schema_validation_failed"
    SCHEMA_NOT_LOADED = "schema_not_loaded"
    PERMISSION_DENIED = "permission_denied"
    APPROVAL_REJECTED = "approval_rejected"
    POLICY_BLOCKED = "policy_blocked"
    HOOK_BLOCKED = "hook_blocked"
    CAPABILITY_GAP = "capability_gap"
    SETUP_REQUIRED = "setup_required"
    CREDENTIAL_MISSING = "credential_missing"
    SANDBOX_VIOLATION = "sandbox_violation"
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    DEPENDENCY_UNAVAILABLE = "dependency_unavailable"
    EXECUTION_FAILED = "execution_failed"
    PARTIAL_FAILURE = "partial_failure"
    RESULT_TOO_LARGE = "result_too_large"
    RESULT_REDACTED = "result_redacted"
    SIBLING_CANCELED = "sibling_canceled"
    STREAMING_FALLBACK_DISCARDED = "streaming_fallback_discarded"
    CANCELED = "canceled"
    BLOCKED_TOOL = "blocked_tool"
    INPUT_MUTATION_FAILED = "input_mutation_failed"
    HOOK_FAILED = "hook_failed"
    RESULT_MAPPING_FAILED = "result_mapping_failed"
    POST_HOOK_FAILED = "post_hook_failed"


class Recoverability(OpenEnum):
    """What must change for the same request to succeed (G-59)."""

    RETRYABLE = "retryable"
    CHANGE_ARGUMENTS = "change_arguments"
    CHANGE_ARGUMENTS_OR_POLICY = "change_arguments_or_policy"
    DISCOVER_FIRST = "discover_first"
    NOT_RECOVERABLE = "not_recoverable"


class RetryGuidance(Part, frozen=True, kw_only=True):
    """The facts that a caller needs before a retry (AT-ERR-13); `retry_after` is on the error."""

    safe: bool | None = None
    arguments_must_change: bool | None = None
    discovery_required: bool | None = None
    approval_required: bool | None = None
    caused_by_sibling: bool | None = None


class NextAction(OpenEnum):
    """What the caller of a search, or of a tool that is not there yet, should do next (G-41)."""

    LOAD_SCHEMA_THEN_CALL = "load_schema_then_call"
    REFINE_QUERY = "refine_query"
    WAIT_FOR_PROVIDER = "wait_for_provider"
    NONE = "none"


class ToolError(Part, frozen=True, kw_only=True):
    """Class and code for programs, message for people; the native error stays reachable by its ref."""

    error_class: ErrorClass
    error_code: str | None = None
    message: str | None = None
    recoverability: Recoverability | None = None
    retry_after: float | UnsetType | None = UNSET
    retry: RetryGuidance | None = None
    next_action: NextAction | None = None
    phase: str | None = None
    abort_reason: str | None = None
    native_error_ref: Json | UnsetType = UNSET
    policy_refs: tuple[str, ...] | None = None
    evidence_refs: tuple[str, ...] | None = None
