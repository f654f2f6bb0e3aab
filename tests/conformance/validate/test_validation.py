"""A set of files is validated as a whole, whatever the bytes."""

import io
import json
import resource
import sqlite3

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from requirement_marks import find_requirement

from agenttool.conformance.validate.validation import Validation
from agenttool.errors import StoreError
from agenttool.records import RECORD_TYPES

# Every example of the draft that breaks the draft: the first id in it, and what is wrong (G-68).
BROKEN_EXAMPLES = {
    "tool_shell_exec": [("error", "/description", "AT-DECL-01"), ("error", "/lifecycle", "AT-DECL-11")],
    "surface_turn_42": [("warning", "/deferred_tools/0/schema_version", "AT-VER-01")],
    "result_write_secret": [("warning", "/error/error_code", "AT-ERR-01"), ("warning", "/error/message", "AT-ERR-01")],
    "persist_grep_01": [("error", "/persisted_ref/digest", "AT-REF-03")],
    "inv_read_a": [
        ("error", "/schema_version", "AT-INV-01"),
        ("error", "/created_at", "AT-INV-01"),
        ("error", "/schema_version", "AT-INV-01"),
        ("error", "/created_at", "AT-INV-01"),
    ],
}
WELL = ["tool_web_search", "select:mcp__github__search_issues", "perm_01HZ", "result_grep_big", "sched_parallel_reads"]


def first_name(document):
    members = document[0] if isinstance(document, list) else document
    return next(value for name, value in members.items() if name != "schema_version")


def test_the_examples_of_the_draft_break_the_draft_exactly_where_we_know(standard, validated, lines):
    found = {}
    for example in json.loads((standard / "examples.json").read_text()):
        findings = validated(lines(example if isinstance(example, list) else [example]))
        wrong = [(each.severity.value, each.pointer, each.requirement) for each in findings]
        found[first_name(example)] = wrong
    assert {name: wrong for name, wrong in found.items() if wrong} == BROKEN_EXAMPLES
    assert sorted(name for name, wrong in found.items() if not wrong) == sorted(WELL)


@pytest.mark.requirement("AT-VER-07")
@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("tool_declaration", {"tool_kind": "unheard_of"}),
        ("tool_execution_profile", {"execution_kind": "unheard_of"}),
        ("tool_invocation", {"status": "unheard_of"}),
        ("tool_event", {"event_type": "tool.unheard.of"}),
        ("tool_permission_decision", {"reason": {"type": "unheard_of"}}),
    ],
)
def test_an_unlisted_word_is_tolerated_with_a_warning(check, record, kind, members):
    assert [severity for severity, _, _ in check(record(kind, **members))] == ["warning"]


@pytest.mark.requirement("AT-VER-07")
def test_an_unlisted_word_is_never_read_as_success(check, record):
    error = {"error_class": "unheard_of", "error_code": "c", "message": "m", "recoverability": "retryable"}
    assert ("error", "/is_error", "AT-VER-07") in check(record("tool_result", status="unheard_of", error=error))
    call = record(
        "tool_invocation", status="unheard_of", status_transitions=[{"status": "failed"}, {"status": "unheard_of"}]
    )
    assert ("error", "/status_transitions/1", "AT-INV-13") in check(call)


def test_the_figures_count_what_was_read(record, lines):
    with Validation() as validation:
        text = lines([record("tool_event"), record("tool_event"), record("tool_result", status="odd")]) + b"{"
        findings = list(validation.read("a", io.BytesIO(text)))
        summary = validation.summary
    assert summary.records == {"tool_event": 2, "tool_result": 1}
    assert (summary.files, summary.bytes, summary.unreadable) == (1, len(text), 1)
    assert summary.errors + summary.warnings == len(findings) > 0


def test_a_finding_names_its_file_and_the_line_its_document_starts_on(validated, record):
    wrong = json.dumps(record("tool_event", time="now"), indent=2).encode()
    line = wrong.replace(b"\n", b"")
    found = validated(b"\n\n" + wrong, line + b"\n" + line)
    assert [(each.file, each.line) for each in found] == [("a", 3), ("b", 1), ("b", 2)]


def test_findings_come_one_by_one_and_are_not_stored(record):
    wrong = json.dumps(record("tool_event", event_type="odd")).encode() + b"\n"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with Validation() as validation:
        assert sum(1 for _ in validation.read("a", io.BytesIO(wrong * 20_000))) == 20_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000


def test_no_two_questions_are_asked_twice_as_long_for_twice_as_many(record, lines):
    calls = [record("tool_invocation", x=n) for n in range(400)]
    results = [record("tool_result", result_id=f"r{n}", status="failed") for n in range(400)]
    with Validation() as validation:
        list(validation.read("a", io.BytesIO(lines(calls + results))))
        assert sum(1 for _ in validation.conclude()) < 3 * 800


ANY_FIXTURE = [*settings.default.suppress_health_check, HealthCheck.function_scoped_fixture]


@settings(suppress_health_check=ANY_FIXTURE)
@given(st.binary(max_size=200) | st.text(st.sampled_from('{}[]",:\\n0123 \n\tatuef-+.')).map(str.encode))
def test_no_bytes_raise_and_every_requirement_that_is_cited_exists(validated, data):
    for finding in validated(data):
        assert finding.requirement is None or find_requirement(finding.requirement)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("2026-05-08T00:00:00Z"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(suppress_health_check=ANY_FIXTURE)
@given(st.sampled_from(sorted(RECORD_TYPES)), st.data())
def test_a_record_that_was_changed_anywhere_never_raises(validated, record, kind, data):
    members = list(RECORD_TYPES[kind].__struct_encode_fields__)
    changes = data.draw(st.dictionaries(st.sampled_from(members), JSON, min_size=1, max_size=4))
    nested = data.draw(st.dictionaries(st.sampled_from(NESTED), JSON, max_size=3))
    text = json.dumps({"record_type": kind, **record(kind), **nested, **changes})
    cut = data.draw(st.none() | st.integers(0, len(text)))
    for finding in validated(text[:cut].encode()):
        assert (
            finding.requirement is None or finding.requirement.startswith("G-") or find_requirement(finding.requirement)
        )


NESTED = [
    "status_transitions",
    "error",
    "content",
    "input_contract",
    "loaded_tools",
    "deferred_tools",
    "digest",
    "data",
]


PLANTED = "Xq7 planted-secret 42"


@pytest.mark.parametrize("kind", RECORD_TYPES)
def test_no_finding_repeats_a_value_of_a_record(validated, record, kind):
    within = dict.fromkeys(("type", "status", "reason", "digest", "at"), PLANTED)
    values = (PLANTED, [PLANTED], within, [within])
    names = RECORD_TYPES[kind].__struct_encode_fields__
    found = validated([{**record(kind), name: value, "record_type": kind} for name in names for value in values])
    assert found
    assert PLANTED not in repr(found)


def test_a_name_of_a_file_may_be_any_bytes(record, lines):
    with Validation() as validation:
        (finding,) = validation.read("caf\udce9", io.BytesIO(lines([record("tool_event", time="now")])))
    assert finding.file.encode() == b"caf?"


def test_an_index_that_cannot_be_written_ends_the_run_with_advice():
    with pytest.raises(StoreError, match=r"disk is full.*TMPDIR"), Validation():
        raise sqlite3.OperationalError("database or disk is full")
