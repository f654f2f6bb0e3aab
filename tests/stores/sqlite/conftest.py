"""A file to write to, and a call's facts to write."""

import sqlite3
from contextlib import suppress

import pytest
from call_facts import facts_of_call

from agenttool.journal.steps import STEPS
from agenttool.stores.sqlite.store import SqliteStore


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.db"


@pytest.fixture
def open_store(path):
    """Open the file as an owner, as often as a test likes; what a test leaves open, as a dead process does, is closed."""
    stores = []

    def open_store(owner=None):
        stores.append(SqliteStore.open(path, steps=STEPS, owner=owner))
        return stores[-1]

    yield open_store
    for store in stores:
        with suppress(sqlite3.Error):
            store._reader.close()
            store.log._writer.close()


@pytest.fixture
def write():
    async def write(store, *numbers, settle=True, apart=False):
        """Write calls, each with one commit; or each fact with its own."""
        for number in numbers:
            for fact in facts_of_call(number):
                store.log.append(fact)
                if apart:
                    await store.log.settle()
            if settle:
                await store.log.settle()

    return write


@pytest.fixture
def tamper(path):
    """Change the file behind the store's back."""

    def tamper(statement, values=()):
        connection = sqlite3.connect(path, isolation_level=None)
        count = connection.execute(statement, values).rowcount
        connection.close()
        return count

    return tamper
