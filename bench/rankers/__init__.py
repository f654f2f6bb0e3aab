"""Rankers of peers, each in a process and an environment of its own. Uses only the standard library."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.harness import Missing, interpreter


def ask(ranker: str, tools: Sequence[Sequence[str]], queries: Sequence[str], *modes: str) -> object:
    """Rank tools by a peer in a process of its own.

    Raises:
        Missing: it cannot run here.
    """
    done = subprocess.run(
        [str(interpreter(ranker)), "-m", f"bench.rankers.{ranker}", *modes],
        input=json.dumps({"tools": tools, "queries": queries}),
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Missing(done.stderr.strip().rpartition("\n")[2])
    return json.loads(done.stdout)


Tools = list[list[str]]
"""Namespace, name, description and parameters of each tool."""

Rank = Callable[[Tools, list[str]], list[list[int]] | list[float]]


def serve(ranks: Mapping[str, Rank]) -> None:
    """Read tools and queries as JSON from stdin, and print the rankings by name."""
    asked = json.load(sys.stdin)
    print(json.dumps({name: rank(asked["tools"], asked["queries"]) for name, rank in ranks.items()}))
