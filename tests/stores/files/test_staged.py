"""What a process leaves that is killed while it keeps bytes goes; what one that lives is writing stays."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from agenttool.codec import digest_of_bytes
from agenttool.stores.files.payloads import REFRESH_S, ObjectPayloads

DATA = b"twelve lines of notes"
DIGEST = digest_of_bytes(DATA)
BOUND_S = 60


@contextmanager
def staging(folder):
    """Let a child keep bytes, up to before the last of them."""
    program = [sys.executable, Path(__file__).with_name("staging.py"), folder]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout.readline() == "some are there\n"
            yield child
        finally:
            child.kill()


def files_in(folder):
    return [each for each in folder.rglob("*") if each.is_file()]


def make_old(file, seconds):
    then = time.time() - seconds
    os.utime(file, (then, then))


async def test_what_a_process_left_that_was_killed_goes_after_a_day(tmp_path):
    with staging(tmp_path) as child:
        child.kill()
    (left,) = files_in(tmp_path)
    assert left.name.endswith("#1")
    store = ObjectPayloads.open(tmp_path)
    await store.put(DATA, DIGEST)
    make_old(left, REFRESH_S - 60)
    await store.expire(0)
    assert left.exists(), "whoever writes it may live"
    make_old(left, REFRESH_S + 60)
    assert await store.expire(0) == 0, "it never was a payload"
    assert not left.exists()
    assert await store.get(DIGEST) == DATA


async def test_what_a_process_that_lives_is_writing_stays_and_gets_its_name(tmp_path):
    with staging(tmp_path) as child:
        store = ObjectPayloads.open(tmp_path)
        await store.expire(time.time_ns())
        said, _ = child.communicate("go on\n", timeout=BOUND_S)
        assert (await store.get(said.strip())).endswith(b"the last")


async def test_only_what_the_library_stages_is_swept(tmp_path):
    store = ObjectPayloads.open(tmp_path)
    await store.put(DATA, DIGEST)
    (kept,) = files_in(tmp_path)
    others = [kept.with_name(name) for name in (f"{kept.name}#1", f"{kept.name}#12", "notes#one", "#", "README")]
    for each in others:
        each.write_bytes(DATA)
        make_old(each, 2 * REFRESH_S)
    elsewhere = tmp_path / "notes#1"
    elsewhere.write_bytes(DATA)
    make_old(elsewhere, 2 * REFRESH_S)
    await store.expire(0)
    assert [each.exists() for each in others] == [False, False, True, True, True]
    assert (kept.exists(), elsewhere.exists()) == (True, True)
