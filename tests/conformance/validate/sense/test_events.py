import pytest


@pytest.mark.parametrize("event_type", ["tool.invocation.started", "tool.hook.pre.started", "tool.result.created"])
def test_an_event_about_a_call_says_which_call_and_which_tool(check, record, event_type):
    assert check(record("tool_event", event_type=event_type)) == [
        ("warning", "/invocation_id", "AT-EVT-02"),
        ("warning", "/tool_id", "AT-EVT-02"),
    ]
    assert check(record("tool_event", event_type=event_type, invocation_id="i", tool_id="t")) == []


def test_an_event_about_something_else_need_not(check, record):
    assert check(record("tool_event", event_type="tool.surface.created")) == []
