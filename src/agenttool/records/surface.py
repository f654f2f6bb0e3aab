"""Tool surfaces, deferred tools and search results."""

from agenttool.records.error import NextAction
from agenttool.records.ids import SchedulerPolicyId, SurfaceId, ToolId
from agenttool.records.record import UNSET, ClosedEnum, Json, JsonObject, OpenEnum, Part, Record, Timestamp, UnsetType


class SchemaVisibility(ClosedEnum):
    """Whether the model sees the full schema."""

    LOADED = "loaded"
    DEFERRED = "deferred"
    INTERNAL = "internal"
    NATIVE_REF = "native_ref"


class SurfaceScope(OpenEnum):
    """The context that a surface is valid for."""

    TURN = "turn"
    TASK = "task"
    SESSION = "session"
    TENANT = "tenant"
    SKILL = "skill"
    PEER_AGENT = "peer_agent"
    WORKSPACE = "workspace"
    ROLE = "role"
    MODEL_REQUEST = "model_request"


class AbsenceReason(OpenEnum):
    """Why a tool is not loaded."""

    POLICY_BLOCKED = "policy_blocked"
    CREDENTIAL_MISSING = "credential_missing"
    SETUP_REQUIRED = "setup_required"
    MODEL_UNSUPPORTED = "model_unsupported"
    RECURSIVE_TOOL_FORBIDDEN = "recursive_tool_forbidden"
    ROLE_NOT_ALLOWED = "role_not_allowed"
    FEATURE_DISABLED = "feature_disabled"
    DEFERRED_UNTIL_DISCOVERED = "deferred_until_discovered"


class LoadingState(ClosedEnum):
    """How far a tool is from being callable."""

    LOADED = "loaded"
    DEFERRED = "deferred"
    DISCOVERABLE = "discoverable"
    PENDING_PROVIDER = "pending_provider"
    UNAVAILABLE = "unavailable"


class AbsentTool(Part, frozen=True, kw_only=True):
    """A tool that is blocked or excluded, with its reason and what would change that (G-35)."""

    tool_id: ToolId | None = None
    name: str | None = None
    reason: AbsenceReason | None = None
    message: str | None = None
    policy_refs: tuple[str, ...] | None = None
    may_change: bool | None = None
    would_change: str | None = None


class DeferredToolRef(Record, frozen=True, kw_only=True, tag="deferred_tool_ref"):
    """A tool that can be found but whose schema is not loaded."""

    tool_id: ToolId
    name: str
    namespace: str | None = None
    search_hint: str | None = None
    source: str | None = None
    schema_visibility: SchemaVisibility | None = None
    loading_state: LoadingState
    reason: str | None = None
    pending_provider_or_server: str | None = None
    selection_ref: str | None = None
    native_ref: JsonObject | None = None


class ToolSurface(Record, frozen=True, kw_only=True, tag="tool_surface"):
    """The tools of one context: loaded, deferred, blocked, excluded (G-36).

    Attributes:
        scope: how long the surface is meant to be used, such as `turn` or `session`.
        loaded_tools: the ids of the tools that a model is shown.
        deferred_tools: the tools that a model can find by a search and load.
        blocked_tools: the tools that cannot be called, each with its reason.
        excluded_tools: the tools that this context does not include, each with its reason.
        unoffered_tools: the tools that can be called but are not shown, each with its reason; our extension.
        default_tool_choice: `auto`, `none`, `required`, or the name of a tool.
        model_capabilities: the features of the model that the surface is for.
        role_constraints: the role that the surface is for.
        surface_reason: why the surface was created.
        runtime_refs: the session, task or sandbox that it belongs to.
    """

    surface_id: SurfaceId
    scope: SurfaceScope
    created_at: Timestamp | None = None
    producer: str | None = None
    tool_refs: tuple[str, ...] | None = None
    loaded_tools: tuple[Json, ...] | None = None
    deferred_tools: tuple[DeferredToolRef | str, ...] | None = None
    blocked_tools: tuple[AbsentTool, ...] | None = None
    excluded_tools: tuple[AbsentTool, ...] | None = None
    unoffered_tools: tuple[AbsentTool, ...] | None = None
    selection_policy: JsonObject | None = None
    default_tool_choice: Json | UnsetType = UNSET
    capability_requirements: tuple[str, ...] | None = None
    model_capabilities: JsonObject | None = None
    role_constraints: JsonObject | None = None
    surface_reason: str | None = None
    policy_refs: tuple[str, ...] | None = None
    runtime_refs: tuple[str, ...] | None = None
    scheduler_policy_ref: SchedulerPolicyId | None = None


class QueryType(OpenEnum):
    """Whether a search names tools, describes them, or gives a pattern."""

    SELECT = "select"
    KEYWORD = "keyword"
    REGEX = "regex"


class SearchMatch(Part, frozen=True, kw_only=True):
    """One tool that a search found, and why."""

    tool_id: ToolId
    name: str | None = None
    score: float | None = None
    reason: str | None = None


class ToolSearchResult(Record, frozen=True, kw_only=True, tag="tool_search_result"):
    """The matches of a search; there may be none (AT-DEFER-11).

    Attributes:
        query_type: whether the query names tools, describes them, or is a pattern.
        matches: the tools, best first, each with its score and reason.
        total_deferred_tools: how many tools can be found by a search.
        pending_providers: the servers that are still connecting, so that their tools were not searched.
        missing_names: the names after `select:` that no tool has.
        next_action: what to do next, such as `load_schema_then_call`.
    """

    query: str
    query_type: QueryType | None = None
    matches: tuple[SearchMatch | str, ...]
    total_deferred_tools: int | None = None
    pending_providers: tuple[str, ...] | None = None
    missing_names: tuple[str, ...] | None = None
    next_action: NextAction | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the found tools, or their ids where they have none, best first."""
        return tuple(each if isinstance(each, str) else each.name or each.tool_id for each in self.matches)
