"""Records of a set are checked against each other."""

import pytest

from agenttool.codec import digest_of
from agenttool.records import OUTCOMES

ERROR = {"error_code": "c", "message": "m", "recoverability": "not_recoverable"}


def reported(record, status, result_status, event_type, error_class=None, name="1"):
    error = {"error": {"error_class": error_class, **ERROR}} if error_class else {}
    is_error = result_status not in ("succeeded", "partial_succeeded")
    return [
        record("tool_invocation", invocation_id=f"inv_{name}", status=status),
        record(
            "tool_result",
            result_id=f"res_{name}",
            invocation_id=f"inv_{name}",
            status=result_status,
            is_error=is_error,
            abort_reason="timeout",
            **error,
        ),
        record(
            "tool_event",
            event_id=f"evt_{name}",
            event_type=event_type,
            invocation_id=f"inv_{name}",
            tool_id="tool_read",
        ),
    ]


GOOD = ("succeeded", "succeeded", "tool.invocation.succeeded")


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: outcome.name)
def test_every_way_to_end_in_the_table_is_well(check, record, outcome):
    for error_class in outcome.error_classes or (None,):
        ended = outcome.invocation_status, outcome.result_status, outcome.terminal_event
        assert check(*reported(record, *ended, error_class)) == []


def test_the_three_record_the_same_end(check, record):
    found = check(*reported(record, "failed", "succeeded", "tool.invocation.canceled"))
    assert found == [("error", "/status", "G-09"), ("error", "/event_type", "AT-EVT-12")]


def test_a_call_ends_once(check, record):
    call, result, event = reported(record, *GOOD)
    again = [result | {"result_id": "res_2"}, event | {"event_id": "evt_2"}]
    assert check(call, result, event, result, event, *again) == [
        ("error", "/invocation_id", "AT-RES-11"),
        ("error", "/invocation_id", "AT-EVT-12"),
    ]


def test_a_finished_call_has_a_result_and_a_terminal_event(check, record):
    other = reported(record, *GOOD, name="2")
    call, result, event = reported(record, *GOOD)
    assert check(*other, call, event) == [("error", "", "AT-RES-11")]
    assert check(*other, call, result) == [("error", "", "AT-EVT-12")]
    assert check(*other, call | {"status": "running"}) == []


def test_without_any_result_or_terminal_event_their_absence_says_nothing(check, record):
    assert check(record("tool_invocation", status="failed"), record("tool_event")) == []


def test_a_call_that_continues_although_it_ended_is_a_warning(check, record):
    assert check(*reported(record, "running", *GOOD[1:])) == [
        ("warning", "/invocation_id", "AT-INV-13"),
        ("warning", "/invocation_id", "AT-INV-13"),
    ]


def test_of_a_call_that_was_recorded_twice_the_last_record_counts(check, record):
    _, result, event = reported(record, *GOOD)
    states = [record("tool_invocation", status=status) for status in ("running", "succeeded")]
    assert check(*states, result, event) == [("error", "/invocation_id", "AT-MODEL-01")]


def test_an_unlisted_status_is_not_compared(check, record):
    found = check(*reported(record, "done", "fine", "tool.invocation.succeeded", "execution_failed"))
    assert {row for _, _, row in found} == {"AT-INV-07", "AT-RES-04"}


GIVEN, EDITED = {"path": "a"}, {"path": "b"}
OTHER = [("error", "/input_digest", "AT-PERM-14")]


def both(check, *records):
    """Ask twice: whichever comes first, the answer is the same."""
    found = check(*records)
    assert sorted(check(*reversed(records))) == sorted(found)
    return found


def decided(record, behavior="allow", name="1", second=0, **members):
    time = f"2026-05-08T00:00:{second:02}Z"
    return record("tool_permission_decision", decision_id=f"dec_{name}", behavior=behavior, decided_at=time, **members)


def test_a_decision_is_about_the_input_of_its_call(check, record):
    call = record("tool_invocation", permission_input=GIVEN, call_input=EDITED)
    assert both(check, call, decided(record, input_digest=digest_of(GIVEN))) == []
    assert both(check, call, decided(record, input_digest=digest_of(EDITED))) == OTHER
    assert both(check, call, decided(record, input_digest=digest_of(EDITED), user_modified=True)) == []
    assert both(check, call, decided(record, input_digest=digest_of(GIVEN), user_modified=True)) == OTHER


@pytest.mark.parametrize("given", [{"key": "[redacted]"}, {"keys": [{"redacted": True}]}, {"n": 1 << 60}])
def test_an_input_that_is_not_there_as_it_was_is_not_compared(check, record, given):
    assert (
        both(check, record("tool_invocation", permission_input=given), decided(record, input_digest=digest_of(1))) == []
    )


