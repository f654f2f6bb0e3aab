"""Events of the append-only log, and records of hook runs."""

from agenttool.records.content import TelemetryRef
from agenttool.records.ids import EventId, HookId, InvocationId, ToolId
from agenttool.records.record import UNSET, ClosedEnum, Json, JsonObject, OpenEnum, Part, Record, Timestamp, UnsetType


class EventType(OpenEnum):
    """The 27 classes of the standard, and three of ours for the facts of a cancellation (G-47)."""

    DECLARED = "tool.declared"
    SURFACE_CREATED = "tool.surface.created"
    SURFACE_UPDATED = "tool.surface.updated"
    DEFERRED_DISCOVERED = "tool.deferred.discovered"
    DEFERRED_LOADED = "tool.deferred.loaded"
    PLANNED = "tool.invocation.planned"
    SELECTED = "tool.invocation.selected"
    ARGUMENTS_READY = "tool.invocation.arguments_ready"
    VALIDATION_FAILED = "tool.invocation.validation_failed"
    HOOK_PRE_STARTED = "tool.hook.pre.started"
    HOOK_PRE_COMPLETED = "tool.hook.pre.completed"
    PERMISSION_REQUESTED = "tool.permission.requested"
    PERMISSION_DECIDED = "tool.permission.decided"
    QUEUED = "tool.invocation.queued"
    STARTED = "tool.invocation.started"
    PROGRESS = "tool.invocation.progress"
    PARTIAL_RESULT = "tool.invocation.partial_result"
    HOOK_POST_STARTED = "tool.hook.post.started"
    HOOK_POST_COMPLETED = "tool.hook.post.completed"
    RESULT_PERSISTED = "tool.result.persisted"
    YIELDED = "tool.invocation.yielded"
    SUCCEEDED = "tool.invocation.succeeded"
    FAILED = "tool.invocation.failed"
    CANCELED = "tool.invocation.canceled"
    TIMED_OUT = "tool.invocation.timed_out"
    RESULT_CREATED = "tool.result.created"
    RESULT_REDACTED = "tool.result.redacted"
    CANCEL_REQUESTED = "tool.invocation.cancel_requested"
    CANCEL_ACKNOWLEDGED = "tool.invocation.cancel_acknowledged"
    CANCEL_FAILED = "tool.invocation.cancel_failed"

    @property
    def is_terminal(self) -> bool:
        """Whether this ends a call; each finished call has exactly one such event (AT-EVT-12)."""
        return self in TERMINAL_EVENTS

    @property
    def concerns_a_call(self) -> bool:
        """Whether such an event must name its call and its tool (AT-EVT-02)."""
        return self.startswith(("tool.invocation.", "tool.hook.", "tool.permission.", "tool.result."))


TERMINAL_EVENTS = (EventType.SUCCEEDED, EventType.FAILED, EventType.CANCELED, EventType.TIMED_OUT)


class ToolEvent(Record, frozen=True, kw_only=True, tag="tool_event"):
    """One fact with its time and source; maps onto a CloudEvent field by field (AT-EVT-15)."""

    event_id: EventId
    event_type: EventType
    source: str
    subject: str | None = None
    time: Timestamp
    invocation_id: InvocationId | None = None
    tool_id: ToolId | None = None
    data: JsonObject | None = None
    trace_refs: tuple[TelemetryRef, ...] | None = None


class HookEvent(ClosedEnum):
    """The six events at which hooks run."""

    PRE_TOOL_USE = "pre_tool_use"
    POST_TOOL_USE = "post_tool_use"
    POST_TOOL_USE_FAILURE = "post_tool_use_failure"
    PERMISSION_REQUEST = "permission_request"
    PERMISSION_DECISION = "permission_decision"
    RESULT_PERSISTENCE = "result_persistence"


class HookOutputKind(OpenEnum):
    """The seven kinds of hook output."""

    MESSAGE = "message"
    PROGRESS = "progress"
    UPDATED_INPUT = "updated_input"
    PERMISSION_RESULT = "permission_result"
    ADDITIONAL_CONTEXT = "additional_context"
    STOP = "stop"
    UPDATED_OUTPUT = "updated_output"


class HookOutput(Part, frozen=True, kw_only=True):
    """One output of a hook, in order (G-25)."""

    type: HookOutputKind
    message: str | None = None
    value: Json | UnsetType = UNSET


class ToolHook(Record, frozen=True, kw_only=True, tag="tool_hook"):
    """The record of one hook run, linked from its call by `hook_refs`."""

    hook_id: HookId
    hook_event: HookEvent
    name: str | None = None
    invocation_id: InvocationId | None = None
    tool_id: ToolId | None = None
    matcher: JsonObject | None = None
    outputs: tuple[HookOutput, ...] | None = None
    permission_result: JsonObject | None = None
    updated_input: Json | UnsetType = UNSET
    additional_context: tuple[JsonObject, ...] | None = None
    stop: JsonObject | None = None
    updated_output: Json | UnsetType = UNSET
    started_at: Timestamp | None = None
    ended_at: Timestamp | None = None
