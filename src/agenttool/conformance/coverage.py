"""Which requirements the tests of a run prove, and the report: a JSON document that is the same for the same run."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Literal

import msgspec

from agenttool.conformance.ledger import Area, Obligation, Requirement, Standard, load_areas
from agenttool.errors import RecordError


class ProofOutcome(StrEnum):
    """How a marked test ended. Only `passed` proves anything."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    NOT_RUN = "not_run"


class Proof(msgspec.Struct, frozen=True, order=True):
    """One marked test and how it ended."""

    test: str
    outcome: ProofOutcome


class CoverageCount(msgspec.Struct, frozen=True):
    """The number of covered requirements, and of all."""

    covered: int
    total: int

    @property
    def percent(self) -> int:
        """The share of covered ones, rounded down, so that 100 means all of them."""
        return 100 * self.covered // self.total if self.total else 0


class RequirementProof(msgspec.Struct, frozen=True):
    """One requirement and the tests that claim it, by test name."""

    requirement: Requirement
    proofs: tuple[Proof, ...]

    @property
    def is_covered(self) -> bool:
        """Whether a test claims it, and every test that claims it was run and passed."""
        return bool(self.proofs) and all(proof.outcome is ProofOutcome.PASSED for proof in self.proofs)


class AreaCoverage(msgspec.Struct, frozen=True):
    """The findings of one area, in ledger order."""

    area: Area
    findings: tuple[RequirementProof, ...]


class UnknownMark(msgspec.Struct, frozen=True):
    """An id that tests name, which may be in no ledger."""

    id: str
    tests: tuple[Proof, ...]


class Coverage(msgspec.Struct, frozen=True):
    """What one run of the tests proves about every requirement."""

    areas: tuple[AreaCoverage, ...]
    unknown: tuple[UnknownMark, ...]

    @property
    def findings(self) -> tuple[RequirementProof, ...]:
        """The findings of all areas, in ledger order."""
        return tuple(finding for area in self.areas for finding in area.findings)

    def findings_of(self, standard: Standard) -> tuple[RequirementProof, ...]:
        """Return the findings of one standard, in ledger order."""
        return tuple(finding for finding in self.findings if finding.requirement.standard is standard)

    @property
    def failed_tests(self) -> tuple[str, ...]:
        """Every marked test that failed, once, by name."""
        named = [*(finding.proofs for finding in self.findings), *(mark.tests for mark in self.unknown)]
        return tuple(
            sorted({proof.test for proofs in named for proof in proofs if proof.outcome is ProofOutcome.FAILED})
        )

    @property
    def is_sound(self) -> bool:
        """Whether no marked test failed and no mark names an unknown id, however much is covered."""
        return not self.failed_tests and not self.unknown


def measure_coverage(areas: Sequence[Area], evidence: Mapping[str, Iterable[Proof]]) -> Coverage:
    """Compute the coverage of every requirement of these areas.

    An id that is in none of the areas proves nothing and is reported as unknown, never dropped.
    """
    proofs = {name: tuple(sorted(claims)) for name, claims in evidence.items()}
    known = {requirement.id for area in areas for requirement in area.requirements}
    return Coverage(
        areas=tuple(
            AreaCoverage(area, tuple(RequirementProof(each, proofs.get(each.id, ())) for each in area.requirements))
            for area in areas
        ),
        unknown=tuple(UnknownMark(name, proofs[name]) for name in sorted(proofs.keys() - known)),
    )


def count_covered(findings: Iterable[RequirementProof], obligation: Obligation | None = None) -> CoverageCount:
    """Count the proved findings, of one obligation or of all."""
    chosen = [finding for finding in findings if obligation in (None, finding.requirement.level.obligation)]
    return CoverageCount(sum(finding.is_covered for finding in chosen), len(chosen))


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
        raise RecordError(f"not a conformance report: {str(fault)!r}; make one with `make conformance`") from fault
    evidence: defaultdict[str, set[Proof]] = defaultdict(set)
    for claimed in (*report.requirements, *report.unknown):
        evidence[claimed.id].update(claimed.tests)
    return measure_coverage(load_areas(), evidence)


def _figures(findings: Sequence[RequirementProof]) -> dict[str, CoverageCount]:
    return {obligation.value.lower(): count_covered(findings, obligation) for obligation in Obligation}
