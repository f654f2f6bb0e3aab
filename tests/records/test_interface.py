import pytest
from hypothesis import given
from strategies import records

from agenttool.codec import to_json
from agenttool.records import (
    CAPABILITY_FLAGS,
    INTERFACE_DEFAULTS,
    UNREADABLE_FACT,
    ExecutionProfile,
    ToolInterface,
    acted_on,
    complete_interface,
    complete_profile,
)

BARE = ToolInterface(interface_id="i", tool_id="t")


@pytest.mark.requirement("AT-IFACE-27")
def test_a_completed_interface_says_which_facts_were_inferred():
    completed = to_json(complete_interface(BARE))
    assert completed["inferred_facts"] == sorted(INTERFACE_DEFAULTS)
    assert {fact: completed[fact] for fact in INTERFACE_DEFAULTS} == {
        "is_concurrency_safe": False,
        "is_read_only": False,
        "is_destructive": False,
        "is_open_world": True,
        "requires_user_interaction": False,
        "strict": True,
        "interrupt_behavior": "block",
        "classifier_input": "",
        "deny_before_io": True,
    }


def test_a_declared_fact_is_not_inferred():
    declared = complete_interface(ToolInterface(interface_id="i", tool_id="t", is_read_only=True))
    assert declared.is_read_only is True
    assert "is_read_only" not in declared.inferred_facts


def test_an_undeclared_tool_is_recorded_as_harmless_but_judged_as_destructive():
    assert complete_interface(BARE).is_destructive is False
    assert acted_on(complete_interface(BARE), "is_destructive") is True
    assert acted_on(BARE, "is_destructive") is True
    assert acted_on(ToolInterface(interface_id="i", tool_id="t", is_destructive=False), "is_destructive") is False


@given(records(ToolInterface))
def test_completing_twice_changes_nothing(interface):
    once = complete_interface(interface)
    assert complete_interface(once) == once


@pytest.mark.requirement("AT-EXEC-03")
def test_a_completed_profile_says_yes_or_no_to_all_thirteen_capabilities():
    profile = complete_profile(ExecutionProfile(execution_profile_id="e", execution_kind="shell", supports_cancel=True))
    assert len(CAPABILITY_FLAGS) == 13
    assert {flag: getattr(profile, flag) for flag in CAPABILITY_FLAGS} == {
        flag: flag == "supports_cancel" for flag in CAPABILITY_FLAGS
    }
    assert set(profile.inferred_facts) == set(CAPABILITY_FLAGS) - {"supports_cancel"}


def test_a_fact_whose_classifier_fails_takes_its_strictest_value():
    assert UNREADABLE_FACT == {
        "is_concurrency_safe": False,
        "is_read_only": False,
        "is_destructive": True,
        "is_open_world": True,
        "is_enabled": False,
    }


def test_a_fact_without_a_default_is_refused():
    with pytest.raises(KeyError):
        acted_on(BARE, "is_delicious")
