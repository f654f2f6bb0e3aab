"""The file is for its owner's eyes only, and promises what was asked for."""

import stat

import pytest

from agenttool.errors import StoreError
from agenttool.journal.steps import STEPS
from agenttool.stores.sqlite.connect import Durability
from agenttool.stores.sqlite.store import SqliteStore


async def test_nobody_else_can_read_the_file_nor_what_stands_beside_it(path, open_store, write):
    store = open_store()
    await write(store, 1)
    beside = sorted(path.parent.glob("state.db*"))
    assert len(beside) == 3
    assert [stat.S_IMODE(each.stat().st_mode) for each in beside] == [0o600] * 3
    await store.close()
    assert sorted(path.parent.glob("state.db*")) == [path]


@pytest.mark.parametrize(("durability", "level"), [(Durability.FULL, 2), (Durability.NORMAL, 1)])
async def test_a_commit_waits_for_the_disk_as_promised(path, write, durability, level):
    store = SqliteStore.open(path, steps=STEPS, durability=durability)
    await write(store, 1)
    connection = store.log.group._writer._connection
    assert connection.execute("PRAGMA synchronous").fetchone() == (level,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    await store.close()


async def test_a_damaged_page_is_told_with_what_to_do_about_it(path, open_store, write):
    store = open_store()
    await write(store, *range(1, 200))
    await store.close()
    damaged = bytearray(path.read_bytes())
    middle = len(damaged) // 2 // 4096 * 4096
    damaged[middle : middle + 4096] = bytes(4096)
    path.write_bytes(damaged)
    store = open_store()
    with pytest.raises(StoreError, match="newest backup"):
        list(store.log.verify())
    await store.close()
