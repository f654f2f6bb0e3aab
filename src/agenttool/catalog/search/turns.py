"""Several wishes in one query: a tool that answers one of them makes room for those that answer the others."""

from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from math import hypot

from agenttool.records import ToolId

MAKES_ROOM = 0.3
"""How much less a wish counts, once the tool that answers it best has had its turn."""

TURNS = 10
"""After so many tools nobody makes room any more; who reads on wants them by what they are worth."""

Ranked = tuple[float, ToolId, int]
"""A tool as it is sorted: its score below zero, its id, and its number."""


def in_turns(ranked: Sequence[Ranked], opinions: Mapping[int, Sequence[float]]) -> Iterator[Ranked]:
    """Give tools one by one, the best first, each scored by what is left of the wishes that it answers.

    What a tool is worth only shrinks, so that the best of yesterday is looked at anew, and hardly any other.
    """
    waiting, scores = list(ranked), {number: score for score, _, number in ranked}
    heapify(waiting)
    best = [max(each) or 1.0 for each in zip(*map(opinions.__getitem__, scores), strict=True)]
    left, given = [1.0] * len(best), 0
    while waiting:
        first = score, tool_id, number = waiting[0]
        now = scores[number] * _share(opinions[number], left)
        if now != score:
            heapreplace(waiting, (now, tool_id, number))
            continue
        yield first
        heappop(waiting)
        given += 1
        if given <= TURNS:
            shares = zip(left, opinions[number], best, strict=True)
            left = [each * (1 - MAKES_ROOM * (mine / most) ** 2) for each, mine, most in shares]


def _share(opinions: Sequence[float], left: Sequence[float]) -> float:
    """Tell how much of a tool's score is left; one that answers no wish in particular makes room for nobody."""
    whole = hypot(*opinions)
    return hypot(*(each * share for each, share in zip(opinions, left, strict=True))) / whole if whole else 1.0
