import pytest

from agenttool.records import InvocationStatus, may_follow


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
