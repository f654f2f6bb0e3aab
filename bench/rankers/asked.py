"""Asking a ranker that runs in an environment of its own."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.environments import Missing, interpreter


def ask(ranker: str, tools: Sequence[Sequence[str]], queries: Sequence[str], *modes: str) -> object:
    """Let a peer rank tools, each given by namespace, name, description and parameters, in a process of its own.

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
