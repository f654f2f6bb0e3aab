"""Ten thousand concurrent calls of a tool that sleeps: their duration and memory.

Every round runs in a fresh process, so that rounds do not affect each other.
"""

from collections.abc import Mapping, Sequence

from bench.figure import Absent, Figure, compare_rounds, with_max_ratio, with_max_value
from bench.harness import WARM_UP, Missing, Settings, worker

CALLS = 10_000
MOST_BYTES = 60e6
_NAME = f"{CALLS:,} calls of 10 ms at once"
_PEERS = {"openai_agents": "openai-agents", "pydantic_ai_manager": "pydantic-ai", "bare": "bare await"}
_WANTED = "openai_agents"

Taken = Mapping[str, float]
"""The cost of a round: `seconds`, `processor` time, and `bytes` of memory."""


def measure(settings: Settings) -> list[Figure | Absent]:
    """Measure each contestant once per round, in alternating order."""
    peers = [_WANTED] if settings.quick else list(_PEERS)
    taken: dict[str, list[Taken]] = {name: [] for name in ("ours", *peers)}
    missing: dict[str, str] = {}
    for number in range(3 if settings.quick else 11):
        for name in reversed(taken) if number % 2 else taken:
            try:
                taken[name].append(_run_round(name, settings))
            except Missing as error:
                missing[name] = str(error)
    return [figure for peer in peers for figure in _figures(peer, taken, missing)]


def _run_round(contestant: str, settings: Settings) -> Taken:
    with worker(contestant, settings) as process:
        process.measure("add", WARM_UP)
        process.measure("nap", CALLS // 100, at_once=True)
        return process.measure("nap", CALLS, at_once=True)


def _figures(peer: str, taken: Mapping[str, Sequence[Taken]], missing: Mapping[str, str]) -> list[Figure | Absent]:
    for name in ("ours", peer):
        if name in missing:
            return [Absent(name=_NAME, peer_name=_PEERS[peer], reason=missing[name])]
    rounds = {
        what: ([each[what] for each in taken["ours"]], [each[what] for each in taken[peer]])
        for what in ("seconds", "processor", "bytes")
    }
    time = compare_rounds(_NAME, *rounds["seconds"], peer_name=_PEERS[peer], unit="ms")
    if peer != _WANTED:
        return [time]
    processor = compare_rounds(f"{_NAME}: processor", *rounds["processor"], peer_name=_PEERS[peer], unit="ms")
    memory = compare_rounds(f"{_NAME}: memory", *rounds["bytes"], peer_name=_PEERS[peer], unit="MB")
    return [with_max_ratio(time, at_most=1), processor, with_max_value(memory, MOST_BYTES)]
