"""Opening a runtime with very many tools, beside adding the same tools to a FastMCP server."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from bench.environments import Missing, interpreter
from bench.figure import Absent, Figure, below, told
from bench.settings import Settings

LARGEST = 100_000
MOST_SECONDS = 10.0
"""What the largest may take of the processor's time: a tenth of a millisecond a tool."""

PEER_SIZES = (1_000, 10_000)
"""Where a peer takes part: what it takes for a tool grows with those it has, and would be hours for the largest."""

_PEER = "FastMCP, adding them"


def measure(settings: Settings) -> list[Figure | Absent]:
    """Measure each size; the largest beside as many openings of the one before, so that it shows what grows."""
    figures: list[Figure | Absent] = []
    for size in PEER_SIZES:
        ours = _cost("ours", size, settings)
        try:
            figures += _told(size, ours, _cost("fastmcp_adding", size, settings), _PEER)
        except Missing as error:
            figures.append(Absent(name=f"opening with {size:,} tools", peer_name=_PEER, reason=str(error)))
    times = LARGEST // PEER_SIZES[-1]
    before = {name: cost * times for name, cost in _cost("ours", PEER_SIZES[-1], settings).items()}
    beside = f"{times} times ours with {PEER_SIZES[-1]:,}"
    return [*figures, *_told(LARGEST, _cost("ours", LARGEST, settings), before, beside)]


def _told(size: int, ours: dict[str, float], peer: dict[str, float], peer_name: str) -> Iterator[Figure]:
    name = f"opening with {size:,} tools"
    spent = told(name, (ours["processor"], peer["processor"]), peer_name=peer_name, unit="s")
    yield below(spent, MOST_SECONDS * size / LARGEST)
    yield told(f"{name}: memory", (ours["bytes"], peer["bytes"]), peer_name=peer_name, unit="MB")


def _cost(opener: str, size: int, settings: Settings) -> dict[str, float]:
    """Open once in a fresh process; gives the processor's seconds and the bytes by which it grew."""
    here = str(Path.cwd())
    path = [str(settings.source.resolve() / "src"), here] if opener == "ours" else [here]
    done = subprocess.run(
        [str(interpreter(opener)), "-m", f"bench.openers.{opener}", str(size)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Missing(done.stderr.strip().rpartition("\n")[2])
    return cast("dict[str, float]", json.loads(done.stdout))
