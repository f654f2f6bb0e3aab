from itertools import permutations

import pytest

from agenttool.records import ContextModifierPolicy
from agenttool.scheduler.modifiers import ModifierFate, fate_of, in_asked_order, strictest_modifier_policy

SERIAL_ONLY, DEFER, FORBID = ContextModifierPolicy


@pytest.mark.parametrize(
    ("policy", "ran_alone", "fate"),
    [
        (SERIAL_ONLY, True, ModifierFate.APPLIED),
        (SERIAL_ONLY, False, ModifierFate.REJECTED),
        (DEFER, True, ModifierFate.DEFERRED),
        (DEFER, False, ModifierFate.DEFERRED),
        (FORBID, True, ModifierFate.REJECTED),
        (FORBID, False, ModifierFate.REJECTED),
    ],
)
def test_the_policy_says_what_becomes_of_a_modifier(policy, ran_alone, fate):
    assert fate_of(policy, ran_alone=ran_alone, supports_context_modifiers=True) is fate


@pytest.mark.parametrize("policy", ContextModifierPolicy)
@pytest.mark.parametrize("said", [None, False])
def test_a_tool_that_did_not_declare_it_changes_nothing(policy, said):
    assert fate_of(policy, ran_alone=True, supports_context_modifiers=said) is ModifierFate.REJECTED


@pytest.mark.parametrize(
    ("said", "strictest"),
    [
        ((), FORBID),
        ((None, None), FORBID),
        ((None, DEFER), DEFER),
        ((DEFER, SERIAL_ONLY), SERIAL_ONLY),
        ((SERIAL_ONLY, FORBID, DEFER), FORBID),
    ],
)
def test_of_several_words_the_strictest_counts(said, strictest):
    assert strictest_modifier_policy(*said) is strictest


def test_deferred_modifiers_apply_in_asked_order_however_they_came_in():
    for came in permutations(range(4)):
        assert in_asked_order({call: f"change {call}" for call in came}) == tuple(f"change {call}" for call in range(4))
