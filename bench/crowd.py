"""Ten thousand calls at once, each of a tool that sleeps: how long until all are back, and how much memory they take.

Every round is a fresh process, so that what one round left behind does not serve the next.
"""

from collections.abc import Mapping, Sequence

from bench.contest import WARM_UP, worker
from bench.environments import Missing
from bench.figure import Absent, Figure, below, limited, paired
from bench.settings import Settings

CALLS = 10_000
MOST_BYTES = 60e6
_NAME = f"{CALLS:,} calls of 10 ms at once"
_PEERS = {"openai_agents": "openai-agents", "pydantic_ai_manager": "pydantic-ai", "bare": "bare await"}
_WANTED = "openai_agents"

Taken = Mapping[str, float]
"""What a round took: `seconds`, the `processor`'s own, which do not grow when others keep it busy, and `bytes`."""


def measure(settings: Settings) -> list[Figure | Absent]:
    """Crowd each contestant in every round, forwards and backwards by turns."""
    peers = [_WANTED] if settings.quick else list(_PEERS)
    taken: dict[str, list[Taken]] = {name: [] for name in ("ours", *peers)}
    missing: dict[str, str] = {}
    for number in range(3 if settings.quick else 11):
        for name in reversed(taken) if number % 2 else taken:
            try:
                taken[name].append(_crowd(name, settings))
            except Missing as error:
                missing[name] = str(error)
    return [figure for peer in peers for figure in _figures(peer, taken, missing)]


def _crowd(contestant: str, settings: Settings) -> Taken:
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
    time = paired(_NAME, *rounds["seconds"], peer_name=_PEERS[peer], unit="ms")
    if peer != _WANTED:
        return [time]
    processor = paired(f"{_NAME}: processor", *rounds["processor"], peer_name=_PEERS[peer], unit="ms")
    memory = paired(f"{_NAME}: memory", *rounds["bytes"], peer_name=_PEERS[peer], unit="MB")
    return [limited(time, at_most=1), processor, below(memory, MOST_BYTES)]
