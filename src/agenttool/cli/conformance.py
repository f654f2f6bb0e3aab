"""`agenttool conformance`: the requirements of both standards, and which of them a test run proves."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from agenttool.cli.options import argument, flag, option
from agenttool.cli.output import fail, figures, fixed, is_json, plain_table, print_blocks, print_text
from agenttool.conformance.coverage import (
    AreaCoverage,
    Coverage,
    ProofOutcome,
    RequirementProof,
    count_covered,
    decode_report,
    encode_document,
    measure_coverage,
    report_of,
)
from agenttool.conformance.ledger import Area, Obligation, Standard, load_areas
from agenttool.errors import RecordError

UNSOUND = 1
"""Exit code: a test failed, or a test names an unknown requirement."""

BAR_CELLS = 6


def conformance(
    report: Path | None = argument("REPORT.json", "A report that `make conformance` wrote"),
    *,
    area: str | None = option("--area AREA", "Only this area, such as PERM or OAUTH"),
    missing: bool = flag("--missing", "List the requirements that no test proves"),
) -> None:
    """Show which requirements of the standards a passing test proves."""
    areas = load_areas() if area is None else (_area(area),)
    coverage = measure_coverage(areas, {}) if report is None else _read_coverage(report)
    chosen = msgspec.structs.replace(coverage, areas=tuple(each for each in coverage.areas if each.area in areas))
    if is_json():
        ledger: dict[str, object] = {"requirements": [each.requirement for each in chosen.findings]}
        document = ledger if report is None else report_of(chosen, only_missing=missing)
        typer.echo(encode_document(document), nl=False)
    else:
        _print_tables(chosen, has_run=report is not None, missing=missing)
        _print_faults(coverage)
    if not coverage.is_sound:
        raise typer.Exit(UNSOUND)


def _area(name: str) -> Area:
    """Return the area with a name, in any case; area names are unique over both standards."""
    areas = {each.name: each for each in load_areas()}
    if name.upper() not in areas:
        fail(f"unknown area {name!r}; use one of {', '.join(areas)}")
    return areas[name.upper()]


def _read_coverage(path: Path) -> Coverage:
    try:
        return decode_report(path.read_bytes())
    except OSError as error:
        fail(f"report cannot be read: {str(path)!r}: {error.strerror}; write one with `make conformance`")
    except RecordError as error:
        fail(f"{str(path)!r} cannot be used: {error}")


def _print_tables(coverage: Coverage, *, has_run: bool, missing: bool) -> None:
    """Print a table for each standard, then the unproved requirements; without a test run none is proved."""
    for standard in Standard:
        found = [each for each in coverage.areas if each.area.standard is standard]
        if found:
            title = Text(standard.full_name, style="bold italic")
            print_blocks([title, _coverage_table(found, has_run=has_run), ""])
    if missing:
        missing_rows = (_missing_row(each) for each in coverage.findings if not each.is_covered)
        print_blocks([plain_table("requirement", fixed("level"), "sentence", rows=missing_rows), ""])
    if not has_run:
        print_text("No test run was given, so no requirement is shown as proved.")
        print_text("Run `make conformance`, then `agenttool conformance build/conformance.json`.")


def _coverage_table(areas: Sequence[AreaCoverage], *, has_run: bool) -> Table:
    """Return how many requirements of each area, and of all, are proved; without a run, how many there are."""
    every = [finding for area in areas for finding in area.findings]
    groups = [*((each.area.name, each.area.title, each.findings) for each in areas), ("all", "", every)]
    columns = (fixed("area", "cyan"), "", *(figures(each.value) for each in Obligation))
    rows = ((name, title, *_cells(found, has_run=has_run)) for name, title, found in groups)
    return plain_table(*columns, *([fixed("proved")] if has_run else []), rows=rows)


def _cells(findings: Sequence[RequirementProof], *, has_run: bool) -> Iterator[Text]:
    """Yield one cell for each obligation, then the bar of a run."""
    for obligation in Obligation:
        count = count_covered(findings, obligation)
        if not count.total:
            yield Text("-", style="dim")
        elif has_run:
            yield Text(f"{count.covered}/{count.total}", style="green" if count.covered == count.total else "")
        else:
            yield Text(str(count.total))
    if has_run:
        percent = count_covered(findings).percent
        filled = BAR_CELLS * percent // 100
        bar = Text("■" * filled, style="green")
        yield bar.append("·" * (BAR_CELLS - filled), style="dim").append(f"{percent:4}%")


def _missing_row(finding: RequirementProof) -> tuple[str, str, Text]:
    """Return a requirement that is not proved, with its sentence and the tests that failed to prove it."""
    requirement = finding.requirement
    sentence = Text(requirement.sentence)
    for proof in finding.proofs:
        if proof.outcome is not ProofOutcome.PASSED:
            sentence.append(f"\n{proof.outcome.value}: {proof.test}", style="yellow")
    return requirement.id, requirement.level.value, sentence


def _print_faults(coverage: Coverage) -> None:
    """Print what makes the report unsound: failed tests, and unknown requirement ids."""
    for test in coverage.failed_tests:
        print_text(f"failed: {test}", "red")
    for mark in coverage.unknown:
        tests = ", ".join(proof.test for proof in mark.tests)
        print_text(f"unknown requirement {mark.id!r}, named by {tests}", "red")
