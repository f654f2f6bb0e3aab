"""Kill real processes and fail real disks; committed events survive and no transaction is half written."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROUNDS = 100
BOUND_S = 600


def run(program, *arguments, before=()):
    done = subprocess.run(
        [*before, sys.executable, HERE / program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    summary, *wrong = done.stdout.strip().splitlines()
    return json.loads(summary), wrong


@pytest.mark.soak
def test_a_process_that_is_killed_at_any_moment_loses_nothing_it_has_settled(tmp_path):
    seed = int.from_bytes(os.urandom(4))
    print("seed", seed)
    seen, wrong = run("crashing.py", tmp_path, ROUNDS, seed)
    assert wrong == []
    assert seen["started"] > ROUNDS
    assert seen["ended"] > 0


@pytest.mark.slow
def test_processes_that_write_at_once_share_one_chain(tmp_path):
    writers = 3
    children = [
        subprocess.Popen(
            [sys.executable, HERE / "sharing.py", str(tmp_path), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(1, 1 + writers)
    ]
    try:
        for received in ("ready\n", "shared\n"):
            for child in children:
                assert child.stdout.readline() == received
            for child in children:
                child.stdin.write("go on\n")
                child.stdin.flush()
        said = [int(child.communicate(timeout=BOUND_S)[0]) for child in children]
    finally:
        for child in children:
            child.kill()
    assert [child.returncode for child in children] == [0] * writers
    seen, wrong = run("sharing.py", tmp_path, 0)
    assert wrong == []
    assert seen == {"calls": sum(said), "facts": sum(said) * 5, "switches": seen["switches"], "flaws": []}
    assert seen["switches"] > writers, "they never really wrote at once"


def check_failure(seen):
    assert all(each.startswith("cannot write to") for each in (*seen["alone"], *seen["together"]))
    assert seen["seen"] == 5, "what could not be settled could be read"
    assert (seen["after"], seen["whole"], seen["flaws"]) == (None, True, [])


def test_an_io_error_fails_every_waiter_and_loses_nothing(tmp_path):
    seen, _ = run("failing.py", "io", tmp_path)
    assert "I/O error" in seen["alone"][0]
    check_failure(seen)


def test_a_full_disk_fails_every_waiter_and_loses_nothing(tmp_path):
    apart = ["unshare", "--mount", "--map-root-user"]
    mounts = ["mount", "-t", "tmpfs", "tmpfs", str(tmp_path)]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*apart, *mounts], capture_output=True, check=False).returncode
    ):
        pytest.skip("a small file system of its own needs unshare and mount")
    seen, _ = run("failing.py", "full", tmp_path, before=apart)
    assert "full" in seen["alone"][0]
    check_failure(seen)


def test_a_failed_sync_fails_the_commit_and_is_retried(tmp_path):
    tracing = ["strace", "-f", "-qq", "-o", str(tmp_path / "trace"), "-e", "trace=fdatasync"]
    if (
        shutil.which("strace") is None
        or subprocess.run([*tracing, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("failing one system call on purpose needs strace")
    seen, _ = run("failing.py", "sync", tmp_path, before=[*tracing, "-e", "inject=fdatasync:error=EIO:when=15+3"])
    assert "INJECTED" in (tmp_path / "trace").read_text()
    assert 0 < seen["failed"] < 50
    assert (seen["last"], seen["flaws"]) == (50, [])
