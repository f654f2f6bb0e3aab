import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.codec import read, to_json, write
from agenttool.records import CORE_OBJECTS, RECORD_TYPES, ToolInvocation
from agenttool.testing.strategies import records

CORE = {
    "tool_declaration", "tool_interface", "tool_surface", "tool_namespace", "tool_input_contract",
    "tool_output_contract", "tool_execution_profile", "tool_permission_profile", "tool_permission_decision",
    "tool_hook", "tool_invocation", "tool_scheduler_policy", "deferred_tool_ref", "tool_progress", "tool_result",
    "tool_result_persistence", "tool_error", "tool_event", "tool_external_mapping",
}  # fmt: skip


def test_every_core_object_of_the_standard_has_a_type():
    assert CORE | {"tool_input_mutation", "tool_search_result"} == set(CORE_OBJECTS)


@given(st.sampled_from([kind for kinds in CORE_OBJECTS.values() for kind in kinds]).flatmap(records))
def test_a_record_cannot_be_changed(record):
    with pytest.raises(AttributeError):
        setattr(record, record.__struct_fields__[0], "other")


@pytest.mark.requirement("AT-VER-01")
@given(st.sampled_from(list(RECORD_TYPES.values())).flatmap(records))
def test_every_record_states_its_version_and_its_kind_when_written(record):
    written = to_json(record)
    assert written["schema_version"] == "0.2.0"
    assert RECORD_TYPES[written["record_type"]] is type(record)


@given(st.sampled_from([kind for kinds in CORE_OBJECTS.values() for kind in kinds]).flatmap(records))
def test_what_is_written_reads_back_as_the_same_record(record):
    assert read(write(record), type(record)) == record


def test_an_absent_field_is_left_out_and_a_null_value_is_kept():
    call = ToolInvocation(invocation_id="i", tool_id="t", status="planned", created_at="now", model_input=None)
    written = to_json(call)
    assert written["model_input"] is None
    assert "call_input" not in written
    assert "surface_id" not in written
