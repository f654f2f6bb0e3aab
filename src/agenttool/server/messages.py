"""The requests and responses of the HTTP API; the OpenAPI document is generated from these types.

A member that is a record of the standard has its schema in the folder `schemas`.
"""

from typing import Annotated, Literal, Self, TypeAlias, cast

import msgspec
from msgspec import Meta, Raw, Struct

from agenttool.codec import json_bytes, to_json, write
from agenttool.records import (
    InvocationStatus,
    Json,
    JsonObject,
    Record,
    ToolEvent,
    ToolInvocation,
    ToolResult,
    ToolSearchResult,
    ToolSurface,
)

MAX_WAIT_S = 60.0
MAX_PAGE = 200


SCHEMA_REF = "#/components/schemas/"
"""How the OpenAPI document refers to the schema of a message or of a record."""


def _ref(kind: type[Record]) -> JsonObject:
    return {"$ref": SCHEMA_REF + kind.__name__}


_OBJECT: JsonObject = {"type": "object", "additionalProperties": True}

AnyObject: TypeAlias = Annotated[Raw, Meta(extra_json_schema=_OBJECT)]
ObjectOrNull: TypeAlias = Annotated[Raw, Meta(extra_json_schema={**_OBJECT, "type": ["object", "null"]})]
AnyJson: TypeAlias = Annotated[Raw, Meta(description="any JSON value")]
AnyRecord: TypeAlias = Annotated[
    Raw, Meta(extra_json_schema={**_OBJECT, "description": "a record; `record_type` names its type"})
]
Invocation: TypeAlias = Annotated[Raw, Meta(extra_json_schema=_ref(ToolInvocation))]
ResultOrNull: TypeAlias = Annotated[Raw, Meta(extra_json_schema={"anyOf": [_ref(ToolResult), {"type": "null"}]})]
Event: TypeAlias = Annotated[Raw, Meta(extra_json_schema=_ref(ToolEvent))]
SearchReply: TypeAlias = Annotated[Raw, Meta(extra_json_schema=_ref(ToolSearchResult))]
SurfaceReply: TypeAlias = Annotated[Raw, Meta(extra_json_schema=_ref(ToolSurface))]
SurfaceOrRequest: TypeAlias = Annotated[Raw, Meta(extra_json_schema={"anyOf": [_ref(ToolSurface), _OBJECT]})]
RECORDS = (ToolInvocation, ToolResult, ToolEvent, ToolSearchResult, ToolSurface)
"""The records of the standard that messages contain."""

Time: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Wait: TypeAlias = Annotated[float, Meta(ge=0, le=MAX_WAIT_S, description="seconds to wait for the end of the call")]
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_PAGE)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=300)]
Status: TypeAlias = Annotated[Name, Meta(extra_json_schema={"enum": [each.value for each in InvocationStatus]})]
RoleName: TypeAlias = Literal["caller", "approver", "operator", "auditor"]


def optional_member(member: Raw) -> bytes | None:
    """Return a member that may be absent or null, then as None; msgspec has no optional raw type."""
    found = bytes(member)
    return None if found in (b"", b"null") else found


def raw(value: Json) -> Raw:
    """Return JSON as a member of a message."""
    return Raw(json_bytes(value))


def raw_record(record: Record) -> Raw:
    """Return a record as a member of a message."""
    return Raw(write(record))


def raw_with_type(record: Record) -> Raw:
    """Return a record with its `record_type` as a member of a message."""
    return Raw(json_bytes(to_json(record)))


class ApiBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body of a request."""


class ApiQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The query of a request."""


class ApiReply(Struct, kw_only=True):
    """The body of a response."""

    @classmethod
    def of(cls, source: object, /, **members: object) -> Self:
        """Return a response with the given members, and the others from the attributes of an object."""
        names = (each for each in cls.__struct_fields__ if each not in members)
        return cls(**{name: getattr(source, name) for name in names}, **members)

    def __repr__(self) -> str:
        """Return the members with their values; a member that is any JSON as its text."""
        members = ", ".join(f"{name}={_shown(getattr(self, name))}" for name in self.__struct_fields__)
        return f"{type(self).__name__}({members})"


def _shown(value: object) -> str:
    if isinstance(value, Raw):
        return bytes(value).decode(errors="replace") or "null"
    return f"[{', '.join(map(_shown, cast('list[object]', value)))}]" if isinstance(value, list) else repr(value)


# Calls


class CallQuery(ApiQuery, frozen=True):
    """How long to wait for the end of a call."""

    wait: Wait | None = None


class CallBody(ApiBody):
    """A call to make; `arguments` is an object. `thread` names a conversation of the caller; default: its first."""

    tool: Name
    arguments: AnyObject = msgspec.field(default_factory=lambda: Raw(b"{}"))
    surface_id: Name | None = None
    native_call_id: Name | None = None
    thread: Name | None = None


class CallReply(ApiReply):
    """The state of a call; `result` is there once its end is recorded.

    `notice` says what an operator must do so that the call continues, or so that its end can be recorded.
    """

    invocation_id: str
    status: str
    tool: str
    approval_id: str | None
    expires_at: Time | None
    result: ResultOrNull
    notice: str | None


