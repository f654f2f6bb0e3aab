"""Tool interfaces, and every fail-closed default.

A fact that is not declared is never read as permission. `complete_interface` and `complete_profile` write the
standard's defaults into a record and list them in `inferred_facts`, so that a reader of an export can distinguish
declared facts from assumed ones.
"""

from collections.abc import Callable

from agenttool.records.ids import ExecutionProfileId, InterfaceId, PermissionProfileId, ToolId
from agenttool.records.mapping import ExternalMapping
from agenttool.records.profiles import ExecutionProfile
from agenttool.records.record import UNSET, Json, JsonObject, Part, Record, UnsetType, replace
from agenttool.records.scheduling import (
    ContextModifierPolicy,
    InterruptBehavior,
    OrderingPolicy,
    ParallelClasses,
    SchedulerPolicy,
    SiblingFailurePolicy,
    YieldPolicy,
)
from agenttool.records.surface import SchemaVisibility

Fact = bool | str
"""A fact about a tool, or the name of what computes it per call: `classifier:<id>` or `same_as:<field>` (G-17)."""


class Rendering(Part, frozen=True, kw_only=True):
    """Hints for display; none of them is ever canonical output (AT-IFACE-30)."""

    ui_summary: str | None = None
    activity_description: str | None = None
    progress_render_hint: str | None = None
    rejected_render_hint: str | None = None
    error_render_hint: str | None = None
    grouped_render_hint: str | None = None
    transcript_search_text: str | None = None


class ToolInterface(Record, frozen=True, kw_only=True, tag="tool_interface"):
    """How a tool is validated, decided on, run, shown and stored: the ten partitions of the standard, in its order."""

    interface_id: InterfaceId
    # identity
    tool_id: ToolId
    name: str | None = None
    aliases: tuple[str, ...] | None = None
    namespace: str | None = None
    native_ids: JsonObject | None = None
    user_facing_name: str | None = None
    # discovery
    search_hint: str | None = None
    description: str | None = None
    capability_refs: tuple[str, ...] | None = None
    schema_visibility: SchemaVisibility | None = None
    should_defer: bool | None = None
    always_load: bool | None = None
    # schemas
    model_input_schema: JsonObject | None = None
    runtime_input_schema: JsonObject | None = None
    output_schema: JsonObject | None = None
    strict: bool | None = None
    # availability
    is_enabled: Fact | None = None
    requires_setup: bool | None = None
    required_credentials: tuple[str, ...] | None = None
    model_requirements: Json | UnsetType = UNSET
    feature_gate_refs: tuple[str, ...] | None = None
    # validation
    schema_validation: Json | UnsetType = UNSET
    value_validation: Json | UnsetType = UNSET
    io_preflight_validation: Json | UnsetType = UNSET
    deny_before_io: bool | None = None
    path_semantics: Json | UnsetType = UNSET
    # safety
    is_read_only: Fact | None = None
    is_concurrency_safe: Fact | None = None
    is_destructive: Fact | None = None
    is_open_world: Fact | None = None
    requires_user_interaction: bool | None = None
    sandbox_profile: str | None = None
    classifier_input: Json | UnsetType = UNSET
    # permission
    permission_profile_ref: PermissionProfileId | None = None
    permission_matcher: str | None = None
    permission_channel: str | None = None
    # execution
    execution_profile_ref: ExecutionProfileId | None = None
    timeout_ms: int | None = None
    abort_semantics: str | None = None
    progress_schema: JsonObject | None = None
    interrupt_behavior: InterruptBehavior | None = None
    context_modifier_policy: ContextModifierPolicy | None = None
    # result
    result_mapper: str | None = None
    max_inline_chars: int | None = None
    persistence_policy_ref: str | None = None
    empty_result_policy: str | None = None
    redaction_policy_refs: tuple[str, ...] | None = None
    # rendering
    rendering: Rendering | None = None
    external_mappings: tuple[ExternalMapping, ...] | None = None
    inferred_facts: tuple[str, ...] | None = None


INTERFACE_DEFAULTS: dict[str, bool | str] = {
    "is_concurrency_safe": False,  # AT-IFACE-18
    "is_read_only": False,  # AT-IFACE-19
    "is_destructive": False,  # AT-IFACE-20
    "is_open_world": True,  # AT-IFACE-21
    "requires_user_interaction": False,  # AT-IFACE-22
    "strict": True,  # AT-IFACE-23
    "interrupt_behavior": InterruptBehavior.BLOCK,  # AT-IFACE-24
    "classifier_input": "",  # AT-IFACE-25
    "deny_before_io": True,  # AT-IFACE-07
}
"""The value that is recorded for a fact that is not declared."""

