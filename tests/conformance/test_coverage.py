"""Which requirements a set of test outcomes proves, and the report: complete, and trusted no further than its tests."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from requirement_marks import load_requirements

from agenttool.conformance.coverage import (
    Coverage,
    CoverageCount,
    Proof,
    ProofOutcome,
    UnknownMark,
    count_covered,
    decode_report,
    encode_document,
    measure_coverage,
    report_of,
)
from agenttool.conformance.ledger import Area, Level, Obligation, Requirement, Standard, load_areas
from agenttool.errors import RecordError

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


PASSED = Proof("tests/test_a.py::test_one", ProofOutcome.PASSED)
FAILED = Proof("tests/test_a.py::test_two[x]", ProofOutcome.FAILED)


def measure_ledger(evidence: dict[str, list[Proof]]) -> Coverage:
    return measure_coverage(load_areas(), evidence)


def document_of(evidence: dict[str, list[Proof]]) -> str:
    return encode_document(report_of(measure_ledger(evidence)))


def test_a_report_read_back_is_the_coverage_it_was_made_from():
    coverage = measure_ledger({"RAP-001": [PASSED], "AT-PERM-01": [FAILED, PASSED], "RAP-999": [PASSED]})
    assert decode_report(encode_document(report_of(coverage)).encode()) == coverage


def test_the_order_in_which_tests_ended_does_not_show():
    forwards = document_of({"RAP-001": [PASSED, FAILED], "AT-VER-01": [PASSED]})
    backwards = document_of({"AT-VER-01": [PASSED], "RAP-001": [FAILED, PASSED]})
    assert forwards == backwards


def test_the_document_has_figures_requirements_and_faults():
    document = json.loads(document_of({"RAP-001": [PASSED], "RAP-002": [FAILED], "RAP-999": [PASSED]}))
    assert document["report_version"] == 1
    assert document["standards"][1] == {
        "standard": "rap",
        "title": "Reactive Agent Protocol",
        "must": {"covered": 1, "total": 139},
        "should": {"covered": 0, "total": 83},
        "may": {"covered": 0, "total": 21},
    }
    (transport,) = [area for area in document["areas"] if area["area"] == "TRANSPORT"]
    assert transport["must"] == {"covered": 1, "total": 6}
    assert transport["uncovered"] == [f"RAP-{number:03}" for number in range(2, 12)]
    (first,) = [each for each in document["requirements"] if each["id"] == "RAP-001"]
    assert first["covered"]
    assert first["tests"] == [{"test": "tests/test_a.py::test_one", "outcome": "passed"}]
    assert [mark["id"] for mark in document["unknown"]] == ["RAP-999"]
    assert document["failed_tests"] == ["tests/test_a.py::test_two[x]"]
    assert len(document["requirements"]) == 614


def test_figures_in_a_report_are_counted_again_and_not_believed():
    boasting = document_of({"RAP-001": [FAILED]}).replace('"covered": 0', '"covered": 9').replace("false", "true")
    assert not any(finding.is_covered for finding in decode_report(boasting.encode()).findings)


def test_a_requirement_listed_twice_cannot_hide_a_failure():
    document = json.loads(document_of({"RAP-001": [FAILED]}))
    document["requirements"] += json.loads(document_of({"RAP-001": [PASSED]}))["requirements"]
    assert decode_report(json.dumps(document).encode()) == measure_ledger({"RAP-001": [FAILED, PASSED]})


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b"not json",
        b'{"report_version": 2}',
        b'{"report_version": "1"}',
        b'{"report_version": 1}',
        b'{"a": ' + b"[" * 100_000,
        document_of({"RAP-001": [PASSED]}).replace("passed", "perfect").encode(),
        document_of({"RAP-001": [PASSED]}).encode().replace(b"test_one", b"test_\xff"),
    ],
    ids=range(11),
)
def test_garbage_is_refused_with_advice(garbage: bytes):
    with pytest.raises(RecordError, match="make conformance"):
        decode_report(garbage)


def test_the_bare_ledger_keeps_every_column():
    (requirement,) = [each for each in load_requirements() if each.id == "RAP-030"]
    assert json.loads(encode_document({"requirements": [requirement]})) == {
        "requirements": [
            {
                "id": "RAP-030",
                "standard": "rap",
                "area": "DISPATCH",
                "level": "MUST NOT",
                "source": "INV, TRA",
                "requirement": "Read meaning into the ack body, or wait for the outcome on that connection.",
                "check": None,
                "who": "runtime",
                "marks": ["~", "[seed]"],
            }
        ]
    }
