"""Each record is checked on its own."""

import pytest

from agenttool.records import OUTCOMES, RECORD_TYPES, ErrorClass, InvocationStatus, ResultStatus, may_follow


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


@pytest.mark.parametrize(("kind", "member"), [("tool_invocation", "invocation_id"), ("tool_event", "event_id")])
def test_an_id_is_not_empty(check, record, kind, member):
    assert ("error", f"/{member}", "AT-MODEL-01") in check(record(kind, **{member: ""}))


@pytest.mark.parametrize(
    ("member", "value", "pointer"),
    [
        ("parent_invocation_id", "inv_1", "/parent_invocation_id"),
        ("retry_of", "inv_1", "/retry_of"),
        ("depends_on", ["inv_2", "inv_1"], "/depends_on/1"),
    ],
)
def test_a_call_does_not_lead_to_itself(check, record, member, value, pointer):
    other = record("tool_invocation", invocation_id="inv_2")
    assert check(other, record("tool_invocation", **{member: value})) == [("error", pointer, "AT-MODEL-01")]


@pytest.mark.parametrize("kind", ["tool_declaration", "tool_interface", "deferred_tool_ref"])
def test_a_search_hint_has_three_to_ten_words(check, record, kind):
    for words, wanted in ((2, 1), (3, 0), (10, 0), (11, 1), (0, 1)):
        found = check(record(kind, search_hint=" ".join(["word"] * words)))
        assert found == [("warning", "/search_hint", "AT-DECL-07")] * wanted


@pytest.mark.parametrize("sequence", [0, -1, -(1 << 63)])
def test_progress_counts_from_one(check, record, sequence):
    assert check(record("tool_progress", sequence=sequence)) == [("error", "/sequence", "AT-PROG-04")]


@pytest.mark.parametrize("percent", [-1, 100.5])
def test_a_percentage_is_one(check, record, percent):
    assert check(record("tool_progress", percent=percent)) == [("error", "/percent", "AT-PROG-01")]


@pytest.mark.parametrize("event_type", ["tool.invocation.started", "tool.hook.pre.started", "tool.result.created"])
def test_an_event_about_a_call_says_which_call_and_which_tool(check, record, event_type):
    assert check(record("tool_event", event_type=event_type)) == [
        ("warning", "/invocation_id", "AT-EVT-02"),
        ("warning", "/tool_id", "AT-EVT-02"),
    ]
    assert check(record("tool_event", event_type=event_type, invocation_id="i", tool_id="t")) == []


def test_an_event_about_something_else_need_not(check, record):
    assert check(record("tool_event", event_type="tool.surface.created")) == []


def test_tool_refs_has_every_tool_that_is_loaded_or_deferred_and_none_that_is_not(check, record):
    surface = record(
        "tool_surface",
        tool_refs=["a", "b", "c", "d"],
        loaded_tools=["a", {"tool_id": "b"}, "x"],
        deferred_tools=[record("deferred_tool_ref", tool_id="c"), record("deferred_tool_ref", tool_id="y")],
        blocked_tools=[{"tool_id": "d"}, {"tool_id": "z"}],
        excluded_tools=[{"tool_id": "a"}],
    )
    assert check(surface) == [
        ("error", "/loaded_tools/2", "AT-SURF-06"),
        ("error", "/deferred_tools/1", "AT-SURF-06"),
        ("error", "/blocked_tools/0", "AT-SURF-06"),
        ("error", "/excluded_tools/0", "AT-SURF-06"),
    ]


def test_a_surface_without_tool_refs_is_not_compared(check, record):
    assert check(record("tool_surface", loaded_tools=["a"], blocked_tools=[{"tool_id": "b"}])) == []


def steps(*statuses):
    return [{"status": status, "at": f"2026-05-08T00:00:{second:02}Z"} for second, status in enumerate(statuses)]


def call(record, *statuses, **members):
    return record("tool_invocation", status=statuses[-1], status_transitions=steps(*statuses), **members)


def test_a_call_may_go_through_its_states_in_order_and_skip_some(check, record):
    assert (
        check(call(record, "planned", "selected", "arguments_ready", "queued", "running", "yielded", "succeeded")) == []
    )
    assert check(call(record, "planned", "denied")) == []


@pytest.mark.parametrize("before", InvocationStatus)
def test_whatever_the_table_of_transitions_forbids_is_an_error(check, record, before):
    for after in InvocationStatus:
        row = "AT-INV-13" if before.is_terminal else "AT-INV-08"
        wanted = [] if may_follow(before, after) else [("error", "/status_transitions/1", row)]
        assert check(call(record, before, after)) == wanted


def test_nothing_follows_an_end(check, record):
    assert check(call(record, "running", "succeeded", "yielded")) == [("error", "/status_transitions/2", "AT-INV-13")]
    assert check(call(record, "running", "failed", "failed")) == [("error", "/status_transitions/2", "AT-INV-13")]


def test_the_last_step_is_the_status(check, record):
    assert check(call(record, "queued", "running") | {"status": "queued"}) == [("error", "/status", "AT-INV-13")]


