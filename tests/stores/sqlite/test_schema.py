"""A file is ours and up to date, is made so in one step, or is refused and left as it was."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

from agenttool.errors import ConfigError
from agenttool.journal.steps import STEPS
from agenttool.ports.stores import Head
from agenttool.ports.world import Moment
from agenttool.stores.fact_codec import encode_fact, join_lines
from agenttool.stores.sqlite.fact_rows import link
from agenttool.stores.sqlite.schema import MIGRATIONS, migrate
from agenttool.stores.sqlite.store import SqliteStore
from agenttool.testing.call_facts import invocation_number, story_of


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


async def test_a_database_of_a_newer_agenttool_is_refused_and_left_alone(path, open_store):
    await open_store().close()
    connection = opened(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=r"schema 99.*upgrade agenttool"):
        open_store()
    assert path.read_bytes() == before


async def test_a_path_where_no_file_can_be_created_is_rejected(open_store, path):
    with pytest.raises(ConfigError, match="make its folder first"):
        SqliteStore.open(path.parent / "nowhere" / "state.db", steps=STEPS)
    path.mkdir()
    with pytest.raises(ConfigError, match="another file"):
        open_store()


async def test_an_older_database_is_brought_up_to_date_and_keeps_its_facts(path, open_store, write):
    store = open_store()
    await write(store, 1)
    await store.close()
    connection = opened(path)
    migrate(connection, "x", [*MIGRATIONS, ["CREATE TABLE added (x)", "INSERT INTO added SELECT max(last) FROM facts"]])
    assert connection.execute("SELECT x FROM added").fetchone() == (5,)
    assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS) + 1,)
    connection.close()


async def test_a_file_with_a_row_for_each_fact_keeps_its_facts_its_heads_and_its_open_calls(path, open_store, write):
    facts = [*story_of(1), *story_of(2)[:3]]
    connection = opened(path)
    connection.execute("PRAGMA journal_mode = WAL")
    migrate(connection, "x", MIGRATIONS[:1])
    (chained,) = connection.execute("SELECT hash FROM anchors").fetchone()
    for position, fact in enumerate(facts, 1):
        told = join_lines([encode_fact(fact)])
        chained = link(chained, told)
        connection.execute("INSERT INTO facts VALUES (?, ?, ?, ?)", (position, fact.invocation_id, chained, told))
    connection.execute(
        "INSERT INTO open_calls (invocation_id, kind, body, owner) VALUES (?, 'begun', x'', 'old')",
        (invocation_number(2),),
    )
    connection.close()
    pinned = Head(position=len(facts), hash=chained.hex())

    store = open_store()
    assert store.log.head() == pinned
    assert [fact.step for _, fact in store.log.read(0, 100)] == [fact.step for fact in facts]
    assert [fact.step for fact in store.log.facts_of(invocation_number(2))] == [fact.step for fact in facts[5:]]
    assert [call.invocation_id for call in await store.open_calls.due(now=Moment(1), limit=9)] == [invocation_number(2)]
    await write(store, 3)
    assert list(store.log.verify(pinned)) == []
    await store.close()


OF_BEFORE = ("REPLACE INTO owners VALUES ('old', 9, '', 0)", "DELETE FROM owners WHERE owner = 'old'")


@pytest.mark.parametrize("says", OF_BEFORE, ids=["that it lives", "that it leaves"])
async def test_a_process_of_an_older_version_cannot_write_after_the_migration(says, path, open_store, write):
    old = opened(path)
    old.execute("PRAGMA journal_mode = WAL")
    migrate(old, "x", MIGRATIONS[:5])
    old.execute(OF_BEFORE[0])
    store = open_store()
    await write(store, 1)
    with pytest.raises(sqlite3.OperationalError, match="no such table"):  # the head, which it would keep next, stays
        old.execute(says)
    old.close()
    await store.close()


async def test_a_migration_that_fails_leaves_the_file_as_it_was(path, open_store):
    await open_store().close()
    before = shape(path)
    connection = opened(path)
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, "x", [*MIGRATIONS, ["CREATE TABLE added (x)"], ["ALTER TABLE nowhere ADD COLUMN y"]])
    connection.close()
    assert shape(path) == before
    await open_store().close()


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
