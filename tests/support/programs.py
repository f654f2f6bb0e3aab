"""Programs of the system that tests run."""

import fcntl
import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def one_at_a_time(name):
    """Let one test process install something while the others wait."""
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def find_program(package, *other_names):
    """Return the path of a program; install its Debian package if this process may; skip the test if not."""
    with one_at_a_time(package):
        found = next(filter(None, map(shutil.which, (package, *other_names))), None)
        if found is None and shutil.which("apt-get") and os.geteuid() == 0:
            command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package]
            environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            subprocess.run(command, check=False, capture_output=True, env=environment, timeout=900)
            found = shutil.which(package)
    return found or pytest.skip(f"no {package} found; install it, for example: apt-get install {package}")
