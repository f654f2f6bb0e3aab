import pytest

from agenttool import records
from agenttool.conformance.ledger import find_requirement
from agenttool.conformance.validate.sense.open_lists import ROWS
from agenttool.records import OpenEnum, ToolKind

OPEN_LISTS = {each for each in vars(records).values() if isinstance(each, type) and issubclass(each, OpenEnum)} - {
    OpenEnum
}

PLACES = [
    ("tool_declaration", {"tool_kind": "X"}, "/tool_kind", "AT-DECL-18"),
    ("tool_declaration", {"input_contract": {"argument_mode": "X"}}, "/input_contract/argument_mode", "AT-IO-08"),
    (
        "tool_declaration",
        {"output_contract": {"content_types": ["X"]}},
        "/output_contract/content_types/0",
        "AT-RES-03",
    ),
    ("tool_execution_profile", {"execution_kind": "X"}, "/execution_kind", "AT-EXEC-02"),
    ("tool_permission_profile", {"access_kinds": ["network", "X"]}, "/access_kinds/1", "AT-PERM-03"),
    ("tool_permission_profile", {"write_effects": ["X"]}, "/write_effects/0", "AT-PERM-04"),
    ("tool_surface", {"scope": "X"}, "/scope", "AT-SURF-03"),
    ("tool_surface", {"blocked_tools": [{"reason": "X"}]}, "/blocked_tools/0/reason", "AT-SURF-11"),
    ("tool_surface", {"excluded_tools": [{"reason": "X"}]}, "/excluded_tools/0/reason", "AT-SURF-11"),
    ("tool_search_result", {"query_type": "X"}, "/query_type", "AT-DEFER-12"),
    ("tool_search_result", {"next_action": "X"}, "/next_action", "AT-DEFER-12"),
    ("tool_invocation", {"status": "X"}, "/status", "AT-INV-07"),
    ("tool_invocation", {"scheduler": {"state": "X"}}, "/scheduler/state", "AT-SCHED-11"),
    ("tool_hook", {"outputs": [{"type": "X"}]}, "/outputs/0/type", "G-25"),
    ("tool_permission_decision", {"reason": {"type": "X"}}, "/reason/type", "AT-PERM-19"),
    ("tool_permission_decision", {"reason": {"rule_source": "X"}}, "/reason/rule_source", "AT-PERM-20"),
    ("tool_permission_decision", {"content_blocks": [{"type": "X"}]}, "/content_blocks/0/type", "AT-RES-03"),
    ("tool_progress", {"status": "X"}, "/status", "AT-PROG-05"),
    ("tool_result", {"content": [{"type": "X"}]}, "/content/0/type", "AT-RES-03"),
    ("tool_result", {"abort_reason": "X"}, "/abort_reason", "AT-PROG-09"),
    ("tool_result", {"redaction_state": "X"}, "/redaction_state", "G-55"),
    ("tool_event", {"event_type": "X"}, "/event_type", "AT-EVT-02"),
]


@pytest.mark.parametrize(("kind", "members", "pointer", "row"), PLACES)
def test_an_unlisted_word_is_a_warning_wherever_it_stands(check, record, kind, members, pointer, row):
    assert check(record(kind, **members)) == [("warning", pointer, row)]


def test_an_unlisted_error_class_is_a_warning_and_so_is_an_unlisted_status(check, record):
    error = {"error_class": "oops", "error_code": "c", "message": "m", "recoverability": "retryable"}
    assert check(record("tool_result", status="failed", is_error=True, error=error)) == [
        ("warning", "/error/error_class", "AT-ERR-02")
    ]
    assert check(record("tool_result", status="maybe", is_error=True, error=error)) == [
        ("warning", "/status", "AT-RES-04"),
        ("warning", "/error/error_class", "AT-ERR-02"),
    ]


def test_the_nearest_word_is_offered(validated, record):
    (finding,) = validated([record("tool_declaration", tool_kind="shell_comand")])
    assert finding.advice == "write 'shell_command', if that is meant"
    assert "'shell_comand'" in finding.message


def test_a_word_that_may_be_a_secret_is_not_repeated(validated, record):
    for secret in ("hunter2", "correct horse", "s" * 50):
        (finding,) = validated([record("tool_declaration", tool_kind=secret)])
        assert secret not in repr(finding)


def test_every_open_list_has_a_row_of_the_ledger_or_an_entry_of_the_gaps():
    assert set(ROWS) == OPEN_LISTS
    assert all(row.startswith("G-") or find_requirement(row) for row in ROWS.values())


@pytest.mark.parametrize("kind", ToolKind)
def test_a_listed_word_is_well(check, record, kind):
    assert check(record("tool_declaration", tool_kind=kind)) == []
