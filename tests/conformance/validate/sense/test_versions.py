import pytest

from agenttool.records import RECORD_TYPES


@pytest.mark.parametrize("kind", RECORD_TYPES)
def test_every_record_says_its_version_to_the_letter(check, record, kind):
    row = "AT-DECL-02" if kind == "tool_declaration" else "AT-VER-01"
    for version in ("0.2", "0.2.1", "1.0.0", "", "0.2.0 "):
        assert check(record(kind, record_type=kind, schema_version=version)) == [("error", "/schema_version", row)]


def test_a_deferred_ref_within_a_surface_says_it_too(check, record):
    ref = record("deferred_tool_ref")
    bare = record("deferred_tool_ref", without=["schema_version"])
    old = record("deferred_tool_ref", schema_version="0.1.0")
    assert check(record("tool_surface", deferred_tools=[ref, bare, "tool_x", old])) == [
        ("warning", "/deferred_tools/1/schema_version", "AT-VER-01"),
        ("warning", "/deferred_tools/3/schema_version", "AT-VER-01"),
    ]
