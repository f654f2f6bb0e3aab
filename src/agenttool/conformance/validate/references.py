"""Which records a record points to.

Mostly the types say it: a `SurfaceId` in an invocation is the id of a surface. The rest is listed here. A tool that is
only named as deferred, blocked, excluded or found need not be declared, and so those are no references.
"""

from collections.abc import Iterator
from functools import cache

from agenttool.conformance.validate.kinds import ID_MEMBERS
from agenttool.conformance.validate.places import Meaning, plan_of
from agenttool.records import (
    RECORD_TYPES,
    DecisionId,
    EventId,
    ExecutionProfileId,
    HookId,
    InterfaceId,
    InvocationId,
    Json,
    MutationId,
    PermissionProfileId,
    PersistenceId,
    ProgressId,
    ResultId,
    SchedulerPolicyId,
    SurfaceId,
    ToolId,
)

TARGETS: dict[Meaning, str] = {
    ToolId: "tool_declaration",
    InterfaceId: "tool_interface",
    ExecutionProfileId: "tool_execution_profile",
    PermissionProfileId: "tool_permission_profile",
    SurfaceId: "tool_surface",
    InvocationId: "tool_invocation",
    DecisionId: "tool_permission_decision",
    MutationId: "tool_input_mutation",
    HookId: "tool_hook",
    SchedulerPolicyId: "tool_scheduler_policy",
    ProgressId: "tool_progress",
    ResultId: "tool_result",
    PersistenceId: "tool_result_persistence",
    EventId: "tool_event",
}
"""The kind of record that each kind of id names."""

_UNTYPED = {
    ("tool_invocation", "input_mutation_refs"): "tool_input_mutation",
    ("tool_result", "input_mutation_refs"): "tool_input_mutation",
    ("tool_surface", "tool_refs"): "tool_declaration",
    ("tool_surface", "loaded_tools"): "tool_declaration",
}
_NEED_NOT_BE_DECLARED = frozenset({"deferred_tools", "blocked_tools", "excluded_tools", "matches"})

_ROWS = {
    ("tool_declaration", "interface_ref"): "AT-DECL-23",
    ("tool_declaration", "execution_profile_ref"): "AT-DECL-23",
    ("tool_declaration", "permission_profile_ref"): "AT-DECL-23",
    ("tool_invocation", "surface_id"): "AT-INV-02",
    ("tool_invocation", "permission_decision_refs"): "AT-PERM-27",
    ("tool_invocation", "hook_refs"): "AT-HOOK-16",
    ("tool_invocation", "scheduler_policy_ref"): "AT-INV-06",
    ("tool_result", "persistence_refs"): "AT-PERS-11",
}
_JOINS_RECORDS = "AT-MODEL-01"


@cache
def members_with_references(kind: str) -> tuple[tuple[str, str], ...]:
    """List the members of a kind that hold ids of other records, and the kind each leads to."""
    slots = plan_of(RECORD_TYPES[kind], dict.fromkeys(TARGETS, bool))
    passed_over = {ID_MEMBERS.get(kind), *_NEED_NOT_BE_DECLARED}
    typed = ((slot.name, TARGETS[slot.meaning]) for slot in slots if slot.meaning and slot.name not in passed_over)
    untyped = ((member, target) for (owner, member), target in _UNTYPED.items() if owner == kind)
    return (*typed, *untyped)


def ids_in(value: Json) -> Iterator[tuple[int, str]]:
    """Give the ids in a list, with their places; an entry may be a record that has one."""
    for index, item in enumerate(value if isinstance(value, list) else ()):
        each = item.get("tool_id") if isinstance(item, dict) else item
        if isinstance(each, str):
            yield index, each


def requirement_of(kind: str, member: str) -> str:
    """Name the row that asks for a reference of a record to lead somewhere."""
    return _ROWS.get((kind, member), _JOINS_RECORDS)
