"""Which requirements a set of test outcomes proves."""

from hypothesis import given
from hypothesis import strategies as st

from agenttool.conformance.coverage import (
    Coverage,
    CoverageCount,
    Proof,
    ProofOutcome,
    UnknownMark,
    count_covered,
    measure_coverage,
)
from agenttool.conformance.ledger import Area, Level, Obligation, Requirement, Standard

LEVELS = {"X-1": Level.MUST, "X-2": Level.MUST_NOT, "X-3": Level.SHOULD, "X-4": Level.MAY}


def requirement(name: str, level: Level) -> Requirement:
    return Requirement(id=name, standard=Standard.RAP, area="X", level=level, source="", sentence="A sentence.")


AREA = Area(
    standard=Standard.RAP,
    name="X",
    title="An area",
    requirements=tuple(requirement(name, level) for name, level in LEVELS.items()),
)


def measure(**outcomes: list[ProofOutcome]) -> Coverage:
    """Keywords X_1 to X_4, each with the outcomes of the tests that name it."""
    evidence = {
        name.replace("_", "-"): [Proof(f"test_{n}", outcome) for n, outcome in enumerate(each)]
        for name, each in outcomes.items()
    }
    return measure_coverage([AREA], evidence)


def covered_ids(coverage: Coverage) -> list[str]:
    return [finding.requirement.id for finding in coverage.findings if finding.is_covered]


def test_a_requirement_without_a_test_is_not_covered():
    assert covered_ids(measure()) == []


def test_a_requirement_is_covered_when_every_test_that_names_it_passed():
    assert covered_ids(measure(X_1=[ProofOutcome.PASSED, ProofOutcome.PASSED], X_3=[ProofOutcome.PASSED])) == [
        "X-1",
        "X-3",
    ]


def test_a_failing_test_uncovers_what_another_test_proved():
    coverage = measure(X_1=[ProofOutcome.PASSED, ProofOutcome.FAILED])
    assert covered_ids(coverage) == []
    assert coverage.failed_tests == ("test_1",)
    assert not coverage.is_sound


def test_a_skipped_test_or_one_left_out_of_the_run_is_no_proof_and_no_fault():
    coverage = measure(
        X_1=[ProofOutcome.SKIPPED], X_2=[ProofOutcome.NOT_RUN], X_3=[ProofOutcome.PASSED, ProofOutcome.SKIPPED]
    )
    assert covered_ids(coverage) == []
    assert coverage.is_sound


def test_an_unknown_id_is_reported_and_makes_the_coverage_unsound():
    coverage = measure(X_9=[ProofOutcome.PASSED], X_1=[ProofOutcome.PASSED])
    assert coverage.unknown == (UnknownMark("X-9", (Proof("test_0", ProofOutcome.PASSED),)),)
    assert covered_ids(coverage) == ["X-1"]
    assert not coverage.is_sound


def test_a_test_that_names_several_requirements_fails_only_once():
    coverage = measure(X_1=[ProofOutcome.FAILED], X_2=[ProofOutcome.FAILED])
    assert coverage.failed_tests == ("test_0",)


def test_must_not_is_counted_as_must_and_may_is_counted_apart():
    findings = measure(X_2=[ProofOutcome.PASSED], X_4=[ProofOutcome.PASSED]).findings
    assert [count_covered(findings, obligation) for obligation in Obligation] == [
        CoverageCount(1, 2),
        CoverageCount(0, 1),
        CoverageCount(1, 1),
    ]
    assert count_covered(findings) == CoverageCount(2, 4)


def test_a_hundred_percent_means_all_of_them():
    assert [CoverageCount(covered, 301).percent for covered in (0, 1, 300, 301)] == [0, 0, 99, 100]
    assert CoverageCount(0, 0).percent == 0


@given(
    st.lists(st.sampled_from(ProofOutcome)),
    st.sampled_from([ProofOutcome.FAILED, ProofOutcome.SKIPPED, ProofOutcome.NOT_RUN]),
)
def test_a_test_that_did_not_pass_never_adds_coverage(outcomes: list[ProofOutcome], added: ProofOutcome):
    assert covered_ids(measure(X_1=[*outcomes, added])) == []
