"""`agenttool conformance`: the requirements of both standards, and which of them a test run proves."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

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
    areas = load_areas() if area is None else (_area(area),)
    if report is None:
        _print_ledger(areas, as_json=as_json, missing=missing)
        return
    coverage = _read_coverage(report)
    chosen = msgspec.structs.replace(coverage, areas=tuple(each for each in coverage.areas if each.area in areas))
    if as_json:
        document = report_of(chosen)
        if missing:
            unproved = tuple(requirement for requirement in document.requirements if not requirement.covered)
            document = msgspec.structs.replace(document, requirements=unproved)
        typer.echo(encode_document(document), nl=False)
    else:
        for standard in Standard:
            found = [each for each in chosen.areas if each.area.standard is standard]
            _print_tables([coverage_table(standard, found)] if found else [])
        unproved = [finding for finding in chosen.findings if not finding.is_covered]
        _print_tables([missing_table(unproved)] if missing else [])
        _print_faults(coverage)
    if not coverage.is_sound:
        raise typer.Exit(UNSOUND)


def _area(name: str) -> Area:
    area = find_area(name)
    if area is None:
        fail(f"unknown area {name!r}; use one of {', '.join(each.name for each in load_areas())}")
    return area


def _read_coverage(path: Path) -> Coverage:
    """Return the report in a file; an unusable file ends the command."""
    try:
        return decode_report(path.read_bytes())
    except OSError as error:
        fail(f"report cannot be read: {str(path)!r}: {error.strerror}; write one with `make conformance`")
    except RecordError as error:
        fail(f"{str(path)!r} cannot be used: {error}")


def _print_ledger(areas: tuple[Area, ...], *, as_json: bool, missing: bool) -> None:
    """Print the requirements; without a test run none is proved."""
    if as_json:
        requirements = tuple(requirement for area in areas for requirement in area.requirements)
        typer.echo(encode_document(LedgerReport(requirements)), nl=False)
        return
    for standard in Standard:
        found = [area for area in areas if area.standard is standard]
        _print_tables([ledger_table(standard, found)] if found else [])
    _print_tables([missing_table(measure_coverage(areas, {}).findings)] if missing else [])
    print_text(Console(), "No test run was given, so no requirement is shown as proved.")
    print_text(Console(), "Run `make conformance`, then `agenttool conformance build/conformance.json`.")


def _print_tables(tables: list[Table]) -> None:
    for table in tables:
        Console().print(table)
        Console().print()


def _print_faults(coverage: Coverage) -> None:
    """Print what makes the report unsound: failed tests, and unknown requirement ids."""
    console = Console()
    for test in coverage.failed_tests:
        print_text(console, f"failed: {test}", "red")
    for mark in coverage.unknown:
        tests = ", ".join(proof.test for proof in mark.tests)
        print_text(console, f"unknown requirement {mark.id!r}, named by {tests}", "red")
