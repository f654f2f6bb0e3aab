import pytest

from agenttool.records import OUTCOMES, ErrorClass, Phase
from agenttool.results.guidance import GUIDANCE, Effects, effects_possible, has_started


def test_every_class_has_its_row_and_every_row_its_advice():
    assert set(GUIDANCE) == set(ErrorClass)
    assert len(GUIDANCE) == 27
    assert all(row.advice and not row.advice.endswith(".") for row in GUIDANCE.values())


def test_the_table_agrees_with_the_outcomes_about_what_has_run():
    for outcome in OUTCOMES:
        for error in outcome.error_classes:
            if outcome.effects_happened:
                assert GUIDANCE[error].effects is not Effects.NEVER, error


@pytest.mark.parametrize("phase", list(Phase)[:7])
def test_nothing_has_run_before_execute(phase):
    assert not has_started(phase)
    assert not effects_possible(ErrorClass.CANCELED, phase)


@pytest.mark.parametrize("phase", [*list(Phase)[7:], None])
def test_from_execute_on_or_where_nobody_knows_it_may_have_run(phase):
    assert has_started(phase)
    assert effects_possible(ErrorClass.TIMEOUT, phase)
    assert not effects_possible(ErrorClass.RATE_LIMITED, phase)


def test_a_class_that_nobody_listed_is_read_at_its_strictest():
    assert effects_possible(ErrorClass("meteor_strike"), Phase.RESOLVE_TOOL)
