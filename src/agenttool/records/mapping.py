"""Native identities: one type per native source.

Members keep the native spelling where they are native payload (`structuredContent`), and the standard's where they are
ours (G-65). A mapping from an unlisted source is read as a `NativeMapping` without loss.
"""

from agenttool.records.record import UNSET, Json, JsonObject, Part, UnsetType, field


class NativeMapping(Part, frozen=True, kw_only=True, tag_field="source", tag="native"):
    """A native application, or any source without a shape of its own."""

    native_id: str | None = None
    native_ref: Json | UnsetType = UNSET


class McpMapping(Part, frozen=True, kw_only=True, tag_field="source", tag="mcp"):
    """A tool of a Model Context Protocol server, and one call of it."""

    server_id: str | None = None
    server_name: str | None = None
    mcp_session_id: str | None = None
    mcp_protocol_version: str | None = None
    method: str | None = None
    tool_name: str | None = None
    jsonrpc_request_id: str | int | None = None
    structured_content: Json | UnsetType = field(default=UNSET, name="structuredContent")
    is_error: bool | None = field(default=None, name="isError")
    meta: JsonObject | None = field(default=None, name="_meta")


class OpenApiMapping(Part, frozen=True, kw_only=True, tag_field="source", tag="openapi"):
    """An operation of an OpenAPI document."""

    operation_id: str | None = None
    method: str | None = None
    path: str | None = None
    server_url: str | None = None
    security_scheme_refs: tuple[str, ...] | None = None


class FunctionMapping(Part, frozen=True, kw_only=True, tag_field="source", tag="function"):
    """A function of a model provider's tool calling interface."""

    provider: str | None = None
    tool_call_id: str | None = None
    function_name: str | None = None
    tool_choice: Json | UnsetType = UNSET
    parallel_tool_calls: bool | None = None
    strict: bool | None = None
    defer_loading: bool | None = None


class A2aMapping(Part, frozen=True, kw_only=True, tag_field="source", tag="a2a"):
    """A skill of a peer agent, and one task of it."""

    agent_card_url: str | None = None
    agent_skill_id: str | None = None
    task_id: str | None = None
    context_id: str | None = None
    message_id: str | None = None
    artifact_id: str | None = None


class CliMapping(Part, frozen=True, kw_only=True, tag_field="source", tag="cli"):
    """A command of this machine, and one run of it."""

    command_id: str | None = None
    argv_ref: str | None = None
    cwd_ref: str | None = None
    env_policy_ref: str | None = None
    sandbox_ref: str | None = None
    timeout_ms: int | None = None
    exit_code: int | None = None
    signal: str | int | None = None
    stdout_ref: str | None = None
    stderr_ref: str | None = None
    background_task_id: str | None = None


class BrowserMapping(Part, frozen=True, kw_only=True, tag_field="source", tag="browser"):
    """An action in a browser page."""

    browser_session_id: str | None = None
    page_id: str | None = None
    action_id: str | None = None
    observation_ref: str | None = None
    screenshot_ref: str | None = None


class TelemetryMapping(Part, frozen=True, kw_only=True, tag_field="source", tag="telemetry"):
    """The span of a call in a tracing system."""

    trace_id: str | None = None
    span_id: str | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    request_id: str | None = None
    duration_ms: float | None = None
    result_size_bytes: int | None = None
    decision_source: str | None = None


class RapMapping(Part, frozen=True, kw_only=True, tag_field="source", tag="rap"):
    """A tool of a RAP server, and one call of it; callback addresses are secrets and are not recorded."""

    toolset: str | None = None
    base_url: str | None = None
    endpoint: str | None = None
    operation: str | None = None
    tool_call_id: str | None = None
    call_id: str | None = None
    group_id: str | None = None
    thread_ancestors: tuple[str, ...] | None = None
    user_id: str | None = None


ExternalMapping = (
    NativeMapping
    | McpMapping
    | OpenApiMapping
    | FunctionMapping
    | A2aMapping
    | CliMapping
    | BrowserMapping
    | TelemetryMapping
    | RapMapping
)
