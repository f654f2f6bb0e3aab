from agenttool.records import PHASE_RULES, ErrorClass, Phase

IN_ORDER = [
    "resolve_tool", "parse_schema", "validate_values", "prepare_observable_input", "pre_hooks", "permission",
    "schedule", "execute", "map_result", "post_hooks", "persist_result", "emit_terminal",
]  # fmt: skip


def test_the_twelve_phases_stand_in_the_order_of_the_standard():
    assert list(Phase) == IN_ORDER
    assert [rule.phase for rule in PHASE_RULES] == IN_ORDER


def test_the_last_phase_cannot_end_a_call():
    assert PHASE_RULES[-1].failures == ()


def test_every_error_class_arises_in_some_phase():
    assert {failure for rule in PHASE_RULES for failure in rule.failures} == set(ErrorClass)
