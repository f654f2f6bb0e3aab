"""Progress updates and cancellations of calls."""

from typing import Annotated

from agenttool.records.content import Ref
from agenttool.records.ids import InvocationId, ProgressId
from agenttool.records.record import ClosedEnum, JsonObject, Meta, OpenEnum, Part, Record, Timestamp
from agenttool.records.status import AbortReason


class ProgressStatus(OpenEnum):
    """What a call is doing."""

    QUEUED = "queued"
    STARTED = "started"
    RUNNING = "running"
    WAITING_FOR_PERMISSION = "waiting_for_permission"
    WAITING_FOR_INPUT = "waiting_for_input"
    BACKGROUNDED = "backgrounded"
    PARTIAL_RESULT = "partial_result"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"


class CancellationOutcome(ClosedEnum):
    """How a cancellation ended."""

    CANCELED = "canceled"
    CANCEL_FAILED = "cancel_failed"


class Cancellation(Part, frozen=True, kw_only=True):
    """The four facts of a cancellation (G-47): requested, acknowledged, reason, and outcome.

    Attributes:
        requested_by: the person who requested it, as in the details of an approval; none if it was no person.
    """

    cancel_requested: Timestamp | None = None
    cancel_acknowledged: Timestamp | None = None
    abort_reason: AbortReason | None = None
    outcome: CancellationOutcome | None = None
    message: str | None = None
    requested_by: JsonObject | None = None


class ToolProgress(Record, frozen=True, kw_only=True, tag="tool_progress"):
    """One update; `sequence` counts from 1 without gaps within its call (G-52)."""

    progress_id: ProgressId
    invocation_id: InvocationId
    sequence: int
    status: ProgressStatus
    message: str | None = None
    percent: Annotated[float, Meta(ge=0, le=100)] | None = None
    current_step: str | None = None
    current_step_index: int | None = None
    total_steps: int | None = None
    elapsed_ms: int | None = None
    timeout_ms: int | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None
    stdout_bytes: int | None = None
    stderr_bytes: int | None = None
    line_count: int | None = None
    exit_code: int | None = None
    task_id: str | None = None
    partial_result_refs: tuple[str, ...] | None = None
    artifact_refs: tuple[Ref, ...] | None = None
    timestamp: Timestamp
