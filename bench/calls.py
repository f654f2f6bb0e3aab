"""One call of `add(a, b)` through all phases, beside what others do for the same call; nobody but us governs it."""

from typing import NamedTuple

from bench.contest import Entry, Times, run
from bench.figure import Absent, Figure, limited, paired
from bench.settings import Settings


class Pair(NamedTuple):
    """Ours beside a peer; without a limit the figure is for orientation."""

    ours: Entry
    peer: Entry
    peer_name: str
    at_most: float | None = None

    @property
    def name(self) -> str:
        """Say what is measured."""
        return _NAMES[self.ours]


_DICTIONARY, _JSON, _CHECKED = Entry("ours"), Entry("ours", "add_bytes"), Entry("ours", "add_checked")
_NAMES = {
    _DICTIONARY: "call add, given a dictionary",
    _JSON: "call add, given JSON",
    _CHECKED: "call add, phase by phase",
}
_OPENAI = Entry("openai_agents")
_PAIRS = (
    Pair(_JSON, _OPENAI, "openai-agents", at_most=1),
    Pair(_JSON, Entry("openai_agents", "add_context"), "openai-agents, a context per call"),
    Pair(_JSON, Entry("pydantic_ai_manager"), "pydantic-ai"),
    Pair(_CHECKED, _OPENAI, "openai-agents"),
    Pair(_DICTIONARY, _OPENAI, "openai-agents, given JSON", at_most=1),
    Pair(_DICTIONARY, Entry("bare"), "bare await"),
    Pair(_DICTIONARY, Entry("pydantic_ai_manager", "add_dict"), "pydantic-ai"),
    Pair(_DICTIONARY, Entry("langchain_tool"), "langchain-core"),
    Pair(_DICTIONARY, Entry("mcp_session"), "mcp, in process"),
    Pair(_DICTIONARY, Entry("mcp_session", "add_streamed"), "mcp, over memory streams"),
    Pair(_DICTIONARY, Entry("fastmcp_client"), "fastmcp, client in memory"),
    Pair(_DICTIONARY, Entry("fastmcp_client", "add_server"), "fastmcp, server alone"),
)

_NEAR = ("bare", "openai_agents", "pydantic_ai_manager")


def measure(settings: Settings) -> list[Figure | Absent]:
    """Time the same call everywhere; in a hurry, only beside those that are near."""
    pairs = [pair for pair in _PAIRS if pair.peer.contestant in _NEAR] if settings.quick else _PAIRS
    entries = dict.fromkeys(entry for pair in pairs for entry in (pair.peer, pair.ours))
    times = run(tuple(entries), settings, rounds=25 if settings.quick else 75)
    return [_figure(pair, times) for pair in pairs]


def _figure(pair: Pair, times: Times) -> Figure | Absent:
    for entry in (pair.ours, pair.peer):
        if entry.contestant in times.missing:
            return Absent(name=pair.name, peer_name=pair.peer_name, reason=times.missing[entry.contestant])
    ours, peer = times.of[pair.ours], times.of[pair.peer]
    figure = paired(pair.name, ours, peer, peer_name=pair.peer_name, unit="µs")
    return figure if pair.at_most is None else limited(figure, at_most=pair.at_most)
