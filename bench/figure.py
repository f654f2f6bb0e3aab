"""Figures, and side-by-side timing on a noisy machine."""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

ROUNDS = 31
SCALES = {"µs": 1e6, "ms": 1e3, "s": 1.0, "MB": 1e-6, "kB": 1e-3, "%": 100.0, "tokens": 1.0}
"""Factors from seconds, bytes or fractions to the displayed units."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Our value beside a peer's in one run. `ratio` is ours over the peer's, or the inverse where we must be faster."""

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
    """A figure that could not be measured, and why; it is printed too."""

    name: str
    peer_name: str
    reason: str


def seconds(work: Callable[[], object]) -> float:
    """Return the duration of one run after a garbage collection."""
    gc.collect()
    start = time.perf_counter()
    result = work()
    elapsed = time.perf_counter() - start
    del result
    return elapsed


def side_by_side(
    ours: Callable[[], object], peer: Callable[[], object], *, rounds: int = ROUNDS
) -> tuple[float, float]:
    """Alternate between both and return the median of each, so that noise affects both alike."""
    pairs = [(seconds(ours), seconds(peer)) for _ in range(rounds)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def require_faster(
    name: str, times: tuple[float, float], *, per: int = 1, peer_name: str, unit: str, at_least: float
) -> Figure:
    """Return a figure with the least factor by which we must be faster."""
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


def compare_speed(name: str, times: tuple[float, float], *, per: int = 1, peer_name: str, unit: str) -> Figure:
    """Return a figure without a limit: the peer's time over ours."""
    figure = require_faster(name, times, per=per, peer_name=peer_name, unit=unit, at_least=0)
    return replace(figure, want="")


def compare_within(
    name: str, times: tuple[float, float], *, per: int = 1, peer_name: str, unit: str, at_most: float
) -> Figure:
    """Return a figure with a limit of our time over the peer's."""
    return with_max_ratio(compare(name, times, per=per, peer_name=peer_name, unit=unit), at_most=at_most)


def with_max_ratio(figure: Figure, *, at_most: float) -> Figure:
    """Add a limit of our value over the peer's."""
    return replace(figure, want=f"at most {at_most:g} times its time", holds=figure.ratio <= at_most)


def compare(name: str, times: tuple[float, float], *, per: int = 1, peer_name: str, unit: str) -> Figure:
    """Return a figure without a limit: our value over the peer's."""
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


def compare_rounds(name: str, ours: Sequence[float], peer: Sequence[float], *, peer_name: str, unit: str) -> Figure:
    """Return a figure of paired rounds; its ratio is the median of the ratios of the rounds."""
    figure = compare(name, (statistics.median(ours), statistics.median(peer)), peer_name=peer_name, unit=unit)
    return replace(figure, ratio=statistics.median(left / right for left, right in zip(ours, peer, strict=True)))


def with_max_value(figure: Figure, limit: float) -> Figure:
    """Add an absolute limit of our value."""
    want = f"under {limit * SCALES[figure.unit]:g} {figure.unit}"
    return replace(figure, want=want, holds=figure.ours < limit)
