"""Events of the append-only log, and records of hook runs."""

from agenttool.records.content import TelemetryRef
from agenttool.records.ids import EventId, HookId, InvocationId, ToolId
from agenttool.records.record import UNSET, ClosedEnum, Json, JsonObject, OpenEnum, Part, Record, Timestamp, UnsetType


class EventType(OpenEnum):
    """The 27 classes of the standard, and three of ours for the facts of a cancellation (G-47)."""

    DECLARED = "tool.declared"
    """A tool was declared. Data: `tool_id`, `name`."""
    SURFACE_CREATED = "tool.surface.created"
    """A surface was created. Data: `surface_id`, `reason`."""
    SURFACE_UPDATED = "tool.surface.updated"
    """A surface replaced another one. Data: `surface_id`, `replaces`, `reason`."""
    DEFERRED_DISCOVERED = "tool.deferred.discovered"
    """A search found a deferred tool. Data: `tool_id`, `name`, `surface_id`."""
    DEFERRED_LOADED = "tool.deferred.loaded"
    """A deferred tool was loaded. Data: `tool_id`, `name`, `surface_id`."""
    PLANNED = "tool.invocation.planned"
    """A call was requested. Data: `name`."""
    SELECTED = "tool.invocation.selected"
    """The tool of the call was found."""
    ARGUMENTS_READY = "tool.invocation.arguments_ready"
    """The arguments are valid."""
    VALIDATION_FAILED = "tool.invocation.validation_failed"
    """The arguments are invalid. Data: `phase`."""
    HOOK_PRE_STARTED = "tool.hook.pre.started"
    """Hooks start before the tool runs. Data: `hook_event`, `hooks` (how many)."""
    HOOK_PRE_COMPLETED = "tool.hook.pre.completed"
    """A hook ended before the tool runs. Data: `hook_id`, `hook_event`, `hook`, `outputs`, `message`, `fault`."""
    PERMISSION_REQUESTED = "tool.permission.requested"
    """The call is judged by the rules.

    Data: `decision_id`, `prompted` (whether an approver is asked), `approval_id`, `sealed`, `salted`.
    """
    PERMISSION_DECIDED = "tool.permission.decided"
    """The call is allowed or denied. Data: `decision_id`, `behavior`, `source`, `decided_by`, `approver`."""
    QUEUED = "tool.invocation.queued"
    """The call waits for a permit, or is about to start."""
    STARTED = "tool.invocation.started"
    """The tool starts to run."""
    PROGRESS = "tool.invocation.progress"
    """The tool reports progress, or the runtime reports a retry, a recovery or leased credentials.

    Data: `progress` (the number of the report), `message`, `percent`, `step`, `attempt`, `error_class`, `retry_in_s`,
    `credentials` (their names).
    """
    PARTIAL_RESULT = "tool.invocation.partial_result"
    """A part of the result is ready. Data: `progress`, `message`, `percent`, `step`."""
    HOOK_POST_STARTED = "tool.hook.post.started"
    """Hooks start after the tool ran. Data: `hook_event`, `hooks` (how many)."""
    HOOK_POST_COMPLETED = "tool.hook.post.completed"
    """A hook ended after the tool ran. Data: `hook_id`, `hook_event`, `hook`, `outputs`, `message`, `fault`."""
    RESULT_PERSISTED = "tool.result.persisted"
    """A large output was stored. Data: `decision_id`, `result_id`, `strategy`."""
    YIELDED = "tool.invocation.yielded"
    """The result was returned to the caller. Data: `result_id`."""
    SUCCEEDED = "tool.invocation.succeeded"
    """The call succeeded. Data: `result_id`, `context_modifiers`."""
    FAILED = "tool.invocation.failed"
    """The call failed, or was denied or blocked.

    Data: `result_id`, `error_class`, `error_code`, `context_modifiers`.
    """
    CANCELED = "tool.invocation.canceled"
    """The call was canceled. Data: `result_id`, `error_class`, `error_code`, `context_modifiers`."""
    TIMED_OUT = "tool.invocation.timed_out"
    """The call exceeded its time limit. Data: `result_id`, `error_class`, `error_code`, `context_modifiers`."""
    RESULT_CREATED = "tool.result.created"
    """The result exists. Data: `result_id`."""
    RESULT_REDACTED = "tool.result.redacted"
    """The output was withheld. Data: `decision_id`, `result_id`, `strategy`."""
    CANCEL_REQUESTED = "tool.invocation.cancel_requested"
    """A cancellation was requested. Data: `abort_reason`, `message`, `requested_by`."""
    CANCEL_ACKNOWLEDGED = "tool.invocation.cancel_acknowledged"
    """The tool has stopped after a cancellation. Data: `abort_reason`, `message`."""
    CANCEL_FAILED = "tool.invocation.cancel_failed"
    """The tool could not be stopped. Data: `abort_reason`, `message`."""

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
    """One fact with its time and source; maps onto a CloudEvent field by field (AT-EVT-15).

    Attributes:
        event_id: the id; it is the same whenever the journal is read.
        event_type: one of the event types.
        source: the program that wrote it.
        subject: what it is about, if it is about no call and no tool.
        time: when it happened, in UTC.
        invocation_id: the call.
        tool_id: the tool.
        data: more members, which depend on the type.
        trace_refs: the traces and spans of other systems.
    """

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
