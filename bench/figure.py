"""One measured figure, and the way to measure two things fairly on a noisy machine."""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

ROUNDS = 31
SCALES = {"µs": 1e6, "ms": 1e3, "s": 1.0, "MB": 1e-6, "kB": 1e-3, "%": 100.0}
"""From seconds, bytes or shares, in which figures are kept, to the units in which they are shown."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Our time beside a peer's in one run. `ratio` is peer over us unless `want` is a limit on us over the peer."""

    name: str
    ours: float
    peer: float
    peer_name: str
    unit: str
    want: str
    ratio: float
    holds: bool


@dataclass(frozen=True, kw_only=True)
class Absent:
    """A figure that could not be taken, and why; it is told, so that a peer is not dropped in silence."""

    name: str
    peer_name: str
    reason: str


def seconds(work: Callable[[], object]) -> float:
    """Take the time of one run, starting from a clean heap."""
    gc.collect()
    start = time.perf_counter()
    kept = work()
    elapsed = time.perf_counter() - start
    del kept
    return elapsed


def side_by_side(
    ours: Callable[[], object], peer: Callable[[], object], *, rounds: int = ROUNDS
) -> tuple[float, float]:
    """Run both in turn, round after round, and give the median of each: noise meets both alike."""
    pairs = [(seconds(ours), seconds(peer)) for _ in range(rounds)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def faster(
    name: str, times: tuple[float, float], *, per: int = 1, peer_name: str, unit: str, at_least: float
) -> Figure:
    """Make a figure that wants us to be several times faster than the peer."""
    ours, peer = times
    ratio = peer / ours
    return Figure(
        name=name,
        ours=ours / per,
        peer=peer / per,
        peer_name=peer_name,
        unit=unit,
        want=f"at least {at_least:g} times faster",
        ratio=ratio,
        holds=ratio >= at_least,
    )


def told_faster(name: str, times: tuple[float, float], *, per: int = 1, peer_name: str, unit: str) -> Figure:
    """Make a figure of which nothing is wanted: how many times faster we are."""
    figure = faster(name, times, per=per, peer_name=peer_name, unit=unit, at_least=0)
    return replace(figure, want="")


def within(name: str, times: tuple[float, float], *, per: int = 1, peer_name: str, unit: str, at_most: float) -> Figure:
    """Make a figure that allows us at most a multiple of the peer's time."""
    return limited(told(name, times, per=per, peer_name=peer_name, unit=unit), at_most=at_most)


def limited(figure: Figure, *, at_most: float) -> Figure:
    """Want of a figure that we take at most a multiple of what the peer takes."""
    return replace(figure, want=f"at most {at_most:g} times its time", holds=figure.ratio <= at_most)


def told(name: str, times: tuple[float, float], *, per: int = 1, peer_name: str, unit: str) -> Figure:
    """Make a figure of which nothing is wanted: us over the peer, for orientation."""
    ours, peer = times
    return Figure(
        name=name,
        ours=ours / per,
        peer=peer / per,
        peer_name=peer_name,
        unit=unit,
        want="",
        ratio=ours / peer,
        holds=True,
    )


def paired(name: str, ours: Sequence[float], peer: Sequence[float], *, peer_name: str, unit: str) -> Figure:
    """Make a figure of rounds: the ratio is the middle one of all rounds, for what slowed a round down slowed both."""
    figure = told(name, (statistics.median(ours), statistics.median(peer)), peer_name=peer_name, unit=unit)
    return replace(figure, ratio=statistics.median(mine / its for mine, its in zip(ours, peer, strict=True)))


def below(figure: Figure, limit: float) -> Figure:
    """Want of a figure that we stay under a limit of our own, whatever the peer takes."""
    want = f"under {limit * SCALES[figure.unit]:g} {figure.unit}"
    return replace(figure, want=want, holds=figure.ours < limit)
