"""The lists of our records are the lists of the map, word for word."""

import re

import pytest

from agenttool import records
from agenttool.records import ClosedEnum, OpenEnum

# The field as the map spells it in its table of enums, and our list of it.
LISTS = {
    "`lifecycle`": records.Lifecycle,
    "`tool_kind`": records.ToolKind,
    "`execution_kind`": records.ExecutionKind,
    "surface `scope`": records.SurfaceScope,
    "blocked/excluded reason": records.AbsenceReason,
    "`schema_visibility`": records.SchemaVisibility,
    "`loading_state`": records.LoadingState,
    "`argument_mode`": records.ArgumentMode,
    "invocation `status`": records.InvocationStatus,
    "scheduler state": records.SchedulerState,
    "progress `status`": records.ProgressStatus,
    "`abort_reason`": records.AbortReason,
    "result `status`": records.ResultStatus,
    "content class": records.ContentClass,
    "persistence `strategy`": records.PersistenceStrategy,
    "`hook_event`": records.HookEvent,
    "hook output": records.HookOutputKind,
    "mutation `source_type`": records.MutationSource,
    "decision `behavior`": records.Behavior,
    "`reason.type`": records.ReasonType,
    "rule source": records.RuleSource,
    "`risk_level`": records.RiskLevel,
    "`access_kinds`": records.AccessKind,
    "`write_effects`": records.WriteEffect,
    "`ordering_policy`": records.OrderingPolicy,
    "`yield_policy`": records.YieldPolicy,
    "`interrupt_behavior`": records.InterruptBehavior,
    "`sibling_failure_policy`": records.SiblingFailurePolicy,
    "`context_modifier_policy`": records.ContextModifierPolicy,
}


@pytest.fixture(scope="module")
def rows(shared):
    section = (shared / "specs" / "agent-tool.md").read_text().split("## 3.")[1].split("## 4.")[0]
    return dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE)), section


@pytest.mark.parametrize("field", LISTS)
def test_a_list_has_the_words_of_the_map_in_its_order(rows, field):
    title, values = next((title, values) for title, values in rows[0].items() if title.split(" (")[0] == field)
    assert list(LISTS[field]) == values.split(", ")
    if "(closed" in title:
        assert issubclass(LISTS[field], ClosedEnum)
    if "(open" in title:
        assert issubclass(LISTS[field], OpenEnum)


def test_the_error_classes_are_the_22_of_the_list_and_the_five_of_the_phases(rows):
    words = [values for title, values in rows[0].items() if title.startswith(("`error_class`", "phase-only"))]
    assert list(records.ErrorClass) == ", ".join(words).split(", ")


def test_the_events_are_the_27_of_the_map_and_three_of_ours(rows):
    prose = rows[1].split("Event classes (open, 27):")[1].split(".\n")[0]
    listed = set()
    for group in prose.split(";"):
        stems = re.findall(r"`(tool\.[a-z_.]*)`", group)
        ends = re.findall(r"[a-z_]+", re.sub(r"`[^`]*`|\band\b", "", group))
        listed |= {stem + end for stem in stems for end in ends or [""]}
    ours = {"tool.invocation.cancel_requested", "tool.invocation.cancel_acknowledged", "tool.invocation.cancel_failed"}
    assert len(listed) == 27
    assert set(records.EventType) == listed | ours


def test_every_row_of_the_outcome_table_is_an_outcome(shared):
    table = (shared / "specs" / "agent-tool.md").read_text().split("### Outcome table")[1].split("For mapper error")[0]
    told = {(o.invocation_status, o.result_status, error, o.abort_reason, o.terminal_event.rsplit(".")[-1])
            for o in records.OUTCOMES for error in o.error_classes or (None,)}  # fmt: skip
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 6 or cells[0] in ("Outcome", "---"):
            continue
        _, invocation, result, errors, abort, event = (cell if re.search("[a-z]", cell) else None for cell in cells)
        for error in re.findall(r"\b[a-z]+(?:_[a-z]+)+\b|\btimeout\b|\bcanceled\b", errors or "") or [None]:
            assert (invocation, result, error, abort, event.strip(".")) in told, line
