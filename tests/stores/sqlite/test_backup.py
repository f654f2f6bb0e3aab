"""A copy made while others write is whole, and the original does not notice."""

import asyncio
import os
import signal
import stat
import sys
import time

import pytest
from call_facts import invocation_number

from agenttool.errors import StoreError
from agenttool.journal.steps import STEPS
from agenttool.ports.stores import SavedCheckpoint
from agenttool.stores.sqlite.backup import STALE_COPY_S, copy_store
from agenttool.stores.sqlite.store import SqliteStore


async def test_a_copy_made_while_the_log_is_written_is_a_log_of_its_own(open_store, write, tmp_path):
    store = open_store()
    await write(store, *range(1, 200))
    store.open_calls.save(SavedCheckpoint(invocation_number(500), kind="asked", body=b"inputs"))
    head = store.log.head()

    async def proceed():
        for number in range(200, 240):
            await write(store, number)

    target = tmp_path / "copy.db"
    await asyncio.gather(asyncio.to_thread(copy_store, store.path, target, STEPS), proceed())
    await store.close()

    copy = SqliteStore.open(target, steps=STEPS)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert head.position <= copy.log.last <= 239 * 5
    assert list(copy.log.verify(head)) == []
    await write(copy, 1000)
    await copy.close()
    assert not list(tmp_path.glob("*.unfinished*"))


DYING = """
import os, signal, sys
from pathlib import Path
from agenttool.journal.steps import STEPS
from agenttool.stores.sqlite.backup import copy_store

copy_store(Path(sys.argv[1]), Path(sys.argv[2]), STEPS, beforehand=lambda: os.kill(os.getpid(), signal.SIGKILL))
"""


async def test_a_copy_whose_process_was_killed_never_appears_and_goes_a_day_later(open_store, write, path, tmp_path):
    store = open_store()
    await write(store, 1)
    target = tmp_path / "copies" / "copy.db"
    target.parent.mkdir()
    for _ in range(2):
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", DYING, path, target)
        assert await asyncio.wait_for(child.wait(), 60) == -signal.SIGKILL
    left, under_way = target.parent.iterdir()
    precious = target.with_name("mine.unfinished")
    precious.write_text("precious")
    for each in (left, precious):
        then = time.time() - STALE_COPY_S - 60
        os.utime(each, (then, then))
    await asyncio.to_thread(copy_store, store.path, target, STEPS)
    assert set(target.parent.iterdir()) == {target, under_way, precious}
    await store.close()


async def test_a_copy_never_takes_the_place_of_something(open_store, tmp_path):
    store = open_store()
    target = tmp_path / "copy.db"
    target.write_text("precious")
    with pytest.raises(StoreError, match="there already"):
        await asyncio.to_thread(copy_store, store.path, target, STEPS)
    with pytest.raises(StoreError, match="cannot copy"):
        await asyncio.to_thread(copy_store, store.path, tmp_path / "nowhere" / "copy.db", STEPS)
    assert target.read_text() == "precious"
    await store.close()
