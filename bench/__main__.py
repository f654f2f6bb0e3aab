"""Run the benchmarks and print the figures; `python -m bench NAME…` runs some of them."""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.figure import SCALES, Absent, Figure
from bench.harness import Settings

BENCHES = (
    "records",
    "startup",
    "journal",
    "durable",
    "calls",
    "concurrency",
    "batch",
    "search",
    "semantic_search",
    "surfaces",
    "opening",
    "quality",
    "rap",
    "mcp_endpoints",
    "http_calls",
    "http_load",
    "http_reads",
)
ON_DEMAND = ("phases", "long_log", "log_commands", "openapi_import")
REPORT = Path("build/bench.json")
WIDTH = 140
"""Width of the table if the output is no terminal."""


def main() -> None:
    """Run the benchmarks, print the figures and write them to a file."""
    names, settings = _arguments()
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    figures: list[Figure | Absent] = []
    for name in names:
        with console.status(f"measuring {name}"):
            figures += import_module(f"bench.{name}").measure(settings)
    console.print(_table(figures))
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps([asdict(figure) for figure in figures], indent=2, ensure_ascii=False) + "\n")
    missed = sum(not figure.holds for figure in figures if isinstance(figure, Figure))
    absent = sum(isinstance(figure, Absent) for figure in figures)
    console.print(f"[dim]written to {REPORT}; {missed} limits missed, {absent} figures not measured[/]")


def _arguments() -> tuple[Sequence[str], Settings]:
    known = (*BENCHES, *ON_DEMAND)
    parser = ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(known)}")
    parser.add_argument("--quick", action="store_true", help="run fewer rounds")
    parser.add_argument("--million", action="store_true", help="measure a million waiting calls, which takes minutes")
    parser.add_argument("--source", type=Path, default=Path(), help="the checkout whose src is measured as ours")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in known]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}; use one of {', '.join(known)}")
    return given.names or BENCHES, Settings(quick=given.quick, million=given.million, source=given.source)


def _table(figures: Sequence[Figure | Absent]) -> Table:
    table = Table("measured", "ours", "peer", "", "ratio", "limit", "", title="medians of one run on this machine")
    for figure in figures:
        if isinstance(figure, Absent):
            table.add_row(figure.name, "", "", figure.peer_name, "", f"[yellow]not measured: {figure.reason}[/]", "")
            continue
        scale = SCALES[figure.unit]
        verdict = "[green]holds[/]" if figure.holds else "[red]missed[/]"
        table.add_row(
            figure.name,
            f"{figure.ours * scale:.2f} {figure.unit}",
            f"{figure.peer * scale:.2f} {figure.unit}",
            figure.peer_name,
            f"{figure.ratio:.2f}",
            figure.want,
            verdict if figure.want else "",
        )
    return table


if __name__ == "__main__":
    main()
