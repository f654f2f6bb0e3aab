"""A durable call of a tool with effects, beside calls that are not governed or not stored.

Times are wall-clock times, because they include the disk.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

from bench.figure import Absent, Figure, compare_rounds, with_max_ratio
from bench.harness import Missing, Settings, worker

CALLERS = 256
WARM_UP = CALLERS * 40
"""Enough for the file and its write-ahead log to reach their final size."""


class Pair(NamedTuple):
    """Our call beside a peer's with a number of callers, and the limit of our time over the peer's."""

    name: str
    peer: str
    peer_name: str
    callers: int
    calls: int
    at_most: float


_PAIRS = (
    Pair(
        f"a governed durable call, {CALLERS} callers",
        "pydantic_ai_manager",
        "pydantic-ai, nothing stored",
        CALLERS,
        CALLERS * 8,
        1,
    ),
    Pair("a lone governed durable call", "disk", "write + fdatasync, twice", 1, 50, 1.5),
)


def measure(settings: Settings) -> list[Figure | Absent]:
    """Measure both sides of each pair in alternation."""
    return [_figure(pair, settings) for pair in _PAIRS]


def _figure(pair: Pair, settings: Settings) -> Figure | Absent:
    try:
        ours, peer = _rounds(pair, settings)
    except Missing as error:
        return Absent(name=pair.name, peer_name=pair.peer_name, reason=str(error))
    return with_max_ratio(
        compare_rounds(pair.name, ours, peer, peer_name=pair.peer_name, unit="µs"), at_most=pair.at_most
    )


def _rounds(pair: Pair, settings: Settings) -> tuple[Sequence[float], Sequence[float]]:
    with ExitStack() as stack:
        both = [stack.enter_context(worker(name, settings)) for name in ("ours_durable", pair.peer)]
        for each in both:
            each.measure("add", WARM_UP, callers=CALLERS)
        rounds = [
            [each.measure("add", pair.calls, callers=pair.callers)["seconds"] / pair.calls for each in both]
            for _ in range(15 if settings.quick else 61)
        ]
    ours, peer = zip(*rounds, strict=True)
    return ours, peer
