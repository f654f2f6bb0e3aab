"""Render coverage as tables for the terminal and the README."""

from collections.abc import Iterable, Iterator, Sequence

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
from agenttool.conformance.ledger import Obligation, Standard

BAR_CELLS = 6


def coverage_table(standard: Standard, areas: Sequence[AreaCoverage], *, has_run: bool = True) -> Table:
    """Return how many requirements of each area, and of all, are proved; without a run, how many there are."""
    table = Table(title=standard.full_name, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("area", style="cyan", no_wrap=True)
    table.add_column("", no_wrap=True, overflow="ellipsis", max_width=28)
    for obligation in Obligation:
        table.add_column(obligation.value, justify="right", no_wrap=True)
    if has_run:
        table.add_column("proved", no_wrap=True)
    for area in areas:
        table.add_row(area.area.name, Text(area.area.title), *_cells(area.findings, has_run=has_run))
    table.add_section()
    every = [finding for area in areas for finding in area.findings]
    table.add_row("all", "", *_cells(every, has_run=has_run), style="bold")
    return table


def missing_table(findings: Iterable[RequirementProof]) -> Table:
    """Return each requirement that is not proved, with its sentence and the tests that failed to prove it."""
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
    """Return the figures of both standards as a Markdown table, one line each."""
    lines = ["| Standard | MUST | SHOULD | MAY | Proved |", "| --- | ---: | ---: | ---: | ---: |"]
    for standard in Standard:
        findings = coverage.findings_of(standard)
        counts = [count_covered(findings, obligation) for obligation in Obligation]
        figures = [f"{count.covered} of {count.total}" for count in counts]
        lines.append(f"| {' | '.join([standard.full_name, *figures, f'{count_covered(findings).percent} %'])} |")
    return "\n".join(lines) + "\n"


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
        yield _bar(count_covered(findings))


def _bar(count: CoverageCount) -> Text:
    filled = BAR_CELLS * count.percent // 100
    bar = Text("■" * filled, style="green")
    return bar.append("·" * (BAR_CELLS - filled), style="dim").append(f"{count.percent:4}%")
