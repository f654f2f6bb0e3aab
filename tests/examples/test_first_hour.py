"""A new user with a fresh environment gets through the first hour with README and the site alone."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.soak
def test_the_first_hour_works_with_the_built_wheel_and_the_pages_alone():
    script = Path(__file__).with_name("first_hour.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
