import pytest

from agenttool.conformance.validate.spelling import in_todays_words


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
    assert in_todays_words("tool_invocation", call).members is call


def test_the_members_of_a_transition_have_no_official_name_and_are_read_under_any():
    call = {
        "status_transitions": [{"to": "running", "timestamp": "t"}, {"to": "failed", "status": "x", "time": "u"}, 7]
    }
    assert in_todays_words("tool_invocation", call).members["status_transitions"] == [
        {"status": "running", "at": "t"},
        {"to": "failed", "status": "x", "at": "u"},
        7,
    ]
