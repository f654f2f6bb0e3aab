import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import records_with_unknown_members

from agenttool.codec import from_json, read_any, to_json, write
from agenttool.errors import RecordError
from agenttool.records import RECORD_TYPES, McpMapping, NativeMapping, ToolResult, replace

FOREIGN = {
    "record_type": "tool_result",
    "schema_version": "0.2.0",
    "result_id": "r",
    "invocation_id": "i",
    "status": "succeeded",
    "content": [],
    "structured_content": None,
    "artifact_refs": [{"id": "a", "owner": {"team": 7}}, {"id": "b"}],
    "error": {"error_class": "timeout", "severity": None},
    "external_mappings": [
        {"source": "mcp", "isError": False, "_meta": {"k": 1}, "vendor": [1, 2]},
        {"source": "carrier_pigeon", "ring": "GB-17"},
    ],
    "created_at": "2026-05-08T00:00:00Z",
    "x-acme": {"tier": "gold"},
    "not an identifier!": True,
    "__class__": "sneaky",
}


@pytest.mark.requirement("AT-VER-02")
def test_unknown_members_survive_a_round_trip_on_every_level():
    record = read_any(write(from_json(FOREIGN, ToolResult)))
    assert isinstance(record, ToolResult)
    assert to_json(record) == FOREIGN


@pytest.mark.requirement("AT-VER-02")
@given(st.sampled_from(list(RECORD_TYPES.values())).flatmap(records_with_unknown_members))
def test_a_record_of_any_kind_keeps_what_it_does_not_know(record):
    members = to_json(record)
    assert any(name.startswith("x-") for name in members)
    assert to_json(read_any(write(record))) == members


def test_unknown_members_survive_a_change_of_a_known_one():
    changed = replace(from_json(FOREIGN, ToolResult), summary="later")
    assert to_json(changed) == {**FOREIGN, "summary": "later"}


def test_a_part_carries_its_unknown_members_into_another_record():
    error = from_json(FOREIGN, ToolResult).error
    moved = ToolResult(result_id="r2", invocation_id="i", status="failed", error=error, created_at="t")
    assert to_json(moved)["error"] == FOREIGN["error"]


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\x00b", "a\nb"])
def test_a_name_that_cannot_be_preserved_is_refused_rather_than_lost(name):
    with pytest.raises(RecordError, match="may not be named"):
        from_json({**FOREIGN, name: 1}, ToolResult)


def test_records_with_the_same_unknown_members_are_equal():
    assert from_json(FOREIGN, ToolResult) == from_json(FOREIGN, ToolResult)


@pytest.mark.requirement("AT-DECL-25")
def test_a_mapping_from_a_source_without_a_shape_keeps_its_source_and_its_words():
    mcp, pigeon = from_json(FOREIGN, ToolResult).external_mappings
    assert isinstance(mcp, McpMapping)
    assert isinstance(pigeon, NativeMapping)
    assert to_json(pigeon) == {"source": "carrier_pigeon", "ring": "GB-17"}


def test_a_flood_of_unknown_names_leaves_nothing_behind():
    before = len(ToolResult.__subclasses__())
    for number in range(300):
        from_json({**FOREIGN, f"x-{number}": 1}, ToolResult)
    gc.collect()
    assert len(ToolResult.__subclasses__()) <= before + 1