def test_nothing_is_a_value_that_can_be_compared(check, record):
    call = record("tool_invocation", permission_input={"a": None, "b": ""})
    assert both(check, call, decided(record, input_digest=digest_of(GIVEN))) == OTHER


def test_an_earlier_decision_may_be_about_an_earlier_input(check, record):
    call = record("tool_invocation", permission_input=GIVEN, call_input=EDITED)
    question = decided(record, "ask", input_digest=digest_of({"path": "before"}))
    answer = decided(record, name="2", second=1, input_digest=digest_of(EDITED), user_modified=True)
    assert both(check, call, question, answer) == []
    assert both(check, call, question, answer | {"user_modified": False}) == OTHER * 2


@pytest.mark.parametrize("status", ["running", "succeeded", "approved"])
def test_what_was_denied_last_does_not_run(check, record, status):
    call = record("tool_invocation", status=status)
    first, second = decided(record, "ask"), decided(record, "deny", "2", 1)
    assert both(check, call, first, second) == [("error", "/status", "AT-PERM-17")]
    assert both(check, call, first, second, decided(record, "allow", "3", 2)) == []
    assert both(check, call | {"status": "denied"}, first, second) == []


def test_at_one_moment_the_list_of_the_call_shows_which_was_last(check, record):
    denied, allowed = decided(record, "deny"), decided(record, "allow", "2")
    call = record("tool_invocation", status="succeeded")
    assert both(check, call, denied, allowed) == []
    assert both(check, call | {"permission_decision_refs": ["dec_1", "dec_2"]}, denied, allowed) == []
    assert both(check, call | {"permission_decision_refs": ["dec_2", "dec_1"]}, denied, allowed) == [
        ("error", "/status", "AT-PERM-17")
    ]


def test_a_call_lists_decisions_about_itself(check, record):
    call = record("tool_invocation", permission_decision_refs=["dec_1", "dec_2"])
    other = record("tool_invocation", invocation_id="inv_2")
    mine, foreign = decided(record), decided(record, name="2", invocation_id="inv_2")
    assert both(check, call, other, mine, foreign) == [("error", "/permission_decision_refs/1", "AT-PERM-27")]


def test_an_event_names_the_tool_of_its_call(check, record):
    event = record("tool_event", event_type="tool.invocation.started", invocation_id="inv_1", tool_id="tool_read")
    assert both(check, record("tool_invocation"), event) == []
    wrong = event | {"tool_id": "tool_write"}
    assert both(check, record("tool_invocation"), wrong) == [("error", "/tool_id", "AT-EVT-02")]


def updates(record, *sequences, call="inv_1"):
    return [
        record("tool_progress", progress_id=f"prg_{call}_{place}", invocation_id=call, sequence=sequence)
        for place, sequence in enumerate(sequences)
    ]


def test_progress_counts_without_gaps_in_whichever_order_it_is_written(check, record):
    assert check(*updates(record, 1, 2, 3)) == []
    assert check(*updates(record, 3, 1, 2)) == []


def test_a_gap_is_reported_where_it_ends(validated, record):
    first, second = validated(updates(record, 2, 3, 5))
    assert [(each.line, each.pointer, each.requirement) for each in (first, second)] == [
        (1, "/sequence", "AT-PROG-04"),
        (3, "/sequence", "AT-PROG-04"),
    ]
    assert first.expected == "the number 1"
    assert second.expected == "the number after that of a:2"


def test_a_number_is_used_once(check, record):
    assert check(*updates(record, 1, 2, 2)) == [("error", "/sequence", "AT-PROG-04")]
    one = updates(record, 1)
    assert check(*one, *one) == []


def test_each_call_counts_for_itself(check, record):
    assert check(*updates(record, 1, 2), *updates(record, 1, 2, call="inv_2")) == []


def test_a_number_is_the_same_however_it_is_spelled(check, record):
    assert check(*updates(record, 1, 2.0, 3)) == []
    assert check(*updates(record, 1, 1.0)) == [("error", "/sequence", "AT-PROG-04")]


def test_a_number_of_any_size_is_one(check, record):
    assert check(*updates(record, 1, (1 << 64) - 1)) == [("error", "/sequence", "AT-PROG-04")]


def test_a_reference_that_leads_nowhere_is_an_error(check, record):
    other = record("tool_invocation", invocation_id="inv_other", tool_id="tool_read")
    assert check(other, record("tool_result", invocation_id="inv_gone")) == [("error", "/invocation_id", "AT-MODEL-01")]


def test_a_reference_may_lead_forwards_or_backwards_or_into_another_file(validated, record):
    call = record("tool_invocation")
    result = record("tool_result")
    running = {"status": "succeeded"}
    assert validated([call | running, result]) == []
    assert validated([result, call | running]) == []
    assert validated([result], [call | running]) == []
    assert validated([call | running], [result]) == []


