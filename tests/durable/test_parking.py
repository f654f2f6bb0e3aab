"""Very many open questions cost a runtime nothing until one of them is answered."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "parking.py"


@pytest.mark.soak
def test_a_hundred_thousand_questions_are_not_read_to_start_or_to_answer_one(asking, tmp_path):
    with asking(1) as (child, _):
        child.kill()
    done = subprocess.run([sys.executable, PROGRAM, tmp_path], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    seen = json.loads(done.stdout)
    assert (seen["listed"], seen["effects"]) == (10, 1)
    assert seen["grown"] < seen["size"] / 8