class CallListQuery(ApiQuery, frozen=True):
    """Which calls are listed. `tool` and `actor` accept `*`; a time is RFC 3339 or a span such as `2h`.

    `id_part` is the beginning or the end of an id. It selects at most `limit` calls, on one page, the newest first.
    """

    status: Status | None = None
    tool: Name | None = None
    actor: Name | None = None
    since: Name | None = None
    until: Name | None = None
    containing: Name | None = None
    open: bool = False
    id_part: Name | None = None
    limit: Limit = 50
    cursor: Name | None = None


class AnswerItem(ApiReply):
    """An approver's answer; `claim` is the name that a user of the operating system gave."""

    by: str | None
    claim: str | None
    behavior: str


class CallSummary(ApiReply):
    """One call of a list; `summary` is the first line of its result, or the process of an open call."""

    invocation_id: str
    tool: str
    tool_id: str | None
    status: str
    actor: str | None
    began: Time
    at: Time
    is_open: bool
    duration_s: float
    summary: str
    error_class: str | None
    approval_id: str | None
    approvals: list[AnswerItem]
    canceled_by: str | None
    process: str | None


class CallList(ApiReply):
    """A page of calls."""

    items: list[CallSummary]
    next_cursor: str | None


class PhaseItem(ApiReply):
    """One event of a call as a part of its duration."""

    name: str
    at: Time
    offset_s: float
    duration_s: float


class PayloadItem(ApiReply):
    """Stored bytes of a result."""

    digest: str
    media_type: str | None
    size_bytes: int | None


class CallDetail(CallReply):
    """Everything that is recorded of a call."""

    actor: str | None
    invocation: Invocation
    events: list[Event]
    records: list[AnyRecord]
    traceback: str | None
    children: list[str]
    began: Time
    is_open: bool
    duration_s: float
    phases: list[PhaseItem]
    payloads: list[PayloadItem]
    process: str | None


class CancelReply(ApiReply):
    """Whether a cancellation was accepted."""

    invocation_id: str
    accepted: bool


class BatchItemBody(ApiBody):
    """One call of a batch; `depends_on` are the places of earlier calls that must succeed first."""

    tool: Name
    arguments: AnyObject = msgspec.field(default_factory=lambda: Raw(b"{}"))
    native_call_id: Name | None = None
    depends_on: Annotated[list[Annotated[int, Meta(ge=0)]], Meta(max_length=100)] = []


class BatchBody(ApiBody):
    """Calls that are made together; `thread` is as for one call."""

    calls: Annotated[list[BatchItemBody], Meta(min_length=1, max_length=100)]
    surface_id: Name | None = None
    thread: Name | None = None


class BatchReply(ApiReply):
    """The states of the calls, in their order; `result` is there for those that have ended."""

    items: list[CallReply]


# Approvals


class ApprovalListQuery(ApiQuery, frozen=True):
    """Which approvals are listed; `tool` accepts `*`."""

    tool: Name | None = None
    limit: Limit = 50
    cursor: Name | None = None


class Approval(ApiReply):
    """A call that waits for an answer, with everything that an approver is shown."""

    approval_id: str
    invocation_id: str
    tool_id: str
    tool_name: str
    actor: str | None
    source: str | None
    description: str
    input: AnyJson
    input_schema: ObjectOrNull
    input_digest: str
    shown_digest: str
    declaration_digest: str
    changed_since_approved: bool | None
    reason: str
    mode: str
    rule_refs: list[str]
    overridden_rule_refs: list[str]
    risk: AnyObject
    suggested_updates: list[AnyObject]
    asked_at: Time
    expires_at: Time
    can_answer: bool
    why_not: str | None


class ApprovalList(ApiReply):
    """A page of approvals."""

    items: list[Approval]
    next_cursor: str | None


class RememberBody(ApiBody):
    """A rule to remember, and for how long."""

    rule: AnyObject
    scope: Literal["session", "store"] = "store"


class AnswerBody(ApiBody):
    """An answer; `shown_digest` is that of the approval which the approver saw."""

    answer: Literal["allow", "deny"]
    shown_digest: Name
    input: AnyObject = msgspec.field(default_factory=Raw)
    message: Annotated[str, Meta(max_length=10_000)] | None = None
    remember: RememberBody | None = None


class AnswerReply(ApiReply):
    """An answer that was accepted."""

    approval_id: str
    invocation_id: str
    answer: str
    by: str
    at: Time


class InputBody(ApiBody):
    """An edited input."""

    input: AnyObject


class Misplaced(ApiReply):
    """A place where an input does not fit its schema."""

    pointer: str
    message: str


class CheckReply(ApiReply):
    """The errors of an input; none if it fits."""

    errors: list[Misplaced]


# Tools


class ToolListQuery(ApiQuery, frozen=True):
    """Which tools are listed; with `query`, those that a search finds, the best first."""

    query: Name | None = None
    source: Name | None = None
    state: Literal["loaded", "deferred", "blocked", "excluded", "unoffered"] | None = None
    limit: Limit = 50
    cursor: Name | None = None


