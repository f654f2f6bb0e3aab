"""A reader changes nothing, and learns what cannot be read."""

import asyncio
import shutil
import sqlite3
import subprocess
import sys

import pytest
from call_facts import invocation_number

from agenttool.errors import ConfigError
from agenttool.journal.steps import STEPS
from agenttool.stores.sqlite.reader import SqliteReader


def look(path):
    return SqliteReader.open(path, steps=STEPS)


def folder(path):
    return sorted(path.parent.iterdir())


async def test_a_reader_leaves_the_file_and_its_folder_as_they_were(path, open_store, write):
    store = open_store()
    await write(store, 1, 2)
    await store.close()
    before = path.read_bytes(), folder(path)
    with look(path) as reader:
        assert len(reader.read(0)) == 10
    assert (path.read_bytes(), folder(path)) == before


async def test_a_reader_sees_new_facts_unless_it_reads_a_snapshot(path, open_store, write):
    store = open_store()
    await write(store, 1)
    with look(path) as reader:
        with reader.at_one_moment():
            assert reader.count() == (5, 1)
            await write(store, 2)
            assert reader.count() == (5, 1)
        assert reader.count() == (10, 2)
    await store.close()


async def test_calls_are_found_by_either_end_of_their_ids(path, open_store, write):
    store = open_store()
    await write(store, 1, 0x21, 0x31)
    with look(path) as reader:
        assert reader.calls_beginning("inv_0", 2) == [invocation_number(0x31), invocation_number(0x21)]
        assert reader.calls_beginning("inv_1", 2) == []
        assert reader.calls_ending("021", 2) == [invocation_number(0x21)]
        assert reader.calls_ending("1", 9) == [invocation_number(each) for each in (0x31, 0x21, 1)]
    await store.close()


READ_ONLY = (
    "mount --bind {0} {0} && mount -o remount,ro,bind {0} && {1} -m agenttool verify --store {0}/state.db"
    " && {1} -m agenttool backup {2} --store {0}/state.db"
)


def test_a_file_on_a_disk_that_cannot_be_written_can_be_looked_at_and_copied(path, open_store, write, tmp_path_factory):
    async def fill():
        store = open_store()
        await write(store, 1, 2)
        await store.close()

    asyncio.run(fill())
    apart = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
    if shutil.which("unshare") is None or subprocess.run([*apart, "mount -t tmpfs x /mnt"], check=False).returncode:
        pytest.skip("a disk that cannot be written needs unshare and mount")
    copy = tmp_path_factory.mktemp("copies") / "copy.db"
    shown = [*apart, READ_ONLY.format(path.parent, sys.executable, copy)]
    done = subprocess.run(shown, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "2, of which 2 ended" in done.stdout
    with look(copy) as reader:
        assert list(reader.verify()) == []


def foreign(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mine (x)")
    connection.close()


def newer(path):
    connection = sqlite3.connect(path)
    connection.executescript(
        "PRAGMA application_id = 0x41677454; PRAGMA user_version = 99; CREATE TABLE facts (x);"
        "CREATE TABLE upgrades (version, at_s, program); INSERT INTO upgrades VALUES (99, 0, 'agenttool 9.9')"
    )
    connection.close()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: None, "there is no journal at"),
        (lambda path: path.mkdir(), "there is no journal at"),
        (lambda path: path.write_bytes(b""), "holds no journal yet"),
        (lambda path: path.write_bytes(b"not a database" * 500), "not a database"),
        (foreign, "a database of something else"),
        (newer, "was written by agenttool 9.9 .*use that version"),
    ],
)
def test_a_file_that_is_not_a_journal_is_rejected_and_nothing_is_created(path, make, message):
    make(path)
    before = folder(path)
    with pytest.raises(ConfigError, match=message) as refused, look(path):
        pass
    assert str(path) in str(refused.value)
    assert folder(path) == before


async def test_looking_for_the_calls_that_a_call_made_reads_nothing_behind_its_end(open_store, write, path):
    store = open_store()
    counts = []
    for first, count in ((1, 10), (11, 300)):
        await write(store, *range(first, first + count))
        with SqliteReader.open(path, steps=STEPS) as reader:
            placed = [place for place, _ in reader.facts_of(invocation_number(5))]
            steps_taken = [0]
            reader._connection.set_progress_handler(lambda taken=steps_taken: taken.append(0), 1)
            assert reader.calls_made_by(invocation_number(5), (placed[0], placed[-1]), 10) == []
            counts.append(len(steps_taken))
    assert counts[1] <= 1.5 * counts[0]
    await store.close()