def test_a_kind_of_reference_is_not_checked_if_the_set_holds_no_record_of_that_kind(check, record):
    assert check(record("tool_result", persistence_refs=["prs_gone"]), record("tool_progress")) == []


def test_each_reference_is_reported_by_its_place_and_its_row(check, record):
    call = record(
        "tool_invocation",
        surface_id="gone",
        hook_refs=["hook_1", "gone"],
        permission_decision_refs=["gone"],
        scheduler_policy_ref="gone",
        retry_of="gone",
        input_mutation_refs=["gone"],
    )
    declaration = record("tool_declaration", interface_ref="gone", permission_profile_ref="perm_read")
    kinds = (
        "tool_surface",
        "tool_hook",
        "tool_permission_decision",
        "tool_scheduler_policy",
        "tool_input_mutation",
        "tool_interface",
        "tool_permission_profile",
    )
    assert sorted(check(call, declaration, *map(record, kinds))) == [
        ("error", "/hook_refs/1", "AT-HOOK-16"),
        ("error", "/input_mutation_refs/0", "AT-MODEL-01"),
        ("error", "/interface_ref", "AT-DECL-23"),
        ("error", "/permission_decision_refs/0", "AT-PERM-27"),
        ("error", "/retry_of", "AT-MODEL-01"),
        ("error", "/scheduler_policy_ref", "AT-INV-06"),
        ("error", "/surface_id", "AT-INV-02"),
    ]


def test_a_tool_that_was_never_found_need_not_be_declared(check, record):
    assert check(record("tool_declaration"), record("tool_invocation", tool_id="unresolved:frobnicate")) == []


def test_a_tool_that_is_only_deferred_blocked_excluded_or_found_need_not_be_declared(check, record):
    surface = record(
        "tool_surface",
        tool_refs=["tool_read"],
        loaded_tools=["tool_read"],
        blocked_tools=[{"tool_id": "gone"}],
        excluded_tools=[{"tool_id": "gone"}],
    )
    deferred = record("tool_surface", surface_id="srf_2", deferred_tools=[record("deferred_tool_ref")])
    found = record("tool_search_result", matches=["gone", {"tool_id": "gone"}])
    assert check(record("tool_declaration"), surface, deferred, found) == []


def test_the_loaded_tools_of_a_surface_are_declared(check, record):
    surface = record("tool_surface", tool_refs=["a", "b"], loaded_tools=["a", {"tool_id": "b"}])
    assert [pointer for _, pointer, _ in check(record("tool_declaration", tool_id="a"), surface)] == [
        "/tool_refs/1",
        "/loaded_tools/1",
    ]


def test_where_documents_could_not_be_read_a_missing_record_is_a_warning(validated, record, lines):
    calls = lines([record("tool_invocation", invocation_id="inv_2"), record("tool_result")])
    *_, finding = validated(calls + b'{"cut off')
    assert (finding.severity, finding.pointer) == ("warning", "/invocation_id")
    assert "could not be read (1)" in finding.advice


def test_a_missing_record_is_named_only_if_its_name_is_a_name(validated, record):
    call = record("tool_invocation", invocation_id="inv_2")
    named, secret = validated(
        [call, record("tool_result"), record("tool_result", result_id="r", invocation_id="my pass")]
    )
    assert "'inv_1'" in named.expected
    assert "my pass" not in repr(secret)


def test_ids_as_long_as_a_record_are_ids(check, record):
    long = "x" * 100_000
    call, result = record("tool_invocation", invocation_id=long), record("tool_result", invocation_id=long)
    assert check(call | {"status": "succeeded"}, result) == []
    assert check(call | {"status": "succeeded"}, result | {"invocation_id": long + "y"}) != []


def test_the_same_record_twice_is_no_harm_however_it_is_spelled(validated, record):
    result = record("tool_result")
    call = record("tool_invocation", status="succeeded")
    assert validated([call, result, dict(reversed(result.items())), call]) == []


def test_two_records_of_one_kind_do_not_share_an_id(validated, record):
    first, second = record("tool_event"), record("tool_event", source="another")
    (finding,) = validated([first], [first, second])
    assert (finding.file, finding.line, finding.pointer, finding.severity) == ("b", 2, "/event_id", "error")
    assert "a:1" in finding.expected


def test_two_kinds_may_share_an_id(check, record):
    assert (
        check(record("tool_permission_decision", decision_id="d"), record("tool_result_persistence", decision_id="d"))
        == []
    )


def test_what_describes_the_catalog_may_have_changed(check, record):
    changed = record("tool_declaration", description="Another one.")
    assert check(record("tool_declaration"), changed) == [("warning", "/tool_id", "AT-VER-03")]


def test_one_tool_may_be_deferred_in_many_ways(check, record):
    assert check(record("deferred_tool_ref"), record("deferred_tool_ref", loading_state="loaded")) == []
