"""Permission decisions, and what they rest on."""

from agenttool.records.content import ContentItem
from agenttool.records.ids import DecisionId, InvocationId
from agenttool.records.record import (
    UNSET,
    ClosedEnum,
    Digest,
    Json,
    JsonObject,
    OpenEnum,
    Part,
    Record,
    Timestamp,
    UnsetType,
)


class Behavior(ClosedEnum):
    """What a decision does to the call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"
    PASSTHROUGH = "passthrough"


class ReasonType(OpenEnum):
    """What a decision rests on."""

    RULE = "rule"
    MODE = "mode"
    POLICY = "policy"
    HOOK = "hook"
    CLASSIFIER = "classifier"
    WORKING_DIR = "working_dir"
    SANDBOX_OVERRIDE = "sandbox_override"
    SAFETY_CHECK = "safety_check"
    PERMISSION_PROMPT_TOOL = "permission_prompt_tool"
    ASYNC_AGENT = "async_agent"
    SUBCOMMAND_RESULTS = "subcommand_results"
    OTHER = "other"


class RuleSource(OpenEnum):
    """Where a rule came from."""

    USER_SETTINGS = "user_settings"
    PROJECT_SETTINGS = "project_settings"
    LOCAL_SETTINGS = "local_settings"
    FLAG_SETTINGS = "flag_settings"
    POLICY_SETTINGS = "policy_settings"
    CLI_ARG = "cli_arg"
    COMMAND = "command"
    SESSION = "session"


class Reason(Part, frozen=True, kw_only=True):
    """The reason of a decision, for programs and people."""

    type: ReasonType | None = None
    message: str | None = None
    rule_ref: str | None = None
    rule_source: RuleSource | None = None
    beaten_rule_refs: tuple[str, ...] | None = None
    policy_ref: str | None = None
    hook_ref: str | None = None
    details: JsonObject | None = None


class ClassifierAuthority(ClosedEnum):
    """How much authority a classifier has."""

    APPROVE = "approve"
    DENY = "deny"
    RECOMMEND = "recommend"


class ClassifierCheck(Part, frozen=True, kw_only=True):
    """An automated classification; always a recorded input of the decision (AT-PERM-24)."""

    classifier_ref: str | None = None
    status: str | None = None
    confidence: float | None = None
    classifier_reason: str | None = None
    authority: ClassifierAuthority | None = None


class SuggestedUpdate(Part, frozen=True, kw_only=True):
    """A rule change that would settle this question; no effect until its owner accepts it (AT-PERM-23)."""

    type: str | None = None
    destination: RuleSource | None = None
    rule: JsonObject | None = None
    value: Json | UnsetType = UNSET


class PermissionDecision(Record, frozen=True, kw_only=True, tag="tool_permission_decision"):
    """One decision about one call; an `ask` and its answer are two (G-30)."""

    decision_id: DecisionId
    invocation_id: InvocationId
    behavior: Behavior
    mode: str | None = None
    source: str | None = None
    reason: Reason | None = None
    rule_refs: tuple[str, ...] | None = None
    policy_refs: tuple[str, ...] | None = None
    updated_input: Json | UnsetType = UNSET
    updated_input_ref: str | None = None
    user_modified: bool | None = None
    suggested_updates: tuple[SuggestedUpdate, ...] | None = None
    pending_classifier_check: ClassifierCheck | None = None
    blocked_path: str | None = None
    content_blocks: tuple[ContentItem, ...] | None = None
    accept_feedback: str | None = None
    answers: DecisionId | None = None
    input_digest: Digest | None = None
    decided_by: str | None = None
    decided_at: Timestamp
    expires_at: Timestamp | None = None
