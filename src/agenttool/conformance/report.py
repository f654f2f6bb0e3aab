"""The conformance report: coverage as a JSON document that is the same for the same run, and back."""

from collections import defaultdict
from collections.abc import Iterable

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
    return Report(
        report_version=REPORT_VERSION,
        standards=tuple(_standard_figures(standard, coverage) for standard in Standard),
        areas=tuple(_area_figures(area) for area in coverage.areas),
        requirements=tuple(_reported(finding) for finding in coverage.findings),
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
    return measure_coverage(load_areas(), _evidence_of(report))


def _evidence_of(report: Report) -> dict[str, set[Proof]]:
    evidence: defaultdict[str, set[Proof]] = defaultdict(set)
    for claimed in (*report.requirements, *report.unknown):
        evidence[claimed.id].update(claimed.tests)
    return evidence


def _standard_figures(standard: Standard, coverage: Coverage) -> StandardFigures:
    findings = [finding for finding in coverage.findings if finding.requirement.standard is standard]
    return StandardFigures(standard, standard.full_name, *_tallies(findings))


def _area_figures(coverage: AreaCoverage) -> AreaFigures:
    uncovered = tuple(finding.requirement.id for finding in coverage.uncovered)
    area = coverage.area
    return AreaFigures(area.standard, area.name, area.title, *_tallies(coverage.findings), uncovered)


def _tallies(findings: Iterable[RequirementProof]) -> tuple[CoverageCount, CoverageCount, CoverageCount]:
    chosen = tuple(findings)
    return (
        count_covered(chosen, Obligation.MUST),
        count_covered(chosen, Obligation.SHOULD),
        count_covered(chosen, Obligation.MAY),
    )


def _reported(finding: RequirementProof) -> ReportedRequirement:
    requirement = finding.requirement
    return ReportedRequirement(
        id=requirement.id,
        standard=requirement.standard,
        area=requirement.area,
        level=requirement.level,
        requirement=requirement.sentence,
        covered=finding.is_covered,
        tests=finding.proofs,
    )
