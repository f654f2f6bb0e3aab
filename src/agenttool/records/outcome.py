"""The twelve phases of a call, and the outcome table: statuses and terminal event of every way a call can end."""

from agenttool.records.error import ErrorClass
from agenttool.records.event import EventType
from agenttool.records.record import ClosedEnum, Part
from agenttool.records.result import ResultStatus
from agenttool.records.status import AbortReason, InvocationStatus


class Phase(ClosedEnum):
    """The path of one call; the order of this list is the order of the phases."""

    RESOLVE_TOOL = "resolve_tool"
    PARSE_SCHEMA = "parse_schema"
    VALIDATE_VALUES = "validate_values"
    PREPARE_OBSERVABLE_INPUT = "prepare_observable_input"
    PRE_HOOKS = "pre_hooks"
    PERMISSION = "permission"
    SCHEDULE = "schedule"
    EXECUTE = "execute"
    MAP_RESULT = "map_result"
    POST_HOOKS = "post_hooks"
    PERSIST_RESULT = "persist_result"
    EMIT_TERMINAL = "emit_terminal"


CRASH_CLASSES = {
    Phase.RESOLVE_TOOL: ErrorClass.UNKNOWN_TOOL,
    Phase.PARSE_SCHEMA: ErrorClass.SCHEMA_VALIDATION_FAILED,
    Phase.VALIDATE_VALUES: ErrorClass.INVALID_ARGUMENTS,
    Phase.PREPARE_OBSERVABLE_INPUT: ErrorClass.INPUT_MUTATION_FAILED,
    Phase.PRE_HOOKS: ErrorClass.HOOK_FAILED,
    Phase.PERMISSION: ErrorClass.PERMISSION_DENIED,
    Phase.SCHEDULE: ErrorClass.CANCELED,
    Phase.EXECUTE: ErrorClass.EXECUTION_FAILED,
    Phase.MAP_RESULT: ErrorClass.RESULT_MAPPING_FAILED,
    Phase.POST_HOOKS: ErrorClass.POST_HOOK_FAILED,
    Phase.PERSIST_RESULT: ErrorClass.RESULT_TOO_LARGE,
    Phase.EMIT_TERMINAL: ErrorClass.EXECUTION_FAILED,
}
"""The error class of a crash inside each phase."""


class Outcome(Part, frozen=True, kw_only=True):
    """One way to end. `effects_happened` means that the tool ran, so that a retry is not safe."""

    name: str
    invocation_status: InvocationStatus
    result_status: ResultStatus
    error_classes: tuple[ErrorClass, ...]
    abort_reason: AbortReason | None
    terminal_event: EventType
    effects_happened: bool


_Call, _Result, _Error, _Abort = InvocationStatus, ResultStatus, ErrorClass, AbortReason

_EVENTS = {
    _Call.SUCCEEDED: EventType.SUCCEEDED,
    _Call.CANCELED: EventType.CANCELED,
    _Call.TIMED_OUT: EventType.TIMED_OUT,
}
"""The terminal event of a status; `FAILED` for any other."""


def _end(
    name: str,
    call: InvocationStatus,
    result: ResultStatus,
    *error_classes: ErrorClass,
    abort: AbortReason | None = None,
    ran: bool = False,
) -> Outcome:
    return Outcome(
        name=name,
        invocation_status=call,
        result_status=result,
        error_classes=error_classes,
        abort_reason=abort,
        terminal_event=_EVENTS.get(call, EventType.FAILED),
        effects_happened=ran,
    )


_CANNOT_RUN = (_Error.SETUP_REQUIRED, _Error.CREDENTIAL_MISSING, _Error.CAPABILITY_GAP, _Error.SANDBOX_VIOLATION)
_FAILED_IN_TOOL = (_Error.EXECUTION_FAILED, _Error.DEPENDENCY_UNAVAILABLE, _Error.RATE_LIMITED)

OUTCOMES = (
    _end("success", _Call.SUCCEEDED, _Result.SUCCEEDED, ran=True),
    _end("some items failed", _Call.SUCCEEDED, _Result.PARTIAL_SUCCEEDED, _Error.PARTIAL_FAILURE, ran=True),
    _end("no such tool", _Call.FAILED, _Result.FAILED, _Error.UNKNOWN_TOOL),
    _end("deferred, schema not loaded", _Call.FAILED, _Result.FAILED, _Error.SCHEMA_NOT_LOADED),
    _end("on the surface but blocked or excluded", _Call.BLOCKED, _Result.DENIED, _Error.BLOCKED_TOOL),
    _end("schema failure", _Call.SCHEMA_PARSE_FAILED, _Result.FAILED, _Error.SCHEMA_VALIDATION_FAILED),
    _end("value failure", _Call.VALIDATION_FAILED, _Result.FAILED, _Error.INVALID_ARGUMENTS),
    _end("setup, credential, capability or sandbox missing", _Call.BLOCKED, _Result.FAILED, *_CANNOT_RUN),
    _end("normalizer failed or mutation forbidden", _Call.FAILED, _Result.FAILED, _Error.INPUT_MUTATION_FAILED),
    _end("a hook stopped it before it ran", _Call.BLOCKED, _Result.DENIED, _Error.HOOK_BLOCKED),
    _end("a hook failed before it ran", _Call.FAILED, _Result.FAILED, _Error.HOOK_FAILED),
    _end("a hook failed after it ran", _Call.FAILED, _Result.FAILED, _Error.POST_HOOK_FAILED, ran=True),
    _end("denied by a rule, or no approver answered", _Call.DENIED, _Result.DENIED, _Error.PERMISSION_DENIED),
    _end("denied by policy", _Call.DENIED, _Result.DENIED, _Error.POLICY_BLOCKED),
    _end("denied by an approver", _Call.DENIED, _Result.REJECTED, _Error.APPROVAL_REJECTED),
    _end("canceled by its user", _Call.CANCELED, _Result.CANCELED, _Error.CANCELED, abort=_Abort.USER_INTERRUPTION),
    _end(
        "a sibling failed",
        _Call.CANCELED,
        _Result.SYNTHETIC_ERROR,
        _Error.SIBLING_CANCELED,
        abort=_Abort.SIBLING_ERROR,
    ),
    _end(
        "discarded by streaming fallback",
        _Call.CANCELED,
        _Result.DISCARDED,
        _Error.STREAMING_FALLBACK_DISCARDED,
        abort=_Abort.FALLBACK,
    ),
    _end(
        "the runtime was closed",
        _Call.CANCELED,
        _Result.SYNTHETIC_ERROR,
        _Error.CANCELED,
        abort=_Abort.RUNTIME_SHUTDOWN,
    ),
    _end("over its time limit", _Call.TIMED_OUT, _Result.TIMED_OUT, _Error.TIMEOUT, abort=_Abort.TIMEOUT),
    _end("the tool, its server or a rate limit failed", _Call.FAILED, _Result.FAILED, *_FAILED_IN_TOOL),
    _end("its output could not be mapped", _Call.FAILED, _Result.FAILED, _Error.RESULT_MAPPING_FAILED, ran=True),
    _end("a hook stopped it after it ran", _Call.FAILED, _Result.FAILED, _Error.HOOK_BLOCKED, ran=True),
    _end("ran, but cannot be inlined or stored", _Call.SUCCEEDED, _Result.TOO_LARGE, _Error.RESULT_TOO_LARGE, ran=True),
    _end("ran, but wholly withheld", _Call.SUCCEEDED, _Result.REDACTED, _Error.RESULT_REDACTED, ran=True),
)
"""The outcome table (resolves G-05 to G-12): one row per way a call can end."""
