"""Records are frozen and strict; enums are closed or open."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import records

from agenttool.codec import read, to_json, write
from agenttool.errors import RecordError
from agenttool.records import (
    CORE_OBJECTS,
    RECORD_TYPES,
    AccessKind,
    ClosedEnum,
    ErrorClass,
    EventType,
    InvocationStatus,
    OpenEnum,
    ResultStatus,
    ToolInvocation,
    ToolKind,
    ToolSurface,
    WriteEffect,
)


def test_an_open_list_keeps_a_value_it_does_not_know():
    kind = ToolKind("quantum_oracle")
    assert kind == "quantum_oracle"
    assert not kind.is_listed
    assert ToolKind.FUNCTION.is_listed


def test_an_unknown_value_is_not_remembered():
    ToolKind("seen_once")
    assert "seen_once" not in [member.value for member in ToolKind]
    assert not ToolKind("seen_once").is_listed


def test_a_value_that_is_no_word_is_refused_by_an_open_list_too():
    with pytest.raises(ValueError, match="5"):
        ToolKind(5)


@pytest.mark.requirement("AT-VER-07")
@pytest.mark.parametrize("listing", OpenEnum.__subclasses__())
def test_every_open_list_tolerates_an_unlisted_value(listing):
    assert listing("nobody_listed_this") == "nobody_listed_this"


@pytest.mark.requirement("AT-VER-07")
def test_an_unknown_value_is_never_read_as_success_permission_or_an_end():
    assert ResultStatus("splendid").is_error
    assert not InvocationStatus("splendid").is_terminal
    assert not EventType("tool.invocation.splendid").is_terminal
    assert not WriteEffect("splendid").is_harmless
    assert not ErrorClass("splendid").is_listed
    assert not AccessKind("splendid").is_listed


def test_a_closed_list_refuses_a_value_it_does_not_know():
    surface = b'{"schema_version":"0.2.0","surface_id":"s","scope":"turn","deferred_tools":[%s]}'
    entry = b'{"tool_id":"t","name":"n","loading_state":"%s"}'
    assert read(surface % (entry % b"deferred"), ToolSurface).deferred_tools
    with pytest.raises(RecordError) as refused:
        read(surface % (entry % b"dreaming"), ToolSurface)
    assert refused.value.pointer == "/deferred_tools/0/loading_state"


def test_an_unknown_value_is_written_as_it_came():
    line = b'{"record_type":"tool_surface","schema_version":"0.2.0","surface_id":"s","scope":"galaxy"}'
    assert write(read(line, ToolSurface)) == line


def test_no_list_is_both_open_and_closed():
    assert not set(OpenEnum.__subclasses__()) & set(ClosedEnum.__subclasses__())


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
