"""`agenttool conformance`: the ledger of both standards, and what a run of the tests proves of it."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from agenttool.cli.refusing import refuse
from agenttool.conformance.coverage import Coverage, measure_coverage
from agenttool.conformance.ledger import Area, Standard, find_area, load_areas
from agenttool.conformance.report import Ledger, decode_report, encode_document, report_of
from agenttool.conformance.table import coverage_table, ledger_table, missing_table
from agenttool.errors import RecordError

app = typer.Typer(add_completion=False)

UNSOUND = 1


@app.command()
def conformance(
    report: Annotated[
        Path | None,
        typer.Argument(metavar="REPORT.json", help="A report that `make conformance` wrote", show_default=False),
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else")] = False,
    area: Annotated[str | None, typer.Option(metavar="AREA", help="Only this area, such as PERM or OAUTH")] = None,
    missing: Annotated[bool, typer.Option("--missing", help="List what is not proved, in its own words")] = False,
) -> None:
    """Show which requirements of the standards are proved by a passing test"""  # noqa: D415 -- as in the table of commands
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
    """The named area, or all of them."""
    if name is None:
        return load_areas()
    area = find_area(name)
    if area is None:
        names = ", ".join(each.name for each in load_areas())
        refuse(f"area must be one of the ledger's, got {name!r}; use one of {names}")
    return (area,)


def read_coverage(path: Path) -> Coverage:
    """Read a report from a file, or say why it cannot be used and stop."""
    try:
        return decode_report(path.read_bytes())
    except OSError as fault:
        refuse(f"report cannot be read: {str(path)!r}: {fault.strerror}; make one with `make conformance`")
    except RecordError as fault:
        refuse(f"{str(path)!r} cannot be used: {fault}")


def show_ledger(areas: tuple[Area, ...], *, as_json: bool, missing: bool) -> None:
    """List what the standards ask; without a run nothing of it is proved."""
    if as_json:
        requirements = tuple(requirement for area in areas for requirement in area.requirements)
        typer.echo(encode_document(Ledger(requirements)), nl=False)
        return
    console = Console()
    for standard in Standard:
        if chosen := [area for area in areas if area.standard is standard]:
            console.print(ledger_table(standard, chosen))
            console.print()
    if missing:
        console.print(missing_table(measure_coverage(areas, {}).findings))
        console.print()
    console.print("No run was given, so nothing is shown as proved.", markup=False)
    console.print(
        "Make one with `make conformance`, then run `agenttool conformance build/conformance.json`.",
        markup=False,
        soft_wrap=True,
    )


def print_json(coverage: Coverage, *, missing: bool) -> None:
    """Print the report anew, cut down to what was asked for."""
    report = report_of(coverage)
    if missing:
        unproved = tuple(requirement for requirement in report.requirements if not requirement.covered)
        report = msgspec.structs.replace(report, requirements=unproved)
    typer.echo(encode_document(report), nl=False)


def show_coverage(coverage: Coverage, *, missing: bool) -> None:
    """Print a table per standard, then, if asked for, what is missing."""
    console = Console()
    for standard in Standard:
        if areas := [area for area in coverage.areas if area.area.standard is standard]:
            console.print(coverage_table(standard, areas))
            console.print()
    if missing:
        console.print(missing_table(finding for finding in coverage.findings if not finding.is_covered))
        console.print()


def show_faults(coverage: Coverage) -> None:
    """Name what makes the report unsound: failed tests and ids that no ledger has."""
    console = Console()
    for test in coverage.failed_tests:
        console.print(f"failed: {test}", markup=False, style="red", soft_wrap=True)
    for mark in coverage.unknown:
        tests = ", ".join(proof.test for proof in mark.tests)
        console.print(f"unknown requirement {mark.id!r}, named by {tests}", markup=False, style="red", soft_wrap=True)
