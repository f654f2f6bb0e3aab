"""The twelve phases of a call, in order, and the error class of a crash in each."""

from agenttool.records.error import ErrorClass
from agenttool.records.record import ClosedEnum


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
