"""`agenttool conformance`: the requirements of both standards, and which of them a test run proves."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from agenttool.cli.output import fail, print_text
from agenttool.conformance.coverage import Coverage, measure_coverage
from agenttool.conformance.ledger import Area, Standard, find_area, load_areas
from agenttool.conformance.report import LedgerReport, decode_report, encode_document, report_of
from agenttool.conformance.table import coverage_table, ledger_table, missing_table
from agenttool.errors import RecordError

UNSOUND = 1
"""Exit code: a test failed, or a test names an unknown requirement."""


def conformance(
    report: Annotated[
        Path | None,
        typer.Argument(metavar="REPORT.json", help="A report that `make conformance` wrote", show_default=False),
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else")] = False,
    area: Annotated[str | None, typer.Option(metavar="AREA", help="Only this area, such as PERM or OAUTH")] = None,
    missing: Annotated[bool, typer.Option("--missing", help="List the requirements that no test proves")] = False,
) -> None:
    """Show which requirements of the standards a passing test proves."""
    areas = choose_areas(area)
    if report is None:
        show_ledger(areas, as_json=as_json, missing=missing)
        return
    coverage = read_coverage(report)
    chosen = msgspec.structs.replace(coverage, areas=tuple(each for each in coverage.areas if each.area in areas))
    if as_json:
        print_json(chosen, missing=missing)
    else:
        show_coverage(chosen, missing=missing)
        show_faults(coverage)
    if not coverage.is_sound:
        raise typer.Exit(UNSOUND)


def choose_areas(name: str | None) -> tuple[Area, ...]:
    """Return the named area, or all of them; an unknown name ends the command."""
    if name is None:
        return load_areas()
    area = find_area(name)
    if area is None:
        names = ", ".join(each.name for each in load_areas())
        fail(f"unknown area {name!r}; use one of {names}")
    return (area,)


def read_coverage(path: Path) -> Coverage:
    """Return the report in a file; an unusable file ends the command."""
    try:
        return decode_report(path.read_bytes())
    except OSError as error:
        fail(f"report cannot be read: {str(path)!r}: {error.strerror}; write one with `make conformance`")
    except RecordError as error:
        fail(f"{str(path)!r} cannot be used: {error}")


def show_ledger(areas: tuple[Area, ...], *, as_json: bool, missing: bool) -> None:
    """Print the requirements; without a test run none is proved."""
    if as_json:
        requirements = tuple(requirement for area in areas for requirement in area.requirements)
        typer.echo(encode_document(LedgerReport(requirements)), nl=False)
        return
    console = Console()
    for standard in Standard:
        if chosen := [area for area in areas if area.standard is standard]:
            console.print(ledger_table(standard, chosen))
            console.print()
    if missing:
        console.print(missing_table(measure_coverage(areas, {}).findings))
        console.print()
    print_text(console, "No test run was given, so no requirement is shown as proved.")
    print_text(console, "Run `make conformance`, then `agenttool conformance build/conformance.json`.")


def print_json(coverage: Coverage, *, missing: bool) -> None:
    """Print the report as JSON; with `missing`, only requirements without proof."""
    report = report_of(coverage)
    if missing:
        unproved = tuple(requirement for requirement in report.requirements if not requirement.covered)
        report = msgspec.structs.replace(report, requirements=unproved)
    typer.echo(encode_document(report), nl=False)


def show_coverage(coverage: Coverage, *, missing: bool) -> None:
    """Print a table per standard; with `missing`, also the requirements without proof."""
    console = Console()
    for standard in Standard:
        if areas := [area for area in coverage.areas if area.area.standard is standard]:
            console.print(coverage_table(standard, areas))
            console.print()
    if missing:
        console.print(missing_table(finding for finding in coverage.findings if not finding.is_covered))
        console.print()


def show_faults(coverage: Coverage) -> None:
    """Print what makes the report unsound: failed tests, and unknown requirement ids."""
    console = Console()
    for test in coverage.failed_tests:
        print_text(console, f"failed: {test}", "red")
    for mark in coverage.unknown:
        tests = ", ".join(proof.test for proof in mark.tests)
        print_text(console, f"unknown requirement {mark.id!r}, named by {tests}", "red")
