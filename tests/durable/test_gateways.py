"""Three gateways on one store crash, hang and restart while clients use them, and no response turns out to be untrue."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "gateways" / "rounds.py"
ROUNDS, SEED = 4, 2001


@pytest.mark.soak
def test_gateways_that_crash_and_hang_lose_nothing_repeat_nothing_and_report_the_truth(tmp_path):
    program = [sys.executable, "-s", PROGRAM, tmp_path / "rounds", str(ROUNDS), str(SEED)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=ROUNDS * 120 + 120, check=False)
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["faults"] == 0
    assert seen["succeeded"]
