"""Records are decoded, also those of other programs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import json_values, records

from agenttool.codec import from_json, parse_value, read, read_any, to_json, write
from agenttool.errors import RecordError
from agenttool.records import (
    RECORD_TYPES,
    ToolDeclaration,
    ToolEvent,
    ToolInvocation,
    ToolNamespace,
    ToolProgress,
    ToolResult,
    ToolSurface,
)

CALL = {"schema_version": "0.1.2", "invocation_id": "i", "tool_id": "t", "status": "planned", "created_at": "now"}


@pytest.mark.requirement("AT-VER-04")
def test_an_old_invocation_is_read_and_written_in_todays_spelling():
    assert to_json(from_json({**CALL, "arguments": {"path": "a"}, "arguments_ref": "r"}, ToolInvocation)) == {
        **CALL,
        "record_type": "tool_invocation",
        "schema_version": "0.2.0",
        "model_input": {"path": "a"},
        "model_input_ref": "r",
    }


@pytest.mark.requirement("AT-VER-04")
def test_an_old_input_contract_is_read():
    old = {
        "schema_version": "0.1.0",
        "tool_id": "t",
        "namespace": "n",
        "name": "m",
        "description": "d",
        "lifecycle": "available",
        "tool_kind": "function",
        "input_contract": {"schema": {"type": "object"}},
    }
    assert from_json(old, ToolDeclaration).input_contract.model_input_schema == {"type": "object"}


@pytest.mark.requirement("AT-VER-04")
def test_an_old_surface_may_name_its_deferred_tools():
    line = b'{"schema_version":"0.1.0","surface_id":"s","scope":"turn","deferred_tools":["tool_a","tool_b"]}'
    assert read(line, ToolSurface).deferred_tools == ("tool_a", "tool_b")


def test_with_both_spellings_the_current_one_counts_and_the_old_one_is_preserved():
    both = to_json(from_json({**CALL, "arguments": 1, "model_input": 2}, ToolInvocation))
    assert both["model_input"] == 2
    assert both["arguments"] == 1


@given(st.sampled_from(list(RECORD_TYPES.values())).flatmap(records))
def test_a_record_is_read_by_the_kind_it_names(record):
    assert read_any(write(record)) == record


@pytest.mark.parametrize(
    ("line", "pointer"),
    [
        (b'{"record_type":"tool_surface","surface_id":"s","scope":5}', "/scope"),
        (b'{"record_type":"tool_surface","surface_id":"s","scope":"x","blocked_tools":[{"name":9}]}', "/blocked_tools/0/name"),
        (b'{"record_type":"deferred_tool_ref","tool_id":"t","name":"n","loading_state":"gone"}', "/loading_state"),
        (b'{"record_type":"tool_symphony"}', "/record_type"),
        (b'{"namespace":"n"}', "/record_type"),
        (b'{"record_type":"tool_namespace"}', ""),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_its_place(line, pointer):
    with pytest.raises(RecordError) as refused:
        read_any(line)
    assert refused.value.pointer == pointer


@pytest.mark.parametrize(
    "rubbish",
    [b"", b"{", b"null", b"3", b'"text"', b"[1,2]", b"\xff\xfe", b'{"a":"\xff"}', b"[" * 100_000, b'{"a":' * 100_000,
     b'{"record_type":"tool_namespace","namespace":"\\ud800"}', b'{"record_type":["x"]}', b"\x00" * 100],
    ids=range(13),
)  # fmt: skip
def test_rubbish_is_refused_with_a_sentence(rubbish):
    for attempt in (lambda: read_any(rubbish), lambda: read(rubbish, ToolNamespace)):
        with pytest.raises(RecordError) as refused:
            attempt()
        assert "; " in str(refused.value)


@given(st.binary(max_size=40))
def test_bytes_of_any_sort_give_a_record_or_a_record_error(data):
    with pytest.raises(RecordError):
        read_any(data)


@given(json_values())
def test_json_of_any_sort_gives_a_record_or_a_record_error(value):
    try:
        from_json(value, ToolEvent)
    except RecordError:
        return
    assert isinstance(value, dict)


def test_a_record_of_another_kind_is_refused():
    with pytest.raises(RecordError) as refused:
        read(b'{"record_type":"tool_event","namespace":"n"}', ToolNamespace)
    assert refused.value.pointer == "/record_type"


def test_a_record_needs_no_record_type_where_its_kind_is_known():
    assert read(b'{"schema_version":"0.2.0","namespace":"n"}', ToolNamespace) == ToolNamespace(namespace="n")


def test_a_whole_number_may_be_a_number_and_a_share_stays_within_its_bounds():
    line = b'{"progress_id":"p","invocation_id":"i","sequence":1,"status":"running","timestamp":"t","percent":40}'
    assert read(line, ToolProgress).percent == 40


def test_an_error_may_state_no_time_for_a_retry():
    line = {"result_id": "r", "invocation_id": "i", "status": "denied", "created_at": "t",
            "error": {"error_class": "permission_denied", "retry_after": None}}  # fmt: skip
    assert to_json(from_json(line, ToolResult))["error"] == line["error"]


def test_a_value_that_is_no_object_is_read_as_what_it_is_and_nothing_may_follow_it():
    assert parse_value('[1, {"a": null}]') == [1, {"a": None}]
    with pytest.raises(RecordError, match="it must be JSON"):
        parse_value('1,"value":2', what="it")
