"""A file has the schema of this version, is created with it at once, or is rejected and left as it was."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

from agenttool.errors import ConfigError
from agenttool.journal.steps import STEPS
from agenttool.stores.sqlite.schema import VERSION
from agenttool.stores.sqlite.store import SqliteStore


def opened(path):
    return sqlite3.connect(path, isolation_level=None)


def shape(path):
    connection = opened(path)
    found = connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
    version = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return found, version


async def test_a_database_of_something_else_is_refused_and_left_alone(path, open_store):
    connection = opened(path)
    connection.execute("CREATE TABLE facts (theirs)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="something else"):
        open_store()
    assert path.read_bytes() == before


async def test_a_file_that_is_no_database_is_refused_and_left_alone(path, open_store):
    path.write_bytes(b"dear diary, " * 500)
    with pytest.raises(ConfigError, match="another file"):
        open_store()
    assert path.read_bytes() == b"dear diary, " * 500


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (8, "schema 8 of a version that was never released"),
        (
            VERSION + 1,
            rf"agenttool \d.*schema {VERSION + 1}, this one has {VERSION}\).*use that version or a newer one",
        ),
    ],
)
async def test_a_store_of_a_version_that_cannot_be_read_is_rejected_and_left_alone(version, message, path, open_store):
    await open_store().close()
    connection = opened(path)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=message):
        open_store()
    assert path.read_bytes() == before


async def test_a_path_where_no_file_can_be_created_is_rejected(open_store, path):
    with pytest.raises(ConfigError, match="make its folder first"):
        SqliteStore.open(path.parent / "nowhere" / "state.db", steps=STEPS)
    path.mkdir()
    with pytest.raises(ConfigError, match="another file"):
        open_store()


async def test_a_new_file_that_is_opened_concurrently_is_created_once(open_store):
    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(lambda _: open_store(), range(8)))
    assert len({store.log.head().hash for store in stores}) == 1
    for store in stores:
        await store.close()


HALF = {
    "a table is missing": "DROP TABLE processes",
    "an index is missing": "DROP INDEX open_due",
    "an order is missing": "DROP TRIGGER call_ended",
    "an order was added": "CREATE TRIGGER theirs AFTER INSERT ON facts BEGIN DELETE FROM answers; END",
    "a table is another": "DROP TABLE heads; CREATE VIEW heads AS SELECT 1 AS number, 5 AS position, x'00' AS hash",
}


@pytest.mark.parametrize("kind", HALF)
async def test_a_database_that_is_not_whole_is_refused_and_left_alone(kind, path, open_store):
    await open_store().close()
    connection = opened(path)
    connection.executescript(HALF[kind])
    connection.close()
    before = shape(path)
    with pytest.raises(ConfigError, match=r"not as agenttool made it.*newest backup"):
        open_store()
    assert shape(path) == before


async def test_an_unrelated_table_in_the_file_is_accepted(path, open_store):
    await open_store().close()
    connection = opened(path)
    connection.execute("CREATE TABLE notes (theirs)")
    connection.execute("ANALYZE")
    connection.close()
    await open_store().close()


async def test_the_error_of_a_damaged_schema_has_the_remedy(path, open_store):
    await open_store().close()
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE heads", b"CREATE TABLE \xab\xabads", 1))
    with pytest.raises(ConfigError, match="newest backup"):
        open_store()
