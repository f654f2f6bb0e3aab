"""Errors of calls that never answered: somebody must say so, or the conversation waits for ever."""

from agenttool.records import AbortReason, ErrorClass, InvocationId, Phase, ToolError
from agenttool.results.failure import guided


def canceled_by_user(phase: Phase, *, effects: bool | None = None) -> ToolError:
    """End a call that its user stopped."""
    return guided(
        ErrorClass.CANCELED,
        phase=phase,
        message="the call was canceled by its user",
        abort_reason=AbortReason.USER_INTERRUPTION,
        effects=effects,
    )


def canceled_by_sibling(phase: Phase, sibling: InvocationId, *, effects: bool | None = None) -> ToolError:
    """End a call because another of its batch failed."""
    return guided(
        ErrorClass.SIBLING_CANCELED,
        phase=phase,
        message=f"canceled because call {sibling!r} of the same batch failed",
        abort_reason=AbortReason.SIBLING_ERROR,
        effects=effects,
    )


def stopped_by_shutdown(phase: Phase, *, effects: bool | None = None) -> ToolError:
    """End a call because the runtime is going down, in order."""
    return guided(
        ErrorClass.CANCELED,
        phase=phase,
        message="the runtime shut down before the call was over",
        code="runtime_shutdown",
        abort_reason=AbortReason.RUNTIME_SHUTDOWN,
        effects=effects,
    )


def discarded_by_fallback(phase: Phase, *, effects: bool | None = None) -> ToolError:
    """End a call whose streamed request was thrown away and asked anew."""
    return guided(
        ErrorClass.STREAMING_FALLBACK_DISCARDED,
        phase=phase,
        message="the request that made this call was thrown away and asked anew",
        abort_reason=AbortReason.FALLBACK,
        effects=effects,
    )


def unknown_after_crash() -> ToolError:
    """End a call that had started when the process died: nobody knows what it did, so repeating it is not safe."""
    return guided(
        ErrorClass.CANCELED,
        phase=Phase.EXECUTE,
        message="the runtime stopped while the tool was running; what it did is not known",
        code="outcome_unknown",
        abort_reason=AbortReason.RUNTIME_SHUTDOWN,
        effects=True,
    )
