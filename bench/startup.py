"""Start-up time of the command line."""

import subprocess
import sys
from pathlib import Path

from bench.figure import Figure, compare_within, side_by_side
from bench.harness import Settings

_AGENTTOOL = Path(sys.executable).with_name("agenttool")


def measure(settings: Settings) -> list[Figure]:
    """Start the command beside an interpreter that only imports its terminal libraries."""
    times = side_by_side(
        lambda: _run([str(_AGENTTOOL), "--help"]),
        lambda: _run([sys.executable, "-c", "import typer, rich"]),
    )
    return [compare_within("agenttool --help", times, peer_name='python -c "import typer, rich"', unit="ms", at_most=2)]


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
