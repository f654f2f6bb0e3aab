"""Records of hook runs."""

from agenttool.records.ids import HookId, InvocationId, ToolId
from agenttool.records.record import UNSET, ClosedEnum, Json, JsonObject, OpenEnum, Part, Record, Timestamp, UnsetType


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
