"""Records of other programs are recognised by name, by members, and in older spellings."""

import pytest

from agenttool.conformance.validate.foreign_records import ID_MEMBERS, id_of, in_current_spelling, kind_of
from agenttool.records import RECORD_TYPES


@pytest.mark.parametrize("kind", RECORD_TYPES)
def test_a_kind_is_recognized_by_its_members_as_well_as_by_its_own_word(record, kind):
    assert kind_of(record(kind)) == kind
    assert kind_of({"record_type": kind}) == kind


@pytest.mark.parametrize("kind", sorted(ID_MEMBERS))
def test_the_id_of_a_record_is_in_the_member_of_its_kind(record, kind):
    assert id_of(kind, record(kind)) == record(kind)[ID_MEMBERS[kind]]


@pytest.mark.parametrize(
    ("members", "kind"),
    [
        ({"event_type": "x"}, "tool_event"),
        ({"hook_event": "x"}, "tool_hook"),
        ({"invocation_id": "i", "is_error": True}, "tool_result"),
        ({"invocation_id": "i", "surface_id": "s"}, "tool_invocation"),
        ({"invocation_id": "i", "behavior": "ask"}, "tool_permission_decision"),
        ({"decision_id": "d", "result_id": "r"}, "tool_result_persistence"),
        ({"tool_id": "t", "input_contract": {}}, "tool_declaration"),
    ],
)
def test_a_record_that_lost_its_id_is_still_recognized_by_what_no_other_has(members, kind):
    assert kind_of(members) == kind


@pytest.mark.parametrize("name", ["tool_thing", "", None, 7, ["tool_event"], {}])
def test_a_name_that_no_kind_has_is_refused_with_the_list_of_those_that_one_has(validated, name):
    (finding,) = validated([{"record_type": name, "event_id": "e"}])
    assert (finding.pointer, finding.requirement) == ("/record_type", "AT-MODEL-02")
    assert all(kind in finding.expected for kind in RECORD_TYPES)


@pytest.mark.parametrize("members", [{}, {"a": 1}, {"name": "x"}, {"decision_id": "d"}])
def test_a_document_that_could_be_anything_is_a_finding(check, members):
    assert check(members) == [("error", "", "AT-MODEL-02")]


@pytest.mark.parametrize("document", [b"[[1]]", b"7", b"null", b'"text"'])
def test_a_document_that_is_no_object_is_a_finding(validated, document):
    (finding,) = validated(document)
    assert finding.severity == "error"


@pytest.mark.requirement("AT-VER-04")
@pytest.mark.parametrize(
    ("kind", "old", "pointer"),
    [
        ("tool_invocation", {"arguments": {"path": "a"}}, "/arguments"),
        ("tool_invocation", {"arguments_ref": "ref_1"}, "/arguments_ref"),
        ("tool_declaration", {"input_contract": {"schema": {"type": "object"}}}, "/input_contract/schema"),
        ("tool_surface", {"deferred_tools": ["tool_far"]}, None),
    ],
)
def test_a_record_of_the_older_draft_is_read_with_warnings_only(check, record, kind, old, pointer):
    found = check(record(kind, schema_version="0.1.3", **old))
    warned = [("warning", pointer, "AT-VER-04")] if pointer else []
    assert found == [*warned, ("warning", "/schema_version", "AT-VER-04")]


def test_an_old_member_is_judged_by_what_it_means_and_reported_by_how_it_is_written(check, record):
    declaration = record("tool_declaration", input_contract={"schema": {"type": "nonsense"}})
    assert ("error", "/input_contract/schema", "AT-IO-01") in check(declaration)
    declaration = record("tool_declaration", input_contract={"sensitive_fields": ["password"]})
    call = record("tool_invocation", arguments={"password": "s3cret"})
    for order in ([declaration, call], [call, declaration]):
        assert ("error", "/arguments/password", "AT-IO-06") in check(*order)


def test_todays_spelling_comes_back_untouched(record):
    call = record("tool_invocation", model_input={"a": 1}, status_transitions=[{"status": "running"}])
    assert in_current_spelling("tool_invocation", call)[0] is call


def test_the_members_of_a_transition_have_no_official_name_and_are_read_under_any():
    call = {
        "status_transitions": [{"to": "running", "timestamp": "t"}, {"to": "failed", "status": "x", "time": "u"}, 7]
    }
    assert in_current_spelling("tool_invocation", call)[0]["status_transitions"] == [
        {"status": "running", "at": "t"},
        {"to": "failed", "status": "x", "at": "u"},
        7,
    ]