_ACTED_ON = INTERFACE_DEFAULTS | {"is_destructive": True}
"""The value that is acted on: an undeclared `is_destructive` is recorded as false and treated as true (G-14)."""

CALL_FACTS = ("is_concurrency_safe", "is_read_only", "is_destructive", "is_open_world")
"""The facts that may be computed for each input."""

UNREADABLE_FACT = {
    "is_concurrency_safe": False,
    "is_read_only": False,
    "is_destructive": True,
    "is_open_world": True,
    "is_enabled": False,
}
"""What a fact becomes when the classifier it names is missing or fails (AT-IFACE-10, G-17)."""

CAPABILITY_FLAGS = tuple(
    name for name in ExecutionProfile.__struct_fields__ if name.startswith("supports_") or name == "sandboxed"
)
"""The thirteen capabilities of an executor; one that is not declared is not supported (AT-EXEC-03, G-20)."""


def complete_interface(interface: ToolInterface) -> ToolInterface:
    """Return an interface with fail-closed defaults for missing facts, listed as inferred."""
    missing = {fact: value for fact, value in INTERFACE_DEFAULTS.items() if getattr(interface, fact) in (None, UNSET)}
    return replace(interface, **missing, inferred_facts=_joined(interface.inferred_facts, missing))


def complete_profile(profile: ExecutionProfile) -> ExecutionProfile:
    """Return a profile that states every capability; undeclared ones are listed as inferred."""
    missing = {flag: False for flag in CAPABILITY_FLAGS if getattr(profile, flag) is None}
    return replace(profile, **missing, inferred_facts=_joined(profile.inferred_facts, missing))


def complete_policy(policy: SchedulerPolicy) -> SchedulerPolicy:
    """Return a policy with every default written out (AT-SCHED-06).

    The default is ordered, unless the yield policy allows unordered results (G-44). Where the stricter value of policy
    and tool applies (G-19), the default is the least strict value, so that the tool decides.
    """
    ordering, yielding = policy.ordering_policy, policy.yield_policy
    if ordering is None:
        unordered = yielding == YieldPolicy.UNORDERED_STREAMING
        ordering = OrderingPolicy.ALLOW_UNORDERED if unordered else OrderingPolicy.PRESERVE_TERMINAL_ORDER
    if yielding is None:
        unordered = ordering == OrderingPolicy.ALLOW_UNORDERED
        yielding = YieldPolicy.UNORDERED_STREAMING if unordered else YieldPolicy.PROGRESS_IMMEDIATE_RESULTS_ORDERED
    all_classes = ParallelClasses(read_only=True, write=True, destructive=True, open_world=True)
    return replace(
        policy,
        scope=policy.scope or "batch",
        ordering_policy=ordering,
        yield_policy=yielding,
        interrupt_behavior=policy.interrupt_behavior or InterruptBehavior.CANCEL,
        sibling_failure_policy=policy.sibling_failure_policy or SiblingFailurePolicy.IGNORE,
        context_modifier_policy=policy.context_modifier_policy or ContextModifierPolicy.DEFER_UNTIL_BATCH_COMPLETE,
        parallel_classes=policy.parallel_classes or all_classes,
        synthetic_results=SYNTHETIC_RESULTS if policy.synthetic_results is UNSET else policy.synthetic_results,
    )


SYNTHETIC_RESULTS: Json = {"sibling_error": "synthetic_error", "runtime_shutdown": "synthetic_error"}
"""Why a call of a batch ends before its tool ran, and the status of its result."""


def declares(interface: ToolInterface, fact: str) -> bool:
    """Return whether the owner of a tool declares a fact; an inferred fact is not declared."""
    return getattr(interface, fact) not in (None, UNSET) and fact not in (interface.inferred_facts or ())


def acted_on(interface: ToolInterface, fact: str) -> bool | str:
    """Return the value to act on: the declared one, or the strict default.

    Raises:
        KeyError: the fact has no fail-closed default.
    """
    default = _ACTED_ON[fact]
    declared: bool | str = getattr(interface, fact) if declares(interface, fact) else default
    return declared


def follow_fact(read: Callable[[str], object], fact: str) -> object:
    """Return the value of a fact, with `same_as:` followed; None for a circle, or if it leads to no fact of a call."""
    seen: set[str] = set()
    while fact in CALL_FACTS and fact not in seen:
        seen.add(fact)
        value = read(fact)
        if not isinstance(value, str) or not value.startswith("same_as:"):
            return value
        fact = value.removeprefix("same_as:")
    return None


def _joined(known: tuple[str, ...] | None, added: dict[str, bool | str] | dict[str, bool]) -> tuple[str, ...]:
    return tuple(sorted({*(known or ()), *added}))
