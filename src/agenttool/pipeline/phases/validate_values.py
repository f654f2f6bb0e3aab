"""Phase 3: run the tool's own checks of the input, before anything has an effect."""

from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.judge import is_denied
from agenttool.pipeline.tool import Tool
from agenttool.records import JsonObject, Phase

_PHASE = Phase.VALIDATE_VALUES


def validate_values(call: Call, tool: Tool, parsed: JsonObject) -> None:
    """Run the tool's pure checks, then its preflight; a denied call runs no preflight (G-22).

    Raises:
        ToolFailure: invalid_arguments, setup_required, credential_missing, capability_gap, sandbox_violation.
    """
    call.phase = _PHASE
    if tool.check_values is not None:
        _checked(call, tool.check_values, parsed)
    if tool.preflight is not None and not is_denied(call, tool, parsed):
        _checked(call, tool.preflight, parsed)


def _checked(call: Call, check: object, parsed: JsonObject) -> None:
    try:
        check(parsed)  # pyright: ignore[reportCallIssue] -- one of the tool's own checks
    except ToolFailure:
        call.note(steps.MISFIT, {"phase": _PHASE.value})
        raise
