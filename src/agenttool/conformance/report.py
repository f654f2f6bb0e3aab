"""The conformance report: coverage as a JSON document that is the same for the same run, and back."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

import msgspec

from agenttool.conformance.coverage import (
    Coverage,
    CoverageCount,
    Proof,
    RequirementProof,
    UnknownMark,
    count_covered,
    measure_coverage,
)
from agenttool.conformance.ledger import Obligation, Standard, load_areas
from agenttool.errors import RecordError

HOW_TO_MAKE_ONE = "make one with `make conformance`"


class ReportedProofs(msgspec.Struct, frozen=True):
    """The part of a report that is read back: the tests of each requirement, and those of unknown ids."""

    report_version: Literal[1]
    requirements: tuple[UnknownMark, ...]
    unknown: tuple[UnknownMark, ...]


def report_of(coverage: Coverage, *, only_missing: bool = False) -> dict[str, object]:
    """Return the document; areas and requirements are in ledger order, tests by name.

    Nothing depends on the clock. With `only_missing`, the list of requirements holds those that no test proves.
    """
    return {
        "report_version": 1,
        "standards": [
            {"standard": standard, "title": standard.full_name, **_figures(coverage.findings_of(standard))}
            for standard in Standard
        ],
        "areas": [
            {
                "standard": each.area.standard,
                "area": each.area.name,
                "title": each.area.title,
                **_figures(each.findings),
                "uncovered": [finding.requirement.id for finding in each.findings if not finding.is_covered],
            }
            for each in coverage.areas
        ],
        "requirements": [
            {
                "id": each.requirement.id,
                "standard": each.requirement.standard,
                "area": each.requirement.area,
                "level": each.requirement.level,
                "requirement": each.requirement.sentence,
                "covered": each.is_covered,
                "tests": each.proofs,
            }
            for each in coverage.findings
            if not (only_missing and each.is_covered)
        ],
        "unknown": coverage.unknown,
        "failed_tests": coverage.failed_tests,
    }


def encode_document(document: dict[str, object]) -> str:
    """Return a document as indented JSON with a newline at its end."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def decode_report(document: bytes) -> Coverage:
    """Decode a report and measure its tests against the packaged ledger.

    The figures in the document are not trusted: they may have been made with another ledger.

    Raises:
        RecordError: the document is no JSON, no report, or a report of another version.
    """
    try:
        report = msgspec.json.decode(document, type=ReportedProofs)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise RecordError(f"not a conformance report: {str(fault)!r}; {HOW_TO_MAKE_ONE}") from fault
    evidence: defaultdict[str, set[Proof]] = defaultdict(set)
    for claimed in (*report.requirements, *report.unknown):
        evidence[claimed.id].update(claimed.tests)
    return measure_coverage(load_areas(), evidence)


def _figures(findings: Sequence[RequirementProof]) -> dict[str, CoverageCount]:
    return {obligation.value.lower(): count_covered(findings, obligation) for obligation in Obligation}
