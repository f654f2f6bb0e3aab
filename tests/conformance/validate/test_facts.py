import pytest

from agenttool.conformance.validate.facts import Facts, key_of
from agenttool.errors import StoreError


def test_rows_are_there_when_they_are_asked_for_however_few_they_are():
    with Facts() as facts:
        facts.add("progress", (1, "inv_1", 7))
        assert list(facts.ask("SELECT * FROM progress")) == [(1, "inv_1", 7)]


def test_a_record_is_found_by_its_number():
    with Facts() as facts:
        file = facts.add_file("a.jsonl")
        facts.add("records", (1, file, 12, 0, "files", 5))
        origin = facts.origin(1)
        assert (origin.file, origin.line, origin.record_type, origin.record_id) == (
            "a.jsonl",
            12,
            "tool_namespace",
            "files",
        )


def test_a_database_that_fails_is_a_failure_of_ours():
    facts = Facts()
    facts.add("progress", (1, "inv_1", 7))
    facts._database.close()
    with pytest.raises(StoreError, match="TMPDIR"):
        list(facts.ask("SELECT 1"))


def test_a_name_that_is_too_long_is_remembered_by_its_digest():
    assert key_of("inv_1") == "inv_1"
    assert key_of("x" * 1000).startswith("sha256:")
    assert key_of("x" * 1000) != key_of("x" * 1001)
