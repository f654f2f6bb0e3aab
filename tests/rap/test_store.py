"""Callers that wait together share a commit, and no failure of one is another's."""

import asyncio
import sqlite3

import pytest

from agenttool.rap.store import ProviderStore


def note(connection, name):
    connection.execute("INSERT INTO nonces VALUES (?, 0)", (name,))
    return name


def note_and_fail(connection, name):
    note(connection, name)
    raise ValueError(name)


def names(connection):
    return [name for (name,) in connection.execute("SELECT nonce FROM nonces ORDER BY nonce")]


async def test_a_failing_operation_is_rolled_back_and_the_others_are_committed(tmp_path):
    store = ProviderStore(tmp_path / "rap.db")
    work = [(note, "a"), (note_and_fail, "b"), (note, "c"), (note, "a"), (note, "d")]
    message = await asyncio.gather(*(store.run(do, name) for do, name in work), return_exceptions=True)
    assert [message[0], message[2], message[4]] == ["a", "c", "d"]
    assert [type(message[1]), type(message[3])] == [ValueError, sqlite3.IntegrityError]
    await store.close()
    again = ProviderStore(tmp_path / "rap.db")
    assert await again.run(names) == ["a", "c", "d"]
    await again.close()


async def test_a_failure_alone_leaves_nothing_behind(tmp_path):
    store = ProviderStore(tmp_path / "rap.db")
    with pytest.raises(ValueError, match="b"):
        await store.run(note_and_fail, "b")
    assert await store.run(names) == []
    await store.close()
