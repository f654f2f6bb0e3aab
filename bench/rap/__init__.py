"""RAP, both sides: invocations acknowledged, round trips, and calls that wait."""

from bench.figure import Figure
from bench.rap import acknowledged, parked, trips
from bench.settings import Settings


def measure(settings: Settings) -> list[Figure]:
    """Measure the provider, the runtime, and what it costs to wait."""
    return [*acknowledged.measure(settings), *trips.measure(settings), *parked.measure(settings)]
