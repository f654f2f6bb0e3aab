"""Every store keeps the promises of its port: the same list for all of them."""

from contextlib import asynccontextmanager, suppress

import pytest
from obstore.store import MemoryStore

from agenttool.errors import StoreError
from agenttool.journal.steps import STEPS
from agenttool.stores.files.payloads import ObjectPayloads
from agenttool.stores.memory import CallTable, MemoryDocuments, MemoryLog, MemoryOpenCalls, MemoryPayloads
from agenttool.stores.sqlite.connect import Durability
from agenttool.stores.sqlite.store import SqliteStore
from agenttool.testing.contracts import (
    DURABLE_LOG_PROMISES,
    LOG_PROMISES,
    OPEN_CALLS_PROMISES,
    PAYLOAD_PROMISES,
    SHELF_PROMISES,
)


def name(promise):
    return promise.__name__


def always(store):
    """Open one thing that lives in memory, again and again."""

    @asynccontextmanager
    async def opened():
        yield store

    return opened


def sqlite(folder, durability=Durability.FULL):
    @asynccontextmanager
    async def opened(owner=None):
        store = SqliteStore.open(folder / "state.db", steps=STEPS, durability=durability, owner=owner)
        try:
            yield store
        finally:
            await store.close()

    return opened


def sqlite_log(folder, durability=Durability.FULL):
    @asynccontextmanager
    async def opened():
        async with sqlite(folder, durability)() as store:
            yield store.log

    return opened


LOGS = {
    "memory": lambda _: always(MemoryLog()),
    "sqlite": sqlite_log,
    "sqlite, normal": lambda folder: sqlite_log(folder, Durability.NORMAL),
}


@pytest.mark.parametrize("promise", LOG_PROMISES, ids=name)
@pytest.mark.parametrize("kind", LOGS)
async def test_a_log_keeps_its_promises(kind, promise, tmp_path):
    await promise(LOGS[kind](tmp_path))


@pytest.mark.parametrize("promise", DURABLE_LOG_PROMISES, ids=name)
@pytest.mark.parametrize("kind", [kind for kind in LOGS if kind != "memory"])
async def test_a_durable_log_keeps_its_promises(kind, promise, tmp_path):
    await promise(LOGS[kind](tmp_path))


def memory_calls(folder):
    table = CallTable()
    return lambda owner: always(MemoryOpenCalls(owner, table))()


def sqlite_calls(folder):
    @asynccontextmanager
    async def opened(owner):
        store = SqliteStore.open(folder / "state.db", steps=STEPS, owner=owner)
        try:
            yield store.open_calls
        finally:
            with suppress(StoreError):  # one of them is taken for dead, and may not say what it still had to say
                await store.close()

    return opened


@pytest.mark.parametrize("promise", OPEN_CALLS_PROMISES, ids=name)
@pytest.mark.parametrize("kind", [memory_calls, sqlite_calls], ids=name)
async def test_open_calls_keep_their_promises(kind, promise, tmp_path):
    await promise(kind(tmp_path))


PAYLOADS = {
    "memory": lambda _: MemoryPayloads(),
    "folder": lambda folder: ObjectPayloads.open(folder / "payloads"),
    "object store": lambda _: ObjectPayloads(MemoryStore()),
}


@pytest.mark.parametrize("promise", PAYLOAD_PROMISES, ids=name)
@pytest.mark.parametrize("kind", PAYLOADS)
async def test_payloads_keep_their_promises(kind, promise, tmp_path):
    await promise(always(PAYLOADS[kind](tmp_path)))


def sqlite_shelf(folder):
    @asynccontextmanager
    async def opened():
        async with sqlite(folder)() as store:
            yield store.shelf

    return opened


SHELVES = {"memory": lambda _: always(MemoryDocuments()), "sqlite": sqlite_shelf}


@pytest.mark.parametrize("promise", SHELF_PROMISES, ids=name)
@pytest.mark.parametrize("kind", SHELVES)
async def test_a_shelf_keeps_its_promises(kind, promise, tmp_path):
    await promise(SHELVES[kind](tmp_path))
