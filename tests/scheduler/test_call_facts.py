import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.records import (
    CALL_FACTS,
    ContextModifierPolicy,
    InterruptBehavior,
    ResourceLock,
    SchedulingFacts,
    ToolInterface,
    complete_interface,
)
from agenttool.scheduler.call_facts import CallFacts, claims, locks_of, safety_of


def interface(**said):
    return ToolInterface(interface_id="i", tool_id="t", **said)


SHELL = interface(
    is_read_only="classifier:command_read_only",
    is_concurrency_safe="same_as:is_read_only",
    is_destructive="classifier:command_destructive",
    is_open_world=True,
    classifier_input="input.command",
    interrupt_behavior=InterruptBehavior.CANCEL,
)
COMMANDS = {
    "command_read_only": lambda command: command.startswith("ls"),
    "command_destructive": lambda command: command.startswith("rm"),
}


def test_a_tool_that_says_nothing_runs_alone_and_counts_as_a_destructive_write():
    facts = safety_of(interface()).facts_for({})
    assert facts == CallFacts(
        record=SchedulingFacts(
            is_concurrency_safe=False,
            is_read_only=False,
            is_destructive=False,
            is_open_world=True,
            requires_exclusive_context=False,
            interrupt_behavior=InterruptBehavior.BLOCK,
            context_modifier_policy=ContextModifierPolicy.FORBID,
            resource_locks=(),
        ),
        alone=True,
        classes=frozenset({"write", "destructive", "open_world"}),
        locks=(),
    )


def test_a_tool_with_plain_facts_has_one_object_for_all_of_its_calls():
    safety = safety_of(interface(is_concurrency_safe=True, context_modifier_policy=ContextModifierPolicy.FORBID))
    assert safety.facts_for({"a": 1}) is safety.facts_for({"b": 2})
    assert safety.facts_for({}).record.context_modifier_policy is ContextModifierPolicy.FORBID


@pytest.mark.parametrize(
    ("said", "alone"),
    [
        ({"is_read_only": True}, True),
        ({"is_concurrency_safe": True}, False),
        ({"is_concurrency_safe": True, "is_destructive": True}, False),
        ({"is_concurrency_safe": False, "is_read_only": True}, True),
    ],
)
def test_only_its_own_word_lets_a_call_run_beside_others(said, alone):
    assert safety_of(interface(**said)).facts_for({}).alone is alone


def test_a_call_that_only_reads_is_not_taken_for_destructive_where_it_is_not_declared():
    reads = safety_of(interface(is_read_only=True, is_open_world=False)).facts_for({})
    assert reads.classes == {"read_only"}
    says_both = safety_of(interface(is_read_only=True, is_destructive=True, is_open_world=False)).facts_for({})
    assert says_both.classes == {"read_only", "destructive"}


def test_the_same_tool_is_safe_for_one_input_and_exclusive_for_another():
    safety = safety_of(SHELL, classifiers=COMMANDS)
    reading, deleting = safety.facts_for({"command": "ls -l"}), safety.facts_for({"command": "rm -r ."})
    assert not reading.alone
    assert deleting.alone
    shared = {
        "is_open_world": True,
        "requires_exclusive_context": False,
        "context_modifier_policy": ContextModifierPolicy.FORBID,
        "resource_locks": (),
    }
    assert reading.record == SchedulingFacts(
        is_concurrency_safe=True,
        is_read_only=True,
        is_destructive=False,
        interrupt_behavior=InterruptBehavior.CANCEL,
        **shared,
    )
    assert deleting.record == SchedulingFacts(
        is_concurrency_safe=False,
        is_read_only=False,
        is_destructive=True,
        interrupt_behavior=InterruptBehavior.CANCEL,
        **shared,
    )


def failing(_):
    raise ValueError("no idea")


UNREADABLE = (False, False, True, True)


def four(facts):
    return tuple(getattr(facts.record, fact) for fact in CALL_FACTS)


@pytest.mark.parametrize(
    "classifiers", [{}, {"x": failing}, {"x": lambda _: "yes"}, {"x": lambda _: None}, {"x": lambda _: 1}]
)
def test_a_classifier_that_is_missing_or_cannot_decide_fails_closed(classifiers):
    named = interface(**dict.fromkeys(CALL_FACTS, "classifier:x"))
    assert four(safety_of(named, classifiers=classifiers).facts_for({})) == UNREADABLE