def test_steps_come_in_the_order_of_their_times(check, record):
    late_first = [
        {"status": "queued", "at": "2026-05-08T00:00:02Z"},
        {"status": "running", "at": "2026-05-08T00:00:01Z"},
    ]
    assert check(record("tool_invocation", status_transitions=late_first)) == [
        ("error", "/status_transitions/1", "AT-INV-09")
    ]


@pytest.mark.parametrize(("status", "at"), [("to", "timestamp"), ("to", "time"), ("status", "at")])
def test_the_members_of_a_step_may_be_spelled_in_several_ways(check, record, status, at):
    wrong = [
        {status: "running", at: "2026-05-08T00:00:02Z"},
        {status: "selected", at: "2026-05-08T00:00:01Z", "from": "running"},
    ]
    assert check(record("tool_invocation", status="selected", status_transitions=wrong)) == [
        ("error", "/status_transitions/1", "AT-INV-08"),
        ("error", "/status_transitions/1", "AT-INV-09"),
    ]


def test_a_call_that_has_ended_has_a_status_that_is_an_end(check, record):
    ended = {"ended_at": "2026-05-08T00:00:00Z"}
    assert check(record("tool_invocation", status="running", **ended)) == [("error", "/status", "AT-INV-13")]
    assert check(record("tool_invocation", status="yielded", **ended)) == [("error", "/status", "AT-INV-13")]
    assert check(record("tool_invocation", status="timed_out", **ended)) == []


@pytest.mark.parametrize(
    "transitions", [[], [7, None], [{}, {"status": 7}], [{"status": "unheard_of"}, {"status": "planned"}]]
)
def test_steps_of_any_shape_are_looked_at(check, record, transitions):
    found = check(record("tool_invocation", status="planned", status_transitions=transitions))
    assert all(row not in ("AT-INV-08", "AT-INV-09", "AT-INV-13") for _, _, row in found)


SAYS_ENOUGH = {"error_code": "code", "message": "why", "recoverability": "not_recoverable"}


def result(record, status, error_class=None, **members):
    error = {"error": {"error_class": error_class, **SAYS_ENOUGH}} if error_class else {}
    is_error = ResultStatus(status).is_error
    return record("tool_result", status=status, **{"is_error": is_error, "abort_reason": "timeout"} | error | members)


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: outcome.name)
def test_every_row_of_the_table_of_outcomes_is_well(check, record, outcome):
    for error_class in outcome.error_classes or (None,):
        assert check(result(record, outcome.result_status, error_class)) == []


@pytest.mark.parametrize("status", ResultStatus)
def test_the_flag_says_error_exactly_for_what_did_not_succeed(check, record, status):
    classes = [each for outcome in OUTCOMES if outcome.result_status == status for each in outcome.error_classes]
    error_class = classes[0] if classes else None
    assert check(result(record, status, error_class, is_error=status.is_error)) == []
    wrong = check(result(record, status, error_class or "partial_failure", is_error=not status.is_error))
    assert ("error", "/is_error", "AT-RES-10") in wrong
    missing = check(record("tool_result", without=["is_error"], status=status, error={"error_class": "timeout"}))
    assert (("error", "/is_error", "AT-RES-10") in missing) == status.is_error


def test_an_unlisted_status_is_never_a_success(check, record):
    assert ("error", "/is_error", "AT-VER-07") in check(record("tool_result", status="fine", is_error=False))


def test_an_error_names_its_class(check, record):
    assert check(record("tool_result", status="failed", is_error=True)) == [("error", "/error", "AT-RES-10")]
    assert ("error", "/error/error_class", "AT-RES-10") in check(
        record("tool_result", status="failed", is_error=True, error=SAYS_ENOUGH)
    )


@pytest.mark.parametrize(("status", "error_class"), [("synthetic_error", "sibling_canceled"), ("canceled", "canceled")])
def test_a_result_made_up_for_an_ended_call_says_why_it_ended(check, record, status, error_class):
    bare = result(record, status, error_class)
    del bare["abort_reason"]
    assert check(bare) == [("error", "/abort_reason", "AT-RES-07")]
    within = {**bare, "error": {**bare["error"], "abort_reason": "sibling_error"}}
    assert check(within) == []


def test_a_class_that_does_not_go_with_the_status_is_a_warning(check, record):
    assert check(result(record, "failed", "permission_denied")) == [("warning", "/error/error_class", "G-09")]
    assert check(result(record, "succeeded", "timeout")) == [("warning", "/error/error_class", "G-09")]


@pytest.mark.parametrize("missing", SAYS_ENOUGH)
def test_an_error_that_does_not_say_enough_is_a_warning(check, record, missing):
    error = {"error_class": "execution_failed", **SAYS_ENOUGH}
    del error[missing]
    found = check(record("tool_result", status="failed", is_error=True, error=error))
    assert found == [("warning", f"/error/{missing}", "AT-ERR-01")]


@pytest.mark.parametrize("error_class", ErrorClass)
def test_every_class_of_the_list_and_of_the_phase_table_is_listed(check, record, error_class):
    found = check(result(record, "failed", error_class))
    assert ("warning", "/error/error_class", "AT-ERR-02") not in found
