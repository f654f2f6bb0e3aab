from agenttool.records import CRASH_CLASSES, OUTCOMES, ErrorClass, Phase, ResultStatus


def test_every_error_class_has_an_outcome():
    assert {error for outcome in OUTCOMES for error in outcome.error_classes} == set(ErrorClass)


def test_every_result_status_has_an_outcome():
    assert {outcome.result_status for outcome in OUTCOMES} == set(ResultStatus)


def test_every_outcome_ends_the_call_and_the_log():
    assert all(outcome.invocation_status.is_terminal for outcome in OUTCOMES)
    assert all(outcome.terminal_event.is_terminal for outcome in OUTCOMES)


def test_a_result_is_an_error_exactly_when_its_outcome_names_one_that_is_not_partial():
    for outcome in OUTCOMES:
        names_an_error = bool(set(outcome.error_classes) - {ErrorClass.PARTIAL_FAILURE})
        assert outcome.result_status.is_error == names_an_error, outcome.name


def test_no_two_outcomes_look_the_same():
    looks = [(o.invocation_status, o.result_status, error, o.abort_reason, o.effects_happened)
             for o in OUTCOMES for error in o.error_classes or (None,)]  # fmt: skip
    assert len(set(looks)) == len(looks)


def test_the_crash_of_every_phase_has_an_outcome():
    assert set(CRASH_CLASSES.values()) <= {error for outcome in OUTCOMES for error in outcome.error_classes}


IN_ORDER = [
    "resolve_tool", "parse_schema", "validate_values", "prepare_observable_input", "pre_hooks", "permission",
    "schedule", "execute", "map_result", "post_hooks", "persist_result", "emit_terminal",
]  # fmt: skip


def test_the_twelve_phases_stand_in_the_order_of_the_standard():
    assert list(Phase) == IN_ORDER


def test_every_phase_has_a_class_for_a_crash():
    assert list(CRASH_CLASSES) == IN_ORDER
