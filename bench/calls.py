"""One tool call per shape beside the same call in other libraries, none of which decides, records or stores it."""

from collections.abc import Iterator
from typing import NamedTuple

from bench.contestants.shapes import DURABLE, SHAPES, Shape
from bench.figure import Absent, Figure, compare_rounds, with_max_ratio
from bench.harness import Entry, Settings, Times, run


class Pair(NamedTuple):
    """Our call beside a peer's. `at_most` limits our time over the peer's; without it the figure has no limit."""

    name: str
    ours: Entry
    peer: Entry
    peer_name: str
    at_most: float | None = None
    clock: str = "processor"


def _pairs_of(shape: Shape) -> Iterator[Pair]:
    ours = Entry("ours_durable") if shape.name == DURABLE else Entry("ours", shape.name)
    for peer, name, at_most in (
        ("openai_agents", "openai-agents", shape.at_most),
        ("pydantic_ai_manager", "pydantic-ai", None),
    ):
        yield Pair(f"call: {shape.title}", ours, Entry(peer, shape.name), name, at_most, shape.clock)


_JSON, _DICTIONARY = Entry("ours"), Entry("ours", "add_dictionary")
_GIVEN = "call: arguments as a dictionary"
_PAIRS = (
    *(pair for shape in SHAPES for pair in _pairs_of(shape)),
    Pair("call: two integers", _JSON, Entry("openai_agents", "add_context"), "openai-agents, a context per call"),
    Pair(_GIVEN, _DICTIONARY, Entry("openai_agents"), "openai-agents, given JSON", at_most=1.4),
    Pair(_GIVEN, _DICTIONARY, Entry("pydantic_ai_manager", "add_dictionary"), "pydantic-ai"),
    Pair(_GIVEN, _DICTIONARY, Entry("bare"), "bare await"),
    Pair(_GIVEN, _DICTIONARY, Entry("langchain_tool"), "langchain-core"),
    Pair(_GIVEN, _DICTIONARY, Entry("mcp_session"), "mcp, in process"),
    Pair(_GIVEN, _DICTIONARY, Entry("mcp_session", "add_streamed"), "mcp, over memory streams"),
    Pair(_GIVEN, _DICTIONARY, Entry("fastmcp_client"), "fastmcp, client in memory"),
    Pair(_GIVEN, _DICTIONARY, Entry("fastmcp_client", "add_server"), "fastmcp, server alone"),
)

_QUICK = ("bare", "openai_agents", "pydantic_ai_manager")
"""The peers of a quick run."""


def measure(settings: Settings) -> list[Figure | Absent]:
    """Time every pair in one run."""
    pairs = [pair for pair in _PAIRS if pair.peer.contestant in _QUICK] if settings.quick else _PAIRS
    entries = dict.fromkeys(entry for pair in pairs for entry in (pair.peer, pair.ours))
    times = run(tuple(entries), settings, rounds=15 if settings.quick else 75)
    return [_figure(pair, times) for pair in pairs]


def _figure(pair: Pair, times: Times) -> Figure | Absent:
    for entry in (pair.ours, pair.peer):
        if entry.contestant in times.missing:
            return Absent(name=pair.name, peer_name=pair.peer_name, reason=times.missing[entry.contestant])
    ours, peer = ([taken[pair.clock] for taken in times.of[entry]] for entry in (pair.ours, pair.peer))
    figure = compare_rounds(pair.name, ours, peer, peer_name=pair.peer_name, unit="µs")
    return figure if pair.at_most is None else with_max_ratio(figure, at_most=pair.at_most)
