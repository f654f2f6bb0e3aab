"""Phase 12: tell the end. It cannot fail, and it always runs."""

from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.evidence import Ended
from agenttool.records import InvocationStatus, Phase, ToolResult
from agenttool.results.failure import outcome_of

_PHASE = Phase.EMIT_TERMINAL
_ENDED = steps.ENDED
_SUCCEEDED = _ENDED[InvocationStatus.SUCCEEDED]


def emit_terminal(call: Call, result: ToolResult, chars: int) -> None:
    """Note the one end of the call: its result, its delivery, its terminal event."""
    call.phase = _PHASE
    call.result = result
    core = call.core
    if result.error is None:
        core.journal.note(call, _SUCCEEDED, Ended(result))
    else:
        if call.status is None and not call.is_admitted:
            call.note(steps.PLANNED, call.request)
        call.note(_ENDED[outcome_of(result.error).invocation_status], Ended(result))
    core.journal.log.ended(chars + len(call.request.model_input))
    del core.calls[call.invocation_id]
    if core.left is not None:
        core.left.set()
