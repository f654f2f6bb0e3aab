import pytest

from agenttool.codec import digest_of

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


def test_at_one_moment_the_list_of_the_call_tells_which_was_last(check, record):
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
