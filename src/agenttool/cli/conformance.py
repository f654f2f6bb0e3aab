"""`agenttool conformance`: the requirements of both standards, and which of them a test run proves."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from agenttool.cli.output import fail, print_text
from agenttool.conformance.coverage import Coverage, measure_coverage
from agenttool.conformance.ledger import Area, Standard, load_areas
from agenttool.conformance.report import decode_report, encode_document, report_of
from agenttool.conformance.table import coverage_table, missing_table
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
    coverage = measure_coverage(areas, {}) if report is None else _read_coverage(report)
    chosen = msgspec.structs.replace(coverage, areas=tuple(each for each in coverage.areas if each.area in areas))
    if as_json:
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
    """Return the report in a file; an unusable file ends the command."""
    try:
        return decode_report(path.read_bytes())
    except OSError as error:
        fail(f"report cannot be read: {str(path)!r}: {error.strerror}; write one with `make conformance`")
    except RecordError as error:
        fail(f"{str(path)!r} cannot be used: {error}")


def _print_tables(coverage: Coverage, *, has_run: bool, missing: bool) -> None:
    """Print a table for each standard, then the unproved requirements; without a test run none is proved."""
    console = Console()
    for standard in Standard:
        found = [each for each in coverage.areas if each.area.standard is standard]
        if found:
            console.print(coverage_table(standard, found, has_run=has_run), "")
    if missing:
        console.print(missing_table(finding for finding in coverage.findings if not finding.is_covered), "")
    if not has_run:
        print_text(console, "No test run was given, so no requirement is shown as proved.")
        print_text(console, "Run `make conformance`, then `agenttool conformance build/conformance.json`.")


def _print_faults(coverage: Coverage) -> None:
    """Print what makes the report unsound: failed tests, and unknown requirement ids."""
    console = Console()
    for test in coverage.failed_tests:
        print_text(console, f"failed: {test}", "red")
    for mark in coverage.unknown:
        tests = ", ".join(proof.test for proof in mark.tests)
        print_text(console, f"unknown requirement {mark.id!r}, named by {tests}", "red")
