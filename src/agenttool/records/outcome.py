"""The outcome table: invocation status, result status and terminal event of every way a call can end."""

from agenttool.records.error import ErrorClass
from agenttool.records.event import EventType
from agenttool.records.progress import AbortReason
from agenttool.records.record import Part
from agenttool.records.result import ResultStatus
from agenttool.records.status import InvocationStatus


class Outcome(Part, frozen=True, kw_only=True):
    """One way to end. `effects_happened` means that the tool ran, so that a retry is not safe."""

    name: str
    invocation_status: InvocationStatus
    result_status: ResultStatus
    error_classes: tuple[ErrorClass, ...]
    abort_reason: AbortReason | None
    terminal_event: EventType
    effects_happened: bool


def _end(
    name: str,
    invocation_status: InvocationStatus,
    result_status: ResultStatus,
    *error_classes: ErrorClass,
    abort: AbortReason | None = None,
    event: EventType = EventType.FAILED,
    ran: bool = False,
) -> Outcome:
    return Outcome(
        name=name,
        invocation_status=invocation_status,
        result_status=result_status,
        error_classes=error_classes,
        abort_reason=abort,
        terminal_event=event,
        effects_happened=ran,
    )


OUTCOMES = (
    _end("success", InvocationStatus.SUCCEEDED, ResultStatus.SUCCEEDED, event=EventType.SUCCEEDED, ran=True),
    _end(
        "some items failed",
        InvocationStatus.SUCCEEDED,
        ResultStatus.PARTIAL_SUCCEEDED,
        ErrorClass.PARTIAL_FAILURE,
        event=EventType.SUCCEEDED,
        ran=True,
    ),
    _end("no such tool", InvocationStatus.FAILED, ResultStatus.FAILED, ErrorClass.UNKNOWN_TOOL),
    _end("deferred, schema not loaded", InvocationStatus.FAILED, ResultStatus.FAILED, ErrorClass.SCHEMA_NOT_LOADED),
    _end(
        "on the surface but blocked or excluded", InvocationStatus.BLOCKED, ResultStatus.DENIED, ErrorClass.BLOCKED_TOOL
    ),
    _end(
        "schema failure", InvocationStatus.SCHEMA_PARSE_FAILED, ResultStatus.FAILED, ErrorClass.SCHEMA_VALIDATION_FAILED
    ),
    _end("value failure", InvocationStatus.VALIDATION_FAILED, ResultStatus.FAILED, ErrorClass.INVALID_ARGUMENTS),
    _end(
        "setup, credential, capability or sandbox missing",
        InvocationStatus.BLOCKED,
        ResultStatus.FAILED,
        ErrorClass.SETUP_REQUIRED,
        ErrorClass.CREDENTIAL_MISSING,
        ErrorClass.CAPABILITY_GAP,
        ErrorClass.SANDBOX_VIOLATION,
    ),
    _end(
        "normalizer failed or mutation forbidden",
        InvocationStatus.FAILED,
        ResultStatus.FAILED,
        ErrorClass.INPUT_MUTATION_FAILED,
    ),
    _end("a hook stopped it before it ran", InvocationStatus.BLOCKED, ResultStatus.DENIED, ErrorClass.HOOK_BLOCKED),
    _end("a hook failed before it ran", InvocationStatus.FAILED, ResultStatus.FAILED, ErrorClass.HOOK_FAILED),
    _end(
        "a hook failed after it ran",
        InvocationStatus.FAILED,
        ResultStatus.FAILED,
        ErrorClass.POST_HOOK_FAILED,
        ran=True,
    ),
    _end("denied by a rule or resolver", InvocationStatus.DENIED, ResultStatus.DENIED, ErrorClass.PERMISSION_DENIED),
    _end("denied by policy", InvocationStatus.DENIED, ResultStatus.DENIED, ErrorClass.POLICY_BLOCKED),
    _end("a person or delegate said no", InvocationStatus.DENIED, ResultStatus.REJECTED, ErrorClass.APPROVAL_REJECTED),
    _end(
        "canceled by its user",
        InvocationStatus.CANCELED,
        ResultStatus.CANCELED,
        ErrorClass.CANCELED,
        abort=AbortReason.USER_INTERRUPTION,
        event=EventType.CANCELED,
    ),
    _end(
        "a sibling failed",
        InvocationStatus.CANCELED,
        ResultStatus.SYNTHETIC_ERROR,
        ErrorClass.SIBLING_CANCELED,
        abort=AbortReason.SIBLING_ERROR,
        event=EventType.CANCELED,
    ),
    _end(
        "thrown away by streaming fallback",
        InvocationStatus.CANCELED,
        ResultStatus.DISCARDED,
        ErrorClass.STREAMING_FALLBACK_DISCARDED,
        abort=AbortReason.FALLBACK,
        event=EventType.CANCELED,
    ),
    _end(
        "the runtime went down",
        InvocationStatus.CANCELED,
        ResultStatus.SYNTHETIC_ERROR,
        ErrorClass.CANCELED,
        abort=AbortReason.RUNTIME_SHUTDOWN,
        event=EventType.CANCELED,
    ),
    _end(
        "over its time limit",
        InvocationStatus.TIMED_OUT,
        ResultStatus.TIMED_OUT,
        ErrorClass.TIMEOUT,
        abort=AbortReason.TIMEOUT,
        event=EventType.TIMED_OUT,
    ),
    _end(
        "the tool, its backend or a throttle failed it",
        InvocationStatus.FAILED,
        ResultStatus.FAILED,
        ErrorClass.EXECUTION_FAILED,
        ErrorClass.DEPENDENCY_UNAVAILABLE,
        ErrorClass.RATE_LIMITED,
    ),
    _end(
        "its output could not be mapped",
        InvocationStatus.FAILED,
        ResultStatus.FAILED,
        ErrorClass.RESULT_MAPPING_FAILED,
        ran=True,
    ),
    _end(
        "a hook stopped it after it ran",
        InvocationStatus.FAILED,
        ResultStatus.FAILED,
        ErrorClass.HOOK_BLOCKED,
        ran=True,
    ),
    _end(
        "ran, but cannot be inlined or stored",
        InvocationStatus.SUCCEEDED,
        ResultStatus.TOO_LARGE,
        ErrorClass.RESULT_TOO_LARGE,
        event=EventType.SUCCEEDED,
        ran=True,
    ),
    _end(
        "ran, but wholly withheld",
        InvocationStatus.SUCCEEDED,
        ResultStatus.REDACTED,
        ErrorClass.RESULT_REDACTED,
        event=EventType.SUCCEEDED,
        ran=True,
    ),
)
"""The outcome table (resolves G-05 to G-12): one row per way a call can end."""


def outcomes_of(invocation_status: InvocationStatus) -> tuple[Outcome, ...]:
    """Return the outcomes with this status; none for a status that is not terminal or not listed."""
    return tuple(outcome for outcome in OUTCOMES if outcome.invocation_status == invocation_status)
