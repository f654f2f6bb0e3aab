"""What people see: tables that fit a terminal, and the figures of the README."""

from io import StringIO

from rich.console import Console, RenderableType

from agenttool.conformance.coverage import AreaCoverage, Coverage, Proof, ProofOutcome, measure_coverage
from agenttool.conformance.ledger import Standard, load_areas, load_requirements
from agenttool.conformance.table import coverage_table, markdown_table, missing_table

PASSED = Proof("tests/test_a.py::test_one", ProofOutcome.PASSED)
SKIPPED = Proof("tests/test_a.py::test_two[red]", ProofOutcome.SKIPPED)


def measure(*, passed: tuple[str, ...] = (), skipped: tuple[str, ...] = ()) -> Coverage:
    evidence = {name: [PASSED] for name in passed} | {name: [SKIPPED] for name in skipped}
    return measure_coverage(load_areas(), evidence)


def lines_of(renderable: RenderableType) -> list[str]:
    console = Console(file=StringIO(), width=80)
    with console.capture() as capture:
        console.print(renderable)
    return [line.rstrip() for line in capture.get().splitlines()]


def areas_of(standard: Standard, coverage: Coverage) -> list[AreaCoverage]:
    return [area for area in coverage.areas if area.area.standard is standard]


def test_every_figure_is_readable_in_eighty_columns():
    everything = measure(passed=tuple(requirement.id for requirement in load_requirements()))
    for standard, total in (Standard.AGENT_TOOL, "51/51 303/303 17/17"), (Standard.RAP, "139/139 83/83 21/21"):
        *rows, last = lines_of(coverage_table(standard, areas_of(standard, everything)))
        assert last.split() == ["all", *total.split(), "■■■■■■", "100%"]
        assert len(rows) == 2 + len(areas_of(standard, everything))
        assert all(row.endswith("100%") for row in rows[2:])


def test_an_area_shows_proved_of_all_for_each_obligation():
    coverage = measure(passed=("AT-SURF-01", "AT-MODEL-01", "AT-MODEL-02", "AT-MODEL-03"))
    rows = lines_of(coverage_table(Standard.AGENT_TOOL, areas_of(Standard.AGENT_TOOL, coverage)))
    assert rows[2].split() == ["MODEL", "Layers", "and", "core", "objects", "-", "3/6", "-", "■■■···", "50%"]


def test_the_ledger_without_a_run_shows_counts_only():
    rows = lines_of(coverage_table(Standard.RAP, areas_of(Standard.RAP, measure()), has_run=False))
    assert rows[-1].split() == ["all", "139", "83", "21"]


def test_what_is_missing_is_told_in_its_own_words_with_the_tests_that_did_not_prove_it():
    coverage = measure(skipped=("RAP-033",))
    shown = " ".join(
        " ".join(
            lines_of(missing_table(each for each in coverage.findings if each.requirement.id == "RAP-033"))
        ).split()
    )
    assert shown == "RAP-033 MUST NOT Retry after a 4xx. skipped: tests/test_a.py::test_two[red]"


def test_the_readme_figures_have_one_line_per_standard():
    assert markdown_table(measure(passed=("RAP-001", "RAP-033", "AT-ACC-01"))) == (
        "| Standard | MUST | SHOULD | MAY | Proved |\n"
        "| --- | ---: | ---: | ---: | ---: |\n"
        "| Agent Tool 0.2.0 | 0 of 51 | 1 of 303 | 0 of 17 | 0 % |\n"
        "| Reactive Agent Protocol | 2 of 139 | 0 of 83 | 0 of 21 | 0 % |\n"
    )
