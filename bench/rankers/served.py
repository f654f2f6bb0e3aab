"""A ranker as a process: tools and queries come as JSON, rankings by name go back as JSON.

Runs in the peers' environments, too, so it stands on nothing but the standard library.
"""

import json
import sys
from collections.abc import Callable, Mapping

Tools = list[list[str]]
"""Namespace, name, description and parameters of each tool."""

Rank = Callable[[Tools, list[str]], list[list[int]] | list[float]]


def serve(ranks: Mapping[str, Rank]) -> None:
    """Answer one question."""
    asked = json.load(sys.stdin)
    print(json.dumps({name: rank(asked["tools"], asked["queries"]) for name, rank in ranks.items()}))
