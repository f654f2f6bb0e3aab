"""The enums and outcomes of the records are those of the standard."""

import pytest

from agenttool import records
from agenttool.records import ClosedEnum, OpenEnum

# The field as the standard's table of enums names it, and the enum of the records.
LISTS = {
    "lifecycle": records.Lifecycle,
    "tool_kind": records.ToolKind,
    "execution_kind": records.ExecutionKind,
    "surface scope": records.SurfaceScope,
    "blocked/excluded reason": records.AbsenceReason,
    "schema_visibility": records.SchemaVisibility,
    "loading_state": records.LoadingState,
    "argument_mode": records.ArgumentMode,
    "invocation status": records.InvocationStatus,
    "scheduler state": records.SchedulerState,
    "progress status": records.ProgressStatus,
    "abort_reason": records.AbortReason,
    "result status": records.ResultStatus,
    "content class": records.ContentClass,
    "persistence strategy": records.PersistenceStrategy,
    "hook_event": records.HookEvent,
    "hook output": records.HookOutputKind,
    "mutation source_type": records.MutationSource,
    "decision behavior": records.Behavior,
    "reason.type": records.ReasonType,
    "rule source": records.RuleSource,
    "risk_level": records.RiskLevel,
    "access_kinds": records.AccessKind,
    "write_effects": records.WriteEffect,
    "ordering_policy": records.OrderingPolicy,
    "yield_policy": records.YieldPolicy,
    "interrupt_behavior": records.InterruptBehavior,
    "sibling_failure_policy": records.SiblingFailurePolicy,
    "context_modifier_policy": records.ContextModifierPolicy,
}


@pytest.fixture(scope="module")
def enums(standard):
    """The enums of the standard by field: open or closed, and the values in their order."""
    _, *rows = (line.split("\t") for line in (standard / "enums.tsv").read_text().splitlines())
    return {field: (kind, values.split()) for field, kind, values in rows}


# Requirements that are the list of an enum's values.
REQUIREMENTS = {
    "lifecycle": "AT-DECL-11",
    "schema_visibility": "AT-IFACE-04",
    "loading_state": "AT-DEFER-04",
    "surface scope": "AT-SURF-03",
    "blocked/excluded reason": "AT-SURF-11",
    "argument_mode": "AT-IO-08",
    "result status": "AT-RES-04",
    "content class": "AT-RES-03",
    "persistence strategy": "AT-PERS-10",
    "tool_kind": "AT-DECL-18",
    "execution_kind": "AT-EXEC-02",
    "invocation status": "AT-INV-07",
    "scheduler state": "AT-SCHED-11",
    "progress status": "AT-PROG-05",
    "hook_event": "AT-HOOK-02",
    "decision behavior": "AT-PERM-13",
    "reason.type": "AT-PERM-19",
    "rule source": "AT-PERM-20",
    "risk_level": "AT-PERM-02",
    "access_kinds": "AT-PERM-03",
    "write_effects": "AT-PERM-04",
    "ordering_policy": "AT-SCHED-02",
    "yield_policy": "AT-SCHED-03",
    "interrupt_behavior": "AT-SCHED-04",
    "sibling_failure_policy": "AT-SCHED-04",
    "context_modifier_policy": "AT-SCHED-05",
}


def fields():
    """Give the fields as parameters, each with the mark of the requirement that lists its values."""
    for field in LISTS:
        marks = pytest.mark.requirement(REQUIREMENTS[field]) if field in REQUIREMENTS else ()
        yield pytest.param(field, marks=marks)


@pytest.mark.parametrize("field", list(fields()))
def test_an_enum_has_the_values_of_the_standard_in_their_order(enums, field):
    kind, values = enums[field]
    assert list(LISTS[field]) == values
    wanted = {"closed": ClosedEnum, "open": OpenEnum, "": object}[kind]
    assert issubclass(LISTS[field], wanted)


@pytest.mark.requirement("AT-ERR-02")
def test_the_error_classes_are_the_22_of_the_enum_and_the_five_of_the_phases(enums):
    assert list(records.ErrorClass) == [*enums["error_class"][1], *enums["phase-only failures"][1]]


@pytest.mark.requirement("AT-EVT-02")
def test_the_events_are_the_27_of_the_standard_and_three_of_ours(enums):
    listed = set(enums["event_type"][1])
    ours = {"tool.invocation.cancel_requested", "tool.invocation.cancel_acknowledged", "tool.invocation.cancel_failed"}
    assert len(listed) == 27
    assert set(records.EventType) == listed | ours


def test_every_row_of_the_outcome_table_is_an_outcome(standard):
    _, *rows = (tuple(line.split("\t")) for line in (standard / "outcomes.tsv").read_text().splitlines())
    ours = {
        (o.invocation_status, o.result_status, error or "", o.abort_reason or "", o.terminal_event.rsplit(".")[-1])
        for o in records.OUTCOMES
        for error in o.error_classes or (None,)
    }
    assert set(rows) <= ours
