"""Phase 12: tell the end. It cannot fail, and it always runs."""

from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.evidence import Ended
from agenttool.records import InvocationStatus, Phase, ToolResult
from agenttool.results.failure import outcome_of

_PHASE = Phase.EMIT_TERMINAL
_SUCCEEDED = InvocationStatus.SUCCEEDED
_PLANNED = steps.PLANNED
_ENDED = steps.ENDED


def emit_terminal(call: Call, result: ToolResult) -> None:
    """Note the one end of the call: its result, its delivery, its terminal event."""
    call.phase = _PHASE
    end = _SUCCEEDED if result.error is None else outcome_of(result.error).invocation_status
    if call.status is None:
        call.core.journal.note(call, _PLANNED, call.request)
    call.core.journal.note(call, _ENDED[end], Ended(result))
