"""A file to write to, and a call's facts to write."""

import sqlite3

import pytest
from call_facts import story_of

from agenttool.journal.steps import STEPS
from agenttool.stores.sqlite.store import SqliteStore


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.db"


@pytest.fixture
def open_store(path):
    """Open the file as an owner, as often as a test likes."""
    return lambda owner=None: SqliteStore.open(path, steps=STEPS, owner=owner)


@pytest.fixture
def write():
    async def write(store, *numbers, settle=True, apart=False):
        """Write calls, each with one commit; or each fact with its own."""
        for number in numbers:
            for fact in story_of(number):
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
