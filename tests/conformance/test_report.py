"""The report document: the same for the same run, complete, and never trusted further than its tests."""

import json

import pytest

from agenttool.conformance.coverage import Coverage, Proof, ProofOutcome, measure_coverage
from agenttool.conformance.ledger import load_areas, load_requirements
from agenttool.conformance.report import decode_report, encode_document, report_of
from agenttool.errors import RecordError

PASSED = Proof("tests/test_a.py::test_one", ProofOutcome.PASSED)
FAILED = Proof("tests/test_a.py::test_two[x]", ProofOutcome.FAILED)


def measure(evidence: dict[str, list[Proof]]) -> Coverage:
    return measure_coverage(load_areas(), evidence)


def document_of(evidence: dict[str, list[Proof]]) -> str:
    return encode_document(report_of(measure(evidence)))


def test_a_report_read_back_is_the_coverage_it_was_made_from():
    coverage = measure({"RAP-001": [PASSED], "AT-PERM-01": [FAILED, PASSED], "RAP-999": [PASSED]})
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


def test_figures_in_a_report_are_counted_anew_and_not_believed():
    boasting = document_of({"RAP-001": [FAILED]}).replace('"covered": 0', '"covered": 9').replace("false", "true")
    assert not any(finding.is_covered for finding in decode_report(boasting.encode()).findings)


def test_a_requirement_listed_twice_cannot_hide_a_failure():
    document = json.loads(document_of({"RAP-001": [FAILED]}))
    document["requirements"] += json.loads(document_of({"RAP-001": [PASSED]}))["requirements"]
    assert decode_report(json.dumps(document).encode()) == measure({"RAP-001": [FAILED, PASSED]})


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
