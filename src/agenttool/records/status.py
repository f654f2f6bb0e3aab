"""The states of a call, and which may follow which."""

from agenttool.records.record import OpenEnum


class InvocationStatus(OpenEnum):
    """What happened to a call so far, in the order of the pipeline."""

    PLANNED = "planned"
    SELECTED = "selected"
    SCHEMA_PARSE_FAILED = "schema_parse_failed"
    ARGUMENTS_READY = "arguments_ready"
    VALIDATION_FAILED = "validation_failed"
    PRE_HOOKS_RUNNING = "pre_hooks_running"
    AWAITING_APPROVAL = "awaiting_approval"
    APPROVED = "approved"
    DENIED = "denied"
    QUEUED = "queued"
    RUNNING = "running"
    NEEDS_INPUT = "needs_input"
    PARTIAL_RESULT = "partial_result"
    POST_HOOKS_RUNNING = "post_hooks_running"
    YIELDED = "yielded"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    TIMED_OUT = "timed_out"
    BLOCKED = "blocked"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing may follow; an unlisted status is not terminal."""
        return self in TERMINAL_STATUSES


TERMINAL_STATUSES = (
    InvocationStatus.SUCCEEDED,
    InvocationStatus.FAILED,
    InvocationStatus.CANCELED,
    InvocationStatus.TIMED_OUT,
    InvocationStatus.DENIED,
    InvocationStatus.BLOCKED,
    InvocationStatus.SCHEMA_PARSE_FAILED,
    InvocationStatus.VALIDATION_FAILED,
)
"""The eight terminal statuses; `yielded` is a delivery (G-11)."""

_RANK = {status: rank for rank, status in enumerate(InvocationStatus)} | {
    # A block is a refusal without a decision: it belongs before anything runs, wherever the draft lists it.
    InvocationStatus.BLOCKED: list(InvocationStatus).index(InvocationStatus.DENIED),
}

_BACK = frozenset(
    {
        # a changed input needs a new approval, and so does an expired approval
        (InvocationStatus.APPROVED, InvocationStatus.AWAITING_APPROVAL),
        (InvocationStatus.QUEUED, InvocationStatus.AWAITING_APPROVAL),
        (InvocationStatus.QUEUED, InvocationStatus.APPROVED),
        (InvocationStatus.QUEUED, InvocationStatus.DENIED),
        # a changed input is parsed and validated again (G-21)
        *(
            (later, failure)
            for later in (
                InvocationStatus.ARGUMENTS_READY,
                InvocationStatus.PRE_HOOKS_RUNNING,
                InvocationStatus.AWAITING_APPROVAL,
                InvocationStatus.APPROVED,
            )
            for failure in (InvocationStatus.SCHEMA_PARSE_FAILED, InvocationStatus.VALIDATION_FAILED)
        ),
        # a running call may wait, report a part, and be tried again
        (InvocationStatus.NEEDS_INPUT, InvocationStatus.RUNNING),
        (InvocationStatus.PARTIAL_RESULT, InvocationStatus.RUNNING),
        (InvocationStatus.PARTIAL_RESULT, InvocationStatus.NEEDS_INPUT),
        (InvocationStatus.PARTIAL_RESULT, InvocationStatus.PARTIAL_RESULT),
        (InvocationStatus.RUNNING, InvocationStatus.QUEUED),
        # a call may be delivered before it ends, in any way
        *((InvocationStatus.YIELDED, end) for end in TERMINAL_STATUSES),
    }
)


def may_follow(before: InvocationStatus, after: InvocationStatus) -> bool:
    """Return whether a call may go from one status to the next.

    States may be skipped but not reversed (AT-INV-08), and nothing follows a terminal status (AT-INV-13).
    An unlisted status may appear anywhere except after a terminal one.
    """
    if before.is_terminal:
        return False
    if before not in _RANK or after not in _RANK:
        return True
    return _RANK[after] > _RANK[before] or (before, after) in _BACK


class AbortReason(OpenEnum):
    """Why a call was aborted (G-46)."""

    USER_INTERRUPTION = "user_interruption"
    SIBLING_ERROR = "sibling_error"
    TIMEOUT = "timeout"
    FALLBACK = "fallback"
    RUNTIME_SHUTDOWN = "runtime_shutdown"
