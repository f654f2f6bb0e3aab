"""RAP on both sides: acknowledged invocations, round trips, and waiting calls."""

from bench.figure import Figure
from bench.harness import Settings
from bench.rap import round_trips, waiting_calls


def measure(settings: Settings) -> list[Figure]:
    """Measure the provider, the runtime, and the cost of waiting calls."""
    return [*round_trips.measure(settings), *waiting_calls.measure(settings)]
