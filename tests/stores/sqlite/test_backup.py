"""A copy made while others write is whole, and the original does not notice."""

import asyncio
import stat

import pytest

from agenttool.errors import StoreError
from agenttool.journal.steps import STEPS
from agenttool.stores.sqlite.store import SqliteStore
from agenttool.testing.contracts.story import invocation_number


async def test_a_copy_made_while_the_log_is_written_is_a_log_of_its_own(open_store, write, tmp_path):
    store = open_store()
    await write(store, *range(1, 200))
    store.open_calls.hold(invocation_number(500), kind="asked", body=b"inputs")
    head = store.log.head()

    async def go_on():
        for number in range(200, 240):
            await write(store, number)

    target = tmp_path / "copy.db"
    await asyncio.gather(store.backup(target), go_on())
    await store.close()

    copy = SqliteStore.open(target, steps=STEPS)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert head.position <= copy.log.last <= 239 * 5
    assert list(copy.log.verify(head)) == []
    await write(copy, 1000)
    await copy.close()
    assert not list(tmp_path.glob("*.unfinished*"))


async def test_a_copy_never_takes_the_place_of_something(open_store, tmp_path):
    store = open_store()
    target = tmp_path / "copy.db"
    target.write_text("precious")
    with pytest.raises(StoreError, match="there already"):
        await store.backup(target)
    with pytest.raises(StoreError, match="cannot copy"):
        await store.backup(tmp_path / "nowhere" / "copy.db")
    assert target.read_text() == "precious"
    await store.close()
