"""A write-ahead log that a process writes to while it is checked."""

import os
import sqlite3
from contextlib import closing

import pytest

from agenttool.stores.sqlite.store_file import StoreFile, StoreFileLost

PAGE = 4096


@pytest.fixture
def logged(tmp_path):
    """Give a checked store file, its log, and the content of a log with one commit more."""
    path = tmp_path / "calls.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE entries (text)")
        store = StoreFile(path)
        store.check()
        log = path.with_name("calls.db-wal")
        before = log.read_bytes()
        connection.execute("INSERT INTO entries VALUES (?)", ["hello" * 300])
        after = log.read_bytes()
        log.write_bytes(before)
        yield store, log, after
        store.close()


@pytest.mark.parametrize("stale", [b"", b"old" * 100, os.urandom(PAGE)])
def test_a_commit_that_is_being_written_is_no_truncated_log(logged, stale):
    store, log, after = logged
    log.write_bytes(after[:-PAGE] + stale)
    store.check()
    log.write_bytes(after)
    store.check()
    store.check()


def test_a_commit_whose_end_became_zeros_is_a_truncated_log(logged):
    store, log, after = logged
    log.write_bytes(after)
    store.check()
    log.write_bytes(after[:-1000] + bytes(1000))
    with pytest.raises(StoreFileLost, match="was truncated"):
        store.check()