@pytest.mark.parametrize(
    "said", ["same_as:is_read_only", "same_as:nothing", "same_as:is_enabled", "classifier:", "true", "input.command"]
)
def test_a_fact_that_points_nowhere_or_in_a_circle_fails_closed(said):
    assert four(safety_of(interface(**dict.fromkeys(CALL_FACTS, said))).facts_for({})) == UNREADABLE


def test_a_classifier_whose_input_is_not_there_is_not_asked():
    asked = []
    safety = safety_of(SHELL, classifiers=dict.fromkeys(COMMANDS, asked.append))
    assert safety.facts_for({"script": "ls"}).alone
    assert asked == []


@pytest.mark.parametrize(
    ("path", "subject"),
    [("input.a.b", 1), ("a.b", 1), ("input", {"a": {"b": 1}}), ("", {"a": {"b": 1}}), ("input.a", {"b": 1})],
)
def test_a_classifier_judges_the_place_that_the_interface_names(path, subject):
    asked = []
    named = interface(is_read_only="classifier:x", is_concurrency_safe="classifier:x", classifier_input=path)
    safety_of(named, classifiers={"x": asked.append}).facts_for({"a": {"b": 1}})
    assert asked == [subject]


def test_locks_come_from_the_actual_arguments():
    safety = safety_of(
        interface(is_concurrency_safe=True),
        locks=lambda its: [its["to"], ResourceLock(resource=its["from"], mode="read")],
    )
    facts = safety.facts_for({"from": "a", "to": "b"})
    assert not facts.alone
    assert facts.locks == (("b", True), ("a", False))
    assert facts.record.resource_locks == (
        ResourceLock(resource="b", mode="exclusive"),
        ResourceLock(resource="a", mode="read"),
    )


def test_a_lock_rule_that_cannot_decide_makes_the_call_run_alone():
    facts = safety_of(interface(is_concurrency_safe=True), locks=lambda its: [its["path"]]).facts_for({})
    assert facts.alone
    assert facts.record.requires_exclusive_context is True


facts_said = st.one_of(st.none(), st.booleans(), st.sampled_from(["classifier:x", "classifier:y", "nonsense"]))


@given(st.fixed_dictionaries(dict.fromkeys(CALL_FACTS, facts_said)), st.booleans() | st.none())
def test_no_call_runs_beside_others_unless_its_safety_was_said_or_computed(said, answer):
    safety = safety_of(complete_interface(interface(**said)), classifiers={"x": lambda _: answer})
    spoken = said["is_concurrency_safe"]
    was_allowed = spoken is True or (spoken == "classifier:x" and answer is True)
    assert safety.facts_for({}).alone is not was_allowed


def lock(resource, mode=None):
    return ResourceLock(resource=resource, mode=mode)


@pytest.mark.parametrize(
    ("mode", "exclusive"),
    [("read", False), ("shared", False), ("write", True), ("exclusive", True), (None, True), ("READ", True)],
)
def test_only_a_known_word_shares_a_resource(mode, exclusive):
    assert claims([lock("a", mode)]) == (("a", exclusive),)


def test_a_resource_named_twice_is_claimed_once_and_strictly():
    assert claims([lock("a", "read"), lock("b", "read"), lock("a", "write"), lock("a", "read")]) == (
        ("a", True),
        ("b", False),
    )


def test_a_bare_name_is_an_exclusive_lock():
    assert locks_of(lambda its: (its["path"],), {"path": "a"}) == (lock("a", "exclusive"),)


@pytest.mark.parametrize("answer", [None, 3, [None], [3], [lock(None)], [lock(3)]])
def test_an_answer_that_cannot_be_read_is_no_answer(answer):
    assert locks_of(lambda _: answer, {}) is None


def test_a_rule_that_fails_half_way_is_no_answer():
    def rule(_):
        yield "a"
        raise LookupError

    assert locks_of(rule, {}) is None


def test_to_lock_nothing_is_an_answer():
    assert locks_of(lambda _: [], {}) == ()