class ToolSummary(ApiReply):
    """One tool, and why a model does not see it."""

    tool_id: str
    name: str
    source: str
    description: str
    state: str
    why: str
    would_change: str | None
    tokens: int
    read_only: bool
    lifecycle: str
    digest: str | None


class ToolPage(ApiReply):
    """A page of tools."""

    items: list[ToolSummary]
    next_cursor: str | None
    total: int


class ToolDetail(ToolSummary):
    """One tool with its records."""

    declaration: AnyRecord
    interface: AnyRecord
    execution_profile: AnyRecord
    permission_profile: AnyRecord
    input_schema: AnyObject
    risk: AnyObject


class SurfaceBody(ApiBody):
    """The context of a surface."""

    scope: Name = "session"
    only: Annotated[list[Name], Meta(max_length=1000)] | None = None
    role: AnyObject = msgspec.field(default_factory=Raw)
    model: AnyObject = msgspec.field(default_factory=Raw)
    tool_choice: Name | None = None
    refs: Annotated[list[Name], Meta(max_length=100)] | None = None
    reason: Annotated[str, Meta(max_length=2000)] | None = None


class SurfaceQuery(ApiQuery, frozen=True):
    """The format of a model's provider."""

    format: Literal["openai", "openai_responses", "anthropic", "gemini", "mcp"] | None = None


class SearchBody(ApiBody):
    """What to search for: words, `select:NAME` or `regex:PATTERN`."""

    query: Annotated[str, Meta(max_length=2000)]
    limit: Annotated[int, Meta(ge=1, le=100)] = 10
    surface_id: Name | None = None


# Sources, rules and statistics


class SourceItem(ApiReply):
    """The state of one source; the kind `local` means a namespace of tools that run in the server's process."""

    name: str
    kind: str | None
    state: str
    tools: int
    since: Time | None = None
    last_error: str | None = None
    tries: int = 0
    next_try_at: Time | None = None
    withheld: list[str] = []
    protocol: str | None = None
    has_log: bool = False


class SourceList(ApiReply):
    """The sources of a runtime."""

    items: list[SourceItem]


class LogReply(ApiReply):
    """The last lines of a log, the oldest first."""

    lines: list[str]


class RuleItem(ApiReply):
    """One rule that is in force."""

    rule_ref: str
    behavior: str
    source: str
    place: str
    conditions: AnyObject
    reason: str | None
    expires_at: Time | None
    is_remembered: bool
    approval_id: str | None


class RuleList(ApiReply):
    """The rules in force, the strongest layer first, and why changed settings are not in force."""

    mode: str
    settings_notice: str | None
    items: list[RuleItem]


class TryBody(ApiBody):
    """A call to decide about, without making it; without `roles`, those of the actor's key are not known."""

    tool: Name
    arguments: AnyObject = msgspec.field(default_factory=lambda: Raw(b"{}"))
    actor: Name | None = None
    roles: list[RoleName] | None = None


class TryReply(ApiReply):
    """What the rules decide."""

    tool: str
    behavior: str
    mode: str
    reason: str
    rule_refs: list[str]
    overridden_rule_refs: list[str]
    suggested_updates: list[AnyObject]
    errors: list[Misplaced]


class MatchBody(ApiBody):
    """A rule, as in `[[rules]]`, to compare with past calls."""

    rule: AnyObject
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200


class MatchReply(ApiReply):
    """The past calls that a rule matches."""

    examined: int
    matched: int
    sample: list[CallSummary]


class StatsQuery(ApiQuery, frozen=True):
    """A window that ends now, divided into buckets."""

    window_s: Annotated[int, Meta(ge=60, le=31_536_000)] = 3600
    buckets: Annotated[int, Meta(ge=1, le=500)] = 60


class StatsTotals(ApiReply):
    """Counts and durations of calls that ended; durations are null without calls."""

    calls: int
    errors: int
    denied: int
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None


class StatsBucket(StatsTotals):
    """The same for one span."""

    at: Time


class OpenCounts(ApiReply):
    """The open calls of this moment; planned ones wait for other calls or for their turn."""

    running: int
    planned: int
    waiting: int
    deferred: int


class StatsReply(ApiReply):
    """Statistics of the calls of a tenant."""

    window_s: int
    bucket_s: float
    until: Time
    buckets: list[StatsBucket]
    totals: StatsTotals
    now: OpenCounts
    failures: list[CallSummary]
    is_cut: bool


class StatusReply(ApiReply):
    """What is waiting in the server; all but the first three members need the role operator or auditor."""

    is_healthy: bool
    open_calls: int | None
    approvals: int | None
    settings_fault: str | None = None
    settings_need_restart: list[str] = []
    store_fault: str | None = None
    waiting: list[AnyObject] = []
    prompts: list[AnyObject] = []
    unsettled: list[AnyObject] = []
    sources: list[AnyObject] = []
    subscriptions: list[AnyObject] = []
    views: list[AnyObject] = []
    faults: list[AnyObject] = []
    more: list[str] = []


class EventQuery(ApiQuery, frozen=True):
    """The position after which events are wanted; by default new ones."""

    after: Annotated[int, Meta(ge=0)] | None = None
