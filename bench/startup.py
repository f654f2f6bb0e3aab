"""What the command line costs before it does anything."""

import subprocess
import sys
from pathlib import Path

from bench.figure import Figure, side_by_side, within
from bench.settings import Settings

_AGENTTOOL = Path(sys.executable).with_name("agenttool")


def measure(settings: Settings) -> list[Figure]:
    """Start the command beside an interpreter that only imports its terminal libraries."""
    times = side_by_side(
        lambda: _run([str(_AGENTTOOL), "--help"]),
        lambda: _run([sys.executable, "-c", "import typer, rich"]),
    )
    return [within("agenttool --help", times, peer_name='python -c "import typer, rich"', unit="ms", at_most=2)]


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
