"""Declare many tools and open a runtime with them, beside the same with a FastMCP server."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from bench.figure import Absent, Figure, compare, with_max_value
from bench.harness import Missing, Settings, interpreter

LARGEST = 100_000
MOST_SECONDS, MOST_BYTES = 10.0, 800e6
"""Processor time and memory of the largest size, declarations included: 100 microseconds and 8 kB per tool."""

PEER_SIZES = (1_000, 10_000)
"""Sizes with a peer; its time per tool grows with the number of tools, so the largest would take hours."""

_PEER = "FastMCP, adding them"


def measure(settings: Settings) -> list[Figure | Absent]:
    """Measure each size; the largest beside a multiple of the one before, to show growth per tool."""
    figures: list[Figure | Absent] = []
    for size in PEER_SIZES:
        ours = _cost("open_ours", size, settings)
        try:
            figures += _figures(size, ours, _cost("open_fastmcp", size, settings), _PEER)
        except Missing as error:
            figures.append(Absent(name=f"opening with {size:,} tools", peer_name=_PEER, reason=str(error)))
    times = LARGEST // PEER_SIZES[-1]
    before = {name: cost * times for name, cost in _cost("open_ours", PEER_SIZES[-1], settings).items()}
    beside = f"{times} times ours with {PEER_SIZES[-1]:,}"
    return [*figures, *_figures(LARGEST, _cost("open_ours", LARGEST, settings), before, beside)]


def _figures(size: int, ours: dict[str, float], peer: dict[str, float], peer_name: str) -> Iterator[Figure]:
    name = f"opening with {size:,} tools"
    spent = compare(name, (ours["processor"], peer["processor"]), peer_name=peer_name, unit="s")
    yield with_max_value(spent, MOST_SECONDS * size / LARGEST)
    grown = compare(f"{name}: memory", (ours["bytes"], peer["bytes"]), peer_name=peer_name, unit="MB")
    yield with_max_value(grown, MOST_BYTES * size / LARGEST)


def _cost(opener: str, size: int, settings: Settings) -> dict[str, float]:
    """Open once in a fresh process; return `processor` seconds and `bytes` of memory growth."""
    here = str(Path.cwd())
    path = [str(settings.source.resolve() / "src"), here] if opener == "open_ours" else [here]
    done = subprocess.run(
        [str(interpreter(opener)), "-m", f"bench.contestants.{opener}", str(size)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Missing(done.stderr.strip().rpartition("\n")[2])
    return cast("dict[str, float]", json.loads(done.stdout))
