"""Where the time of one call goes: each part beside the whole call. Not part of a full run; ask for it by name."""

import json
import os
import statistics
import subprocess
import sys
from typing import cast

from bench.figure import Absent, Figure, told
from bench.settings import Settings

WHOLE = "whole"
_WAYS = {"add_bytes": "a plain call", "add_checked": "a call phase by phase"}


def measure(settings: Settings) -> list[Figure | Absent]:
    """Have fresh processes put a clock around every part, several times, and take the middle of each."""
    return [figure for call in _WAYS for figure in _measure(call, settings)]


def _measure(call: str, settings: Settings) -> list[Figure]:
    rounds = [_round(call, settings) for _ in range(3 if settings.quick else 7)]
    spent = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
    whole = spent.pop(WHOLE)
    spent["elsewhere"] = whole - sum(spent.values())
    return [told(name, (seconds, whole), peer_name=_WAYS[call], unit="µs") for name, seconds in spent.items()]


def _round(call: str, settings: Settings) -> dict[str, float]:
    environment = {**os.environ, "PYTHONPATH": str(settings.source.resolve() / "src")}
    command = [sys.executable, "-m", "bench.phase_clock", call]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    return cast("dict[str, float]", json.loads(done.stdout))
