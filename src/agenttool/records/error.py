"""Errors of calls, and guidance for retries."""

from agenttool.records.record import UNSET, Json, OpenEnum, Part, UnsetType


class ErrorClass(OpenEnum):
    """The 22 classes of the standard's list and the five its phase table adds (G-05)."""

    UNKNOWN_TOOL = "unknown_tool"
    """No tool has this name."""
    INVALID_ARGUMENTS = "invalid_arguments"
    """The arguments fit the schema, but the tool's own check rejects their values."""
    SCHEMA_VALIDATION_FAILED = "schema_validation_failed"
    """The arguments are not JSON, or do not fit the tool's schema."""
    SCHEMA_NOT_LOADED = "schema_not_loaded"
    """The tool is deferred, and its schema was not loaded before the call."""
    PERMISSION_DENIED = "permission_denied"
    """A rule denies the call, or it needs an approval and no approver is available."""
    APPROVAL_REJECTED = "approval_rejected"
    """An approver denied the call, or the approval expired."""
    POLICY_BLOCKED = "policy_blocked"
    """A policy engine forbids the call."""
    HOOK_BLOCKED = "hook_blocked"
    """A hook stopped the call."""
    CAPABILITY_GAP = "capability_gap"
    """The model, the role or this installation lacks something that the tool needs."""
    SETUP_REQUIRED = "setup_required"
    """The tool is not set up."""
    CREDENTIAL_MISSING = "credential_missing"
    """A credential that the tool declares cannot be had."""
    SANDBOX_VIOLATION = "sandbox_violation"
    """The call would leave its sandbox."""
    TIMEOUT = "timeout"
    """The call took longer than its time limit, or made no progress for too long."""
    RATE_LIMITED = "rate_limited"
    """Too many calls in a short time."""
    DEPENDENCY_UNAVAILABLE = "dependency_unavailable"
    """Something that the call needs does not answer: the tool's server, or the store of the journal."""
    EXECUTION_FAILED = "execution_failed"
    """The tool raised an exception, or returned a value that its annotation does not allow."""
    PARTIAL_FAILURE = "partial_failure"
    """Some items of the call failed, and the others succeeded."""
    RESULT_TOO_LARGE = "result_too_large"
    """The tool ran, but its output is too large and could not be stored."""
    RESULT_REDACTED = "result_redacted"
    """The tool ran, but its whole output is withheld."""
    SIBLING_CANCELED = "sibling_canceled"
    """Another call of the batch failed, so this one was canceled."""
    STREAMING_FALLBACK_DISCARDED = "streaming_fallback_discarded"
    """The reply that requested this call was discarded and requested again."""
    CANCELED = "canceled"
    """The call was canceled, or the runtime shut down."""
    BLOCKED_TOOL = "blocked_tool"
    """The tool exists, but this surface blocks or excludes it."""
    INPUT_MUTATION_FAILED = "input_mutation_failed"
    """The input could not be brought into its normal form, or a change of it is forbidden."""
    HOOK_FAILED = "hook_failed"
    """A hook failed before the tool ran."""
    RESULT_MAPPING_FAILED = "result_mapping_failed"
    """The tool ran, but its output cannot be converted into a result."""
    POST_HOOK_FAILED = "post_hook_failed"
    """A hook failed after the tool ran."""


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
    """Class and code for programs, message for people; the native error stays reachable by its ref.

    Attributes:
        error_class: one of the error classes.
        error_code: the cause within the class, such as `timeout` or `unknown_after_crash`.
        message: what was wrong and what to do.
        recoverability: what must change for the same call to succeed.
        retry_after: how many seconds to wait before a retry.
        retry: whether a retry is safe, and what it needs.
        next_action: what to do before a tool that is not loaded can be called.
        phase: the phase of the pipeline that failed.
        abort_reason: why the call was canceled.
        native_error_ref: the error as the tool or its server reported it.
        policy_refs: the rules that denied the call.
    """

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
