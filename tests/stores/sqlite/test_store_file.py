"""A write-ahead log that processes write to and empty while it is checked."""

import os
import sqlite3
from contextlib import closing

import pytest

from agenttool.stores.sqlite.store_file import StoreFile, StoreFileLost


@pytest.fixture
def logged(tmp_path):
    """Give a checked store file, its log, and a connection that writes to it."""
    path = tmp_path / "calls.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE entries (text)")
        store = StoreFile(path, connection)
        store.check()
        insert(connection)
        store.check_log()
        yield store, path.with_name("calls.db-wal"), connection
        store.close()


def insert(connection):
    connection.execute("INSERT INTO entries VALUES (?)", ["hello" * 300])


def test_a_log_that_another_process_empties_and_begins_again_is_no_truncated_log(logged):
    store, log, connection = logged
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert not log.stat().st_size
    store.check()
    insert(connection)
    store.check()
    store.check_log()
    store.check()


def test_a_log_without_its_last_byte_is_a_truncated_log(logged):
    store, log, _ = logged
    store.check()
    os.truncate(log, log.stat().st_size - 1)
    for _ in range(2):
        with pytest.raises(StoreFileLost, match="was truncated"):
            store.check()


def test_a_log_that_was_emptied_and_written_to_behind_the_gap_is_a_truncated_log(logged):
    store, log, connection = logged
    os.truncate(log, 0)
    store.check()
    insert(connection)
    with pytest.raises(StoreFileLost, match="was truncated"):
        store.check_log()
    with pytest.raises(StoreFileLost, match="was truncated"):
        store.check()


def test_a_log_to_which_another_thread_writes_during_a_check_is_no_truncated_log(logged, monkeypatch):
    store, _, connection = logged
    measure = StoreFile.log_size.fget

    def measure_before_a_commit(_):
        size = measure(store)
        monkeypatch.setattr(StoreFile, "log_size", property(measure))
        insert(connection)
        store.check_log()
        return size

    monkeypatch.setattr(StoreFile, "log_size", property(measure_before_a_commit))
    store.check_log()
    store.check()


@pytest.mark.parametrize("cut", [1, 4096, 4120 + 4096])
def test_a_log_that_was_cut_while_a_commit_was_written_is_a_truncated_log(logged, cut):
    store, log, connection = logged
    store.check()
    os.truncate(log, log.stat().st_size - cut)
    insert(connection)
    with pytest.raises(StoreFileLost, match="was truncated"):
        store.check_log()


def test_a_log_with_pages_that_a_running_transaction_deletes_is_no_truncated_log(logged):
    store, _, connection = logged
    connection.execute("PRAGMA cache_size = 10")  # so that pages are written before the commit
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("BEGIN")
    connection.execute("INSERT INTO entries VALUES (?)", ["hello" * 20_000])
    store.check()
    connection.execute("DELETE FROM entries")
    store.check()
    connection.execute("COMMIT")
    store.check()


def begin_again(connection):
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    insert(connection)


@pytest.mark.parametrize("write", [insert, begin_again])
def test_a_log_that_another_thread_writes_to_and_checks_at_any_moment_of_a_check_is_no_truncated_log(
    logged, monkeypatch, write
):
    store, _, connection = logged
    calls = {name: getattr(os, name) for name in ("lseek", "pread", "stat")}
    moments = iter(range(1000))
    chosen = -1

    def interrupted(name):
        def call(*arguments, **options):
            result = calls[name](*arguments, **options)
            if next(moments) == chosen:
                write(connection)
                store.check()
            return result

        return call

    for name in calls:
        monkeypatch.setattr(os, name, interrupted(name))
    for chosen in range(12):  # noqa: B007 -- the calls read it
        moments = iter(range(1000))
        store.check()


def test_a_growing_shared_memory_file_that_another_thread_checks_is_no_truncated_one(logged, monkeypatch):
    store, log, _ = logged
    index = str(log.with_name("calls.db-shm"))
    stat, moments = os.stat, iter(range(1000))

    def grow_after(path, **options):
        found = stat(path, **options)
        if path == index and not next(moments):
            os.truncate(index, found.st_size + 32_768)
            store.check()
        return found

    monkeypatch.setattr(os, "stat", grow_after)
    store.check()
    store.check()


def test_a_file_that_another_process_writes_page_by_page_is_no_truncated_file(logged, monkeypatch):
    store, log, connection = logged
    path = log.with_name("calls.db")
    connection.execute("PRAGMA wal_checkpoint").fetchone()
    store.check()
    size = path.stat().st_size
    os.truncate(path, size - 4096)
    monkeypatch.setattr("agenttool.stores.sqlite.store_file.time.sleep", lambda _: os.truncate(path, size))
    store.check()
