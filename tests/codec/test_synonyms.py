import pytest

from agenttool.codec import from_json, read, to_json
from agenttool.records import ToolDeclaration, ToolInvocation, ToolSurface

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


def test_where_both_spellings_stand_todays_counts_and_the_old_one_is_kept():
    both = to_json(from_json({**CALL, "arguments": 1, "model_input": 2}, ToolInvocation))
    assert both["model_input"] == 2
    assert both["arguments"] == 1
