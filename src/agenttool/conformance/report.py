"""The conformance report: coverage as a JSON document that is the same for the same run, and back."""

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from agenttool.conformance.coverage import (
    AreaCoverage,
    Coverage,
    CoverageCount,
    Proof,
    RequirementProof,
    UnknownMark,
    count_covered,
    measure_coverage,
)
from agenttool.conformance.ledger import Level, Obligation, Requirement, Standard, load_areas
from agenttool.errors import RecordError

REPORT_VERSION = 1
HOW_TO_MAKE_ONE = "make one with `make conformance`"


class StandardFigures(msgspec.Struct, frozen=True):
    """One standard in three figures."""

    standard: Standard
    title: str
    must: CoverageCount
    should: CoverageCount
    may: CoverageCount


class AreaFigures(msgspec.Struct, frozen=True):
    """One area in three figures, and the ids that are still to be proved."""

    standard: Standard
    area: str
    title: str
    must: CoverageCount
    should: CoverageCount
    may: CoverageCount
    uncovered: tuple[str, ...]


class ReportedRequirement(msgspec.Struct, frozen=True):
    """One requirement and the tests that claim it."""

    id: str
    standard: Standard
    area: str
    level: Level
    requirement: str
    covered: bool
    tests: tuple[Proof, ...]


class Report(msgspec.Struct, frozen=True):
    """The document. Areas and requirements stand in ledger order, tests by name; nothing depends on the clock."""

    report_version: int
    standards: tuple[StandardFigures, ...]
    areas: tuple[AreaFigures, ...]
    requirements: tuple[ReportedRequirement, ...]
    unknown: tuple[UnknownMark, ...]
    failed_tests: tuple[str, ...]


class ReportVersion(msgspec.Struct, frozen=True):
    """The one member that must be understood before the rest is looked at."""

    report_version: int


class LedgerReport(msgspec.Struct, frozen=True):
    """The bare ledger as a document, for when there is no run to report."""

    requirements: tuple[Requirement, ...]


def report_of(coverage: Coverage) -> Report:
    """Put coverage into the shape of the document."""
    of_standard = {
        standard: [each for each in coverage.findings if each.requirement.standard is standard] for standard in Standard
    }
    return Report(
        report_version=REPORT_VERSION,
        standards=tuple(
            StandardFigures(standard, standard.full_name, *_tallies(findings))
            for standard, findings in of_standard.items()
        ),
        areas=tuple(map(_area_figures, coverage.areas)),
        requirements=tuple(map(_reported, coverage.findings)),
        unknown=coverage.unknown,
        failed_tests=coverage.failed_tests,
    )


def encode_document(document: Report | LedgerReport) -> str:
    """Write a document as indented JSON with a newline at its end."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def decode_report(document: bytes) -> Coverage:
    """Decode a report and measure its tests against the packaged ledger.

    The figures in the document are not trusted: they may have been made with another ledger.

    Raises:
        RecordError: the document is no JSON, no report, or a report of another version.
    """
    try:
        version = msgspec.json.decode(document, type=ReportVersion).report_version
        if version != REPORT_VERSION:
            raise RecordError(f"report_version must be {REPORT_VERSION}, got {version!r}; {HOW_TO_MAKE_ONE}")
        report = msgspec.json.decode(document, type=Report)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise RecordError(f"not a conformance report: {str(fault)!r}; {HOW_TO_MAKE_ONE}") from fault
    evidence: defaultdict[str, set[Proof]] = defaultdict(set)
    for claimed in (*report.requirements, *report.unknown):
        evidence[claimed.id].update(claimed.tests)
    return measure_coverage(load_areas(), evidence)


def _area_figures(coverage: AreaCoverage) -> AreaFigures:
    uncovered = tuple(finding.requirement.id for finding in coverage.uncovered)
    area = coverage.area
    return AreaFigures(area.standard, area.name, area.title, *_tallies(coverage.findings), uncovered)


def _tallies(findings: Sequence[RequirementProof]) -> tuple[CoverageCount, CoverageCount, CoverageCount]:
    must, should, may = (count_covered(findings, obligation) for obligation in Obligation)
    return must, should, may


def _reported(finding: RequirementProof) -> ReportedRequirement:
    of = finding.requirement
    return ReportedRequirement(
        of.id, of.standard, of.area, of.level, of.sentence, covered=finding.is_covered, tests=finding.proofs
    )
