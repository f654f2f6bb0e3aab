"""Check records against their schemas.

Our schemas accept nothing that the published ones reject, and require more. What breaks a published schema is an
error. What breaks only what ours add (`OUR_MEMBERS`, and whatever lies inside a member) is a warning.
"""

from collections.abc import Iterable
from functools import cache

from agenttool.conformance.validate.finding import Layer, RecordFlaw, Severity
from agenttool.records import JsonObject
from agenttool.schema.compile import Checker
from agenttool.schema.explain import Misfit
from agenttool.schema.record_schemas import schema_of

SHAPE_ROWS = {
    "tool_namespace": "AT-DECL-04",
    "tool_declaration": "AT-DECL-01",
    "tool_interface": "AT-IFACE-01",
    "tool_execution_profile": "AT-EXEC-01",
    "tool_permission_profile": "AT-PERM-01",
    "tool_surface": "AT-SURF-01",
    "deferred_tool_ref": "AT-DEFER-02",
    "tool_search_result": "AT-DEFER-12",
    "tool_invocation": "AT-INV-01",
    "tool_input_mutation": "AT-HOOK-13",
    "tool_hook": "AT-HOOK-01",
    "tool_permission_decision": "AT-PERM-12",
    "tool_scheduler_policy": "AT-SCHED-01",
    "tool_progress": "AT-PROG-01",
    "tool_result": "AT-RES-01",
    "tool_result_persistence": "AT-PERS-08",
    "tool_event": "AT-EVT-01",
}
"""The requirement that a record of each kind fits its schema."""

CLOSED_LISTS = {
    ("tool_declaration", "lifecycle"): "AT-DECL-11",
    ("tool_interface", "schema_visibility"): "AT-IFACE-04",
    ("tool_interface", "interrupt_behavior"): "AT-SCHED-04",
    ("tool_interface", "context_modifier_policy"): "AT-SCHED-05",
    ("tool_permission_profile", "risk_level"): "AT-PERM-02",
    ("deferred_tool_ref", "schema_visibility"): "AT-IFACE-04",
    ("deferred_tool_ref", "loading_state"): "AT-DEFER-04",
    ("tool_input_mutation", "source_type"): "AT-HOOK-13",
    ("tool_hook", "hook_event"): "AT-HOOK-02",
    ("tool_permission_decision", "behavior"): "AT-PERM-13",
    ("tool_scheduler_policy", "ordering_policy"): "AT-SCHED-02",
    ("tool_scheduler_policy", "yield_policy"): "AT-SCHED-03",
    ("tool_scheduler_policy", "interrupt_behavior"): "AT-SCHED-04",
    ("tool_scheduler_policy", "sibling_failure_policy"): "AT-SCHED-04",
    ("tool_scheduler_policy", "context_modifier_policy"): "AT-SCHED-05",
    ("tool_result_persistence", "strategy"): "AT-PERS-10",
}
"""The requirement of each closed enum, by record and member."""

OUR_MEMBERS = {
    kind: frozenset(members.split())
    for kind, members in {
        "tool_declaration": "digest",
        "tool_interface": (
            "abort_semantics always_load capability_refs context_modifier_policy deny_before_io description"
            " empty_result_policy feature_gate_refs inferred_facts interrupt_behavior io_preflight_validation"
            " model_requirements namespace native_ids path_semantics permission_channel progress_schema"
            " redaction_policy_refs required_credentials requires_setup result_mapper sandbox_profile"
            " schema_validation should_defer timeout_ms user_facing_name value_validation"
        ),
        "tool_execution_profile": (
            "classifier_input command_parsing environment_policy exit_code_interpretation inferred_facts"
            " retry_semantics supports_credential_delegation supports_offline supports_result_persistence"
            " supports_timeout timeout_behavior working_directory_policy"
        ),
        "tool_permission_profile": "non_interactive_prompt",
        "tool_surface": "scheduler_policy_ref unoffered_tools",
        "tool_invocation": (
            "approval_request_ref cancellation depends_on external_mappings input_mutation_refs"
            " parent_invocation_id retry_of scheduler"
        ),
        "tool_input_mutation": "from_output_ref to_output_ref",
        "tool_hook": "name",
        "tool_permission_decision": "answers decided_by input_digest",
        "tool_scheduler_policy": "parallel_classes synthetic_results",
        "tool_progress": "current_step_index exit_code stderr_bytes stdout_bytes timeout_ms",
        "tool_result": (
            "abort_reason empty_result external_mappings input_mutation_refs native_output_ref"
            " transcript_search_text ui_facing_rendering"
        ),
    }.items()
}
"""Members that our schemas describe and the published ones leave open; a test compares both."""

ITEMS_OF_ANYTHING = frozenset({("tool_surface", "deferred_tools"), ("tool_surface", "loaded_tools")})
"""Lists whose items the published schemas leave open."""


def misfits_of(kind: str, members: JsonObject) -> Iterable[RecordFlaw]:
    """Return the flaws of a record that does not fit the schema of its kind."""
    checker = _checker(kind)
    if checker.accepts(members):
        return ()
    return [_flaw(kind, misfit) for misfit in checker.misfits(members)]


@cache
def _checker(kind: str) -> Checker:
    return Checker(schema_of(kind))


def _flaw(kind: str, misfit: Misfit) -> RecordFlaw:
    member, *inner = misfit.pointer.split("/")[1:] or [""]
    is_item = len(inner) == 1 and inner[0].isdigit()
    is_ours = member in OUR_MEMBERS.get(kind, ()) or (is_item and (kind, member) in ITEMS_OF_ANYTHING)
    is_published = not is_ours and (not inner or is_item)
    return RecordFlaw(
        message="a member is missing" if misfit.advice.startswith("add ") else f"it does not fit the schema of {kind}",
        expected=misfit.expected,
        advice=misfit.advice,
        pointer=misfit.pointer,
        requirement=CLOSED_LISTS.get((kind, member), SHAPE_ROWS[kind]),
        severity=Severity.ERROR if is_published else Severity.WARNING,
        layer=Layer.SHAPE,
    )
