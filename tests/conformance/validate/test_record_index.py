"""The index stores what later checks need, in bounded memory."""

import pytest
from requirement_marks import find_requirement

from agenttool.conformance.validate.record_index import (
    _ROWS,
    key_of,
    members_with_references,
    requirement_of,
)
from agenttool.records import RECORD_TYPES


def test_a_name_that_is_too_long_is_remembered_by_its_digest():
    assert key_of("inv_1") == "inv_1"
    assert key_of("x" * 1000).startswith("sha256:")
    assert key_of("x" * 1000) != key_of("x" * 1001)


def test_the_references_of_a_call_are_those_its_types_name():
    assert dict(members_with_references("tool_invocation")) == {
        "tool_id": "tool_declaration",
        "surface_id": "tool_surface",
        "parent_invocation_id": "tool_invocation",
        "retry_of": "tool_invocation",
        "depends_on": "tool_invocation",
        "permission_decision_refs": "tool_permission_decision",
        "hook_refs": "tool_hook",
        "scheduler_policy_ref": "tool_scheduler_policy",
        "input_mutation_refs": "tool_input_mutation",
    }


@pytest.mark.parametrize("kind", RECORD_TYPES)
def test_every_reference_leads_to_a_kind_of_record_and_breaks_a_row_of_the_ledger(kind):
    for member, target in members_with_references(kind):
        assert target in RECORD_TYPES
        assert find_requirement(requirement_of(kind, member))


def test_every_row_is_for_a_reference_that_exists():
    assert all(member in dict(members_with_references(kind)) for kind, member in (place.split(".") for place in _ROWS))
