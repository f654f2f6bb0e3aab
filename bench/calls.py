"""One call of `add(a, b)` through all phases, beside what others do for the same call."""

from bench.contest import Entry, Times, run
from bench.figure import Absent, Figure, limited, told
from bench.settings import Settings

_OURS = {"a dictionary": Entry("ours"), "JSON": Entry("ours", "add_bytes")}
_PEERS = {
    "bare await": Entry("bare"),
    "openai-agents": Entry("openai_agents"),
    "openai-agents, a context per call": Entry("openai_agents", "add_context"),
    "pydantic-ai": Entry("pydantic_ai_manager"),
}
_LIMIT = {"openai-agents": 1.0}
"""At most how many times a peer's time we may take; the others are told for orientation."""


def measure(settings: Settings) -> list[Figure | Absent]:
    """Time the same call everywhere; nobody but us governs it."""
    entries = [*_PEERS.values(), *_OURS.values()]
    rounds, round_s = (15, 0.02) if settings.quick else (31, 0.05)
    times = run(entries, settings, rounds=rounds, round_s=round_s)
    return [_figure(f"call add, given {given}", times, ours, peer) for given, ours in _OURS.items() for peer in _PEERS]


def _figure(name: str, times: Times, ours: Entry, peer_name: str) -> Figure | Absent:
    peer, limit = _PEERS[peer_name], _LIMIT.get(peer_name)
    for entry in (ours, peer):
        if entry.contestant in times.missing:
            return Absent(name=name, peer_name=peer_name, reason=times.missing[entry.contestant])
    both = times.median(ours), times.median(peer)
    figure = told(name, both, peer_name=peer_name, unit="µs", ratio=times.ratio(ours, peer))
    return figure if limit is None else limited(figure, at_most=limit)
