"""The twelve phases of a call, in order, and how each may end it."""

from agenttool.records.error import ErrorClass
from agenttool.records.record import ClosedEnum, Part


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


class PhaseRule(Part, frozen=True, kw_only=True):
    """How one phase may end a call, and what a crash inside it counts as."""

    phase: Phase
    failures: tuple[ErrorClass, ...]
    crash: ErrorClass


PHASE_RULES = (
    PhaseRule(
        phase=Phase.RESOLVE_TOOL,
        failures=(ErrorClass.UNKNOWN_TOOL, ErrorClass.BLOCKED_TOOL, ErrorClass.SCHEMA_NOT_LOADED),
        crash=ErrorClass.UNKNOWN_TOOL,
    ),
    PhaseRule(
        phase=Phase.PARSE_SCHEMA,
        failures=(ErrorClass.SCHEMA_VALIDATION_FAILED,),
        crash=ErrorClass.SCHEMA_VALIDATION_FAILED,
    ),
    PhaseRule(
        phase=Phase.VALIDATE_VALUES,
        failures=(
            ErrorClass.INVALID_ARGUMENTS,
            ErrorClass.SETUP_REQUIRED,
            ErrorClass.SANDBOX_VIOLATION,
            ErrorClass.CAPABILITY_GAP,
            ErrorClass.CREDENTIAL_MISSING,
        ),
        crash=ErrorClass.INVALID_ARGUMENTS,
    ),
    PhaseRule(
        phase=Phase.PREPARE_OBSERVABLE_INPUT,
        failures=(ErrorClass.INPUT_MUTATION_FAILED,),
        crash=ErrorClass.INPUT_MUTATION_FAILED,
    ),
    PhaseRule(
        phase=Phase.PRE_HOOKS,
        failures=(ErrorClass.HOOK_BLOCKED, ErrorClass.HOOK_FAILED),
        crash=ErrorClass.HOOK_FAILED,
    ),
    PhaseRule(
        phase=Phase.PERMISSION,
        failures=(ErrorClass.PERMISSION_DENIED, ErrorClass.APPROVAL_REJECTED, ErrorClass.POLICY_BLOCKED),
        crash=ErrorClass.PERMISSION_DENIED,
    ),
    PhaseRule(
        phase=Phase.SCHEDULE,
        failures=(ErrorClass.CANCELED, ErrorClass.SIBLING_CANCELED, ErrorClass.STREAMING_FALLBACK_DISCARDED),
        crash=ErrorClass.CANCELED,
    ),
    PhaseRule(
        phase=Phase.EXECUTE,
        failures=(
            ErrorClass.EXECUTION_FAILED,
            ErrorClass.TIMEOUT,
            ErrorClass.DEPENDENCY_UNAVAILABLE,
            ErrorClass.RATE_LIMITED,
            ErrorClass.PARTIAL_FAILURE,
            ErrorClass.STREAMING_FALLBACK_DISCARDED,
        ),
        crash=ErrorClass.EXECUTION_FAILED,
    ),
    PhaseRule(
        phase=Phase.MAP_RESULT,
        failures=(ErrorClass.RESULT_MAPPING_FAILED,),
        crash=ErrorClass.RESULT_MAPPING_FAILED,
    ),
    PhaseRule(
        phase=Phase.POST_HOOKS,
        failures=(ErrorClass.POST_HOOK_FAILED, ErrorClass.HOOK_BLOCKED),
        crash=ErrorClass.POST_HOOK_FAILED,
    ),
    PhaseRule(
        phase=Phase.PERSIST_RESULT,
        failures=(ErrorClass.RESULT_TOO_LARGE, ErrorClass.RESULT_REDACTED),
        crash=ErrorClass.RESULT_TOO_LARGE,
    ),
    PhaseRule(phase=Phase.EMIT_TERMINAL, failures=(), crash=ErrorClass.EXECUTION_FAILED),
)
"""The phase table of the standard, with the classes it leaves without a phase put where they arise (G-06)."""
