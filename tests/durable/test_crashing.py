"""Processes are killed at random moments, and no result that a caller received turns out to be false."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "crashing.py"


def _rounds(folder, rounds, seed):
    program = [sys.executable, PROGRAM, folder, str(rounds), str(seed)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=rounds * 10 + 120, check=False)
    print(done.stdout, done.stderr)
    seen, *wrong = done.stdout.splitlines()
    assert [line for line in wrong if line] == []
    return json.loads(seen)


def test_ten_rounds_of_killing_break_no_promise(tmp_path):
    seen = _rounds(tmp_path, 10, random.randrange(10**6))
    assert seen["results"]
    assert seen["answers"]


@pytest.mark.soak
@pytest.mark.requirement("AT-INV-13")
@pytest.mark.requirement("AT-EVT-12")
@pytest.mark.parametrize("_half", [1, 2])
def test_many_rounds_of_killing_break_no_promise(tmp_path, _half):
    seen = _rounds(tmp_path, 60, random.randrange(10**6))
    assert {"succeeded", "rejected", "unknown_after_crash", "process_died"} <= set(seen["ends"])
