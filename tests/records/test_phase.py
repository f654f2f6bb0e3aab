from agenttool.records import CRASH_CLASSES, Phase

IN_ORDER = [
    "resolve_tool", "parse_schema", "validate_values", "prepare_observable_input", "pre_hooks", "permission",
    "schedule", "execute", "map_result", "post_hooks", "persist_result", "emit_terminal",
]  # fmt: skip


def test_the_twelve_phases_stand_in_the_order_of_the_standard():
    assert list(Phase) == IN_ORDER


def test_every_phase_has_a_class_for_a_crash():
    assert list(CRASH_CLASSES) == IN_ORDER
