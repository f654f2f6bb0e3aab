"""Render coverage as tables for the terminal and the README."""

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from agenttool.conformance.coverage import (
    AreaCoverage,
    Coverage,
    CoverageCount,
    ProofOutcome,
    RequirementProof,
    count_covered,
)
from agenttool.conformance.ledger import Area, Obligation, Standard

BAR_CELLS = 6


def coverage_table(standard: Standard, areas: Sequence[AreaCoverage]) -> Table:
    """Show proved of all, area by area, with a last line for the whole."""
    table = _area_table(standard)
    table.add_column("proved", no_wrap=True)
    for area in areas:
        table.add_row(*_area_cells(area.area), *_tally_cells(area.findings), _bar(count_covered(area.findings)))
    every = [finding for area in areas for finding in area.findings]
    table.add_section()
    table.add_row("all", "", *_tally_cells(every), _bar(count_covered(every)), style="bold")
    return table


def ledger_table(standard: Standard, areas: Sequence[Area]) -> Table:
    """Show how many requirements there are, area by area, for when there is no run to judge them by."""
    table = _area_table(standard)
    for area in areas:
        table.add_row(*_area_cells(area), *_count_cells([area]))
    table.add_section()
    table.add_row("all", "", *_count_cells(areas), style="bold")
    return table


def missing_table(findings: Iterable[RequirementProof]) -> Table:
    """Show each requirement that is not proved, in its own words, and the tests that failed to prove it."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for finding in findings:
        requirement = finding.requirement
        sentence = Text(requirement.sentence)
        for proof in finding.proofs:
            if proof.outcome is not ProofOutcome.PASSED:
                sentence.append(f"\n{proof.outcome.value}: {proof.test}", style="yellow")
        table.add_row(requirement.id, requirement.level.value, sentence)
    return table


def markdown_table(coverage: Coverage) -> str:
    """The figures of both standards as a Markdown table, one line each."""
    lines = ["| Standard | MUST | SHOULD | MAY | Proved |", "| --- | ---: | ---: | ---: | ---: |"]
    for standard in Standard:
        findings = [finding for finding in coverage.findings if finding.requirement.standard is standard]
        tallies = [count_covered(findings, obligation) for obligation in Obligation]
        counts = [f"{tally.covered} of {tally.total}" for tally in tallies]
        share = f"{count_covered(findings).percent} %"
        lines.append(f"| {' | '.join([standard.full_name, *counts, share])} |")
    return "\n".join(lines) + "\n"


def _area_table(standard: Standard) -> Table:
    table = Table(title=standard.full_name, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("area", style="cyan", no_wrap=True)
    table.add_column("", no_wrap=True, overflow="ellipsis", max_width=28)
    for obligation in Obligation:
        table.add_column(obligation.value, justify="right", no_wrap=True)
    return table


def _area_cells(area: Area) -> tuple[str, Text]:
    return area.name, Text(area.title)


def _tally_cells(findings: Iterable[RequirementProof]) -> list[Text]:
    chosen = tuple(findings)
    return [_tally_text(count_covered(chosen, obligation)) for obligation in Obligation]


def _count_cells(areas: Iterable[Area]) -> list[str]:
    obligations = [requirement.obligation for area in areas for requirement in area.requirements]
    return [str(obligations.count(obligation) or "-") for obligation in Obligation]


def _tally_text(tally: CoverageCount) -> Text:
    if not tally.total:
        return Text("-", style="dim")
    return Text(f"{tally.covered}/{tally.total}", style="green" if tally.covered == tally.total else "")


def _bar(tally: CoverageCount) -> Text:
    filled = BAR_CELLS * tally.percent // 100
    bar = Text("■" * filled, style="green")
    return bar.append("·" * (BAR_CELLS - filled), style="dim").append(f"{tally.percent:4}%")
