"""Run the measurements and print them; `python -m bench NAME…` runs some of them."""

import json
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.figure import Figure

BENCHES = ("records", "startup", "journal")
REPORT = Path("build/bench.json")
_PER_SECOND = {"µs": 1e6, "ms": 1e3, "s": 1.0}


def main() -> None:
    """Measure, show, and keep the figures."""
    console = Console()
    figures: list[Figure] = []
    for name in sys.argv[1:] or BENCHES:
        with console.status(f"measuring {name}"):
            figures += import_module(f"bench.{name}").measure()
    console.print(_table(figures))
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps([asdict(figure) for figure in figures], indent=2, ensure_ascii=False) + "\n")
    console.print(
        f"[dim]written to {REPORT}; a miss is told, not hidden: {sum(not f.holds for f in figures)} missed[/]"
    )


def _table(figures: list[Figure]) -> Table:
    table = Table("measured", "ours", "peer", "", "ratio", "wanted", title="medians of one run on this machine")
    for figure in figures:
        scale = _PER_SECOND[figure.unit]
        table.add_row(
            figure.name,
            f"{figure.ours * scale:.2f} {figure.unit}",
            f"{figure.peer * scale:.2f} {figure.unit}",
            figure.peer_name,
            f"[{'green' if figure.holds else 'red'}]{figure.ratio:.1f}[/]",
            figure.want,
        )
    return table


if __name__ == "__main__":
    main()
