"""Whatever is done to the file behind the log's back shows."""

import asyncio
import shutil
import sqlite3
import tempfile
from contextlib import closing

import pytest
from call_facts import TOOL, facts_of_call, invocation_number
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttool.errors import StoreError
from agenttool.journal import steps
from agenttool.journal.steps import STEPS
from agenttool.ports.facts import Fact
from agenttool.ports.stores import SavedCheckpoint
from agenttool.ports.world import Moment
from agenttool.records import InvocationStatus
from agenttool.stores.fact_codec import encode_fact, join_lines, split_lines
from agenttool.stores.sqlite.connect import open_connection
from agenttool.stores.sqlite.fact_rows import link, register_functions
from agenttool.stores.sqlite.store import SqliteStore
from agenttool.stores.sqlite.verify import verify


def flaws(store, pinned=None):
    return [(flaw.position, flaw.what) for flaw in store.log.verify(pinned)]


async def test_an_untouched_log_is_clean(open_store, write):
    store = open_store()
    await write(store, 1, 2, 3)
    assert flaws(store) == []
    assert flaws(store, store.log.head()) == []
    await store.close()


TAMPERING = {
    "an edit": ("UPDATE facts SET lines = replace(lines, 'allow', 'deny!') WHERE last = 2", (2, "hash")),
    "another hash": ("UPDATE facts SET hash = zeroblob(32) WHERE last = 3", (3, "hash")),
    "a deletion": ("DELETE FROM facts WHERE last = 4", (5, "position")),
    "a gap": ("UPDATE facts SET last = last + 100 WHERE last >= 9", (109, "position")),
    "another call": ("UPDATE facts_of_call SET invocation_id = 'inv_else' WHERE last = 7", (7, "invocation_id")),
    "a call hidden": ("DELETE FROM facts_of_call WHERE last = 7", (7, "invocation_id")),
    "a call where it is not": ("INSERT INTO facts_of_call VALUES ('inv_else', 7)", (10, "invocation_id")),
    "the first one gone": ("DELETE FROM facts WHERE last = 1", (2, "position")),
    "one before the first": (
        "INSERT INTO facts SELECT -5, hash, lines, owner FROM facts WHERE last = 2",
        (-5, "position"),
    ),
    "a call where nothing is yet": ("INSERT INTO facts_of_call VALUES ('inv_else', 99)", (10, "invocation_id")),
    "a head that is none": ("REPLACE INTO heads VALUES (1, 'soon', 'none')", (0, "head")),
    "a head that passes for the beginning": (
        "REPLACE INTO heads SELECT 1, 'soon', hash FROM anchors",
        (10, "invocation_id"),
    ),
    "calls begun that nobody can read": ("INSERT INTO started_calls VALUES ('somebody', 1, '{{')", (10, "started")),
    "text in place of bytes": ("UPDATE facts SET lines = 'a fact' WHERE last = 2", (2, "hash")),
    "a number in place of a hash": ("UPDATE facts SET hash = 5 WHERE last = 2", (2, "hash")),
    "a member that no call has": (
        "UPDATE facts SET lines = replace(CAST(lines AS TEXT), 'model_input', 'moral_input') WHERE last = 1",
        (1, "hash"),
    ),
    "a moment that never is": (
        """UPDATE facts SET lines = '["planned",-5,0,"inv_1","t",null]' WHERE last = 6""",
        (6, "hash"),
    ),
}
ADDING = {
    "an order of somebody else": "CREATE TRIGGER theirs AFTER INSERT ON facts BEGIN DELETE FROM answers; END",
    "an index of somebody else": "CREATE UNIQUE INDEX theirs ON facts (hash)",
}


@pytest.mark.parametrize("kind", TAMPERING)
async def test_tampering_shows_where_it_is(kind, open_store, write, tamper):
    store = open_store()
    await write(store, 1, 2, apart=True)
    await store.open_calls.renew_lease(Moment(1))  # which has everything in the index
    statement, expected = TAMPERING[kind]
    assert tamper(statement) >= 1
    found = flaws(store)
    assert found[found[0] == (10, "head")] == expected  # the stored head may be gone from its place as well
    await store.close()


@pytest.mark.parametrize("kind", ADDING)
async def test_what_was_added_to_the_tables_shows(kind, open_store, write, tamper):
    store = open_store()
    await write(store, 1)
    tamper("CREATE TABLE notes (theirs)")
    assert flaws(store) == []
    tamper(ADDING[kind])
    assert flaws(store) == [(0, "schema")]
    await store.close()


async def test_verify_raises_if_the_anchor_is_missing(open_store, write, tamper):
    store = open_store()
    await write(store, 1)
    tamper("DELETE FROM anchors")
    with pytest.raises(StoreError, match="the anchor of the log is missing"):
        flaws(store)
    await store.close()


async def test_a_question_that_was_taken_out_shows(open_store, tamper):
    store = open_store()
    call = invocation_number(1)
    store.log.append(Fact(steps.ADMITTED, 1, 0, call, TOOL, None))
    store.log.append(Fact(steps.ASKED, 2, steps.ADMITTED.events, call, TOOL, None))
    store.open_calls.save(SavedCheckpoint(call, kind="asked", body=b"{}", approval_id="apr_1"))
    await store.log.settle()
    assert flaws(store) == []
    tamper("DELETE FROM open_calls")
    tamper("INSERT INTO started_calls VALUES ('somebody', 1, json_array(?))", (call,))
    assert flaws(store) == [(2, "question")]
    await store.close()


async def test_two_facts_that_changed_places_show(open_store, write, tamper):
    store = open_store()
    await write(store, 1, 2, apart=True)
    for statement in ("= 99 WHERE last = 6", "= 6 WHERE last = 7", "= 7 WHERE last = 99"):
        tamper(f"UPDATE facts SET last {statement}")
    found = flaws(store)
    assert {(6, "hash"), (7, "hash")} <= set(found)
    await store.close()


@given(st.data())
@settings(max_examples=40)
def test_a_fact_edited_taken_out_put_in_or_moved_among_those_written_with_it_shows(untouched, data):
    change = data.draw(st.sampled_from(["edit", "take out", "put in", "move"]))
    place = data.draw(st.integers(0, 3))
    with tempfile.TemporaryDirectory() as folder:
        path = shutil.copy(untouched, folder)
        with closing(open_connection(path)) as connection:
            register_functions(connection)
            (reported,) = connection.execute("SELECT lines FROM facts WHERE last = 5").fetchone()
            lines = split_lines(reported)
            match change:
                case "edit":
                    lines[place] = lines[place].replace(b"inv_", b"inv-")
                case "take out":
                    del lines[place]
                case "put in":
                    lines.insert(place, lines[place])
                case _:
                    lines[place], lines[place + 1] = lines[place + 1], lines[place]
            connection.execute("UPDATE facts SET lines = ? WHERE last = 5", (join_lines(lines),))
            found = [(flaw.position, flaw.what) for flaw in verify(connection, STEPS)]
    assert (5, "hash") in found


async def test_a_cut_tail_is_detected_with_a_pinned_head(open_store, write, tamper):
    store = open_store()
    await write(store, 1, 2)
    pinned = store.log.head()
    tamper("DELETE FROM facts WHERE last > 5")
    assert flaws(store) == []  # the chain alone cannot know how long it was
    assert flaws(store, pinned) == [(10, "pin")]
    await store.close()


async def test_a_tail_that_was_cut_from_what_is_in_the_index_shows(open_store, write, tamper):
    store = open_store()
    await write(store, 1, 2)
    await store.open_calls.renew_lease(Moment(1))
    tamper("DELETE FROM facts WHERE last > 5")
    assert flaws(store) == [(10, "head"), (5, "invocation_id")]
    tamper("DELETE FROM facts_of_call WHERE last > 5")
    assert flaws(store) == [(10, "head")]
    tamper("DELETE FROM heads")
    assert flaws(store) == [(0, "head"), (5, "invocation_id")]


async def test_no_process_appends_to_a_log_whose_end_was_cut(open_store, write, tamper):
    store = open_store("one")
    await write(store, 1, 2)
    await store.open_calls.renew_lease(Moment(1))
    for table in ("facts", "facts_of_call"):
        tamper(f"DELETE FROM {table} WHERE last > 5")
    successor = open_store("successor")
    for _ in range(2):
        with pytest.raises(StoreError, match="the log ends at 5, though it had come to 10"):
            await successor.open_calls.renew_lease(Moment(2))
        assert flaws(successor) == [(10, "head")]
    for each in (store, successor):
        with pytest.raises(StoreError):
            await each.open_calls.renew_lease(Moment(3))
        each.log.group._writer.close()
        each._reader.close()


async def test_an_unreadable_list_of_started_calls_is_a_flaw(open_store, write, tamper):
    store = open_store("one")
    await store.open_calls.renew_lease(Moment(1))
    await write(store, 1)
    store.log.append(facts_of_call(2)[0])
    await store.log.settle()
    await store.open_calls.renew_lease(Moment(1))
    tamper("INSERT INTO started_calls VALUES ('somebody', 1, '{{')")
    assert flaws(store) == [(6, "started")]
    tamper("DELETE FROM started_calls WHERE owner = 'one'")
    assert flaws(store) == [(6, "end"), (6, "started")]
    await store.close()


async def test_a_missing_stored_head_is_a_flaw(open_store, write, tamper):
    store = open_store()
    assert flaws(store) == []
    await write(store, 1)
    tamper("DELETE FROM heads")
    assert flaws(store) == [(0, "head")]
    with pytest.raises(StoreError, match="the stored head of the log is missing"):
        await write(store, 2)


async def test_a_rewritten_chain_is_detected_with_a_pinned_head(open_store, write, path):
    store = open_store()
    await write(store, 1, 2)
    pinned = store.log.head()
    connection = sqlite3.connect(path, isolation_level=None)
    (chained,) = connection.execute("SELECT hash FROM anchors").fetchone()
    for position, reported in connection.execute("SELECT last, lines FROM facts ORDER BY last").fetchall():
        changed = reported.replace(b"allow", b"deny!")
        chained = link(chained, changed)
        connection.execute("UPDATE facts SET lines = ?, hash = ? WHERE last = ?", (changed, chained, position))
    connection.close()
    assert flaws(store) == []
    assert flaws(store, pinned) == [(10, "pin")]
    await store.close()


async def test_a_pin_from_before_retention_is_not_taken_on_trust(open_store, write):
    store = open_store()
    await write(store, 1)
    pinned = store.log.head()
    await write(store, 2)
    await store.log.delete_before(2**62)
    assert flaws(store, pinned) == [(5, "pin")]
    assert flaws(store, store.log.head()) == []
    await store.close()


async def test_the_chain_of_one_log_does_not_pass_for_another_s(tmp_path, write):
    heads = []
    for name in ("a.db", "b.db"):
        store = SqliteStore.open(tmp_path / name, steps=STEPS)
        await write(store, 1)
        heads.append(store.log.head())
        await store.close()
    assert heads[0].position == heads[1].position
    assert heads[0].hash != heads[1].hash


async def test_an_invalid_sequence_of_steps_is_a_flaw_even_if_the_chain_is_valid(open_store):
    store = open_store()
    whole = facts_of_call(1)
    for fact in (whole[0], whole[0], whole[4]):  # admitted twice, and ended without having been started
        store.log.append(fact)
    await store.log.settle()
    assert flaws(store) == [(2, "sequence"), (2, "status"), (3, "sequence")]
    await store.close()


async def test_an_end_without_a_result_shows(open_store):
    store = open_store()
    whole = facts_of_call(1)
    ended = type(whole[4])(
        steps.ENDED[InvocationStatus.SUCCEEDED], 1, whole[4].sequence, invocation_number(1), "t", {"result_id": "res_1"}
    )
    for fact in (*whole[:4], ended):
        store.log.append(fact)
    await store.log.settle()
    assert flaws(store) == [(5, "result")]
    await store.close()


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    """A file with two calls, to be copied and then changed."""
    path = tmp_path_factory.mktemp("untouched") / "state.db"

    async def write():
        store = SqliteStore.open(path, steps=STEPS)
        for number in (1, 2):
            for fact in facts_of_call(number):
                store.log.append(fact)
            await store.log.settle()
        await store.close()

    asyncio.run(write())
    return path


@given(st.data())
@settings(max_examples=40)
def test_any_changed_byte_shows_where_it_was_written(untouched, data):
    rows = [join_lines(map(encode_fact, facts_of_call(number))) for number in (1, 2)]
    number = data.draw(st.integers(0, 1))
    last = 5 * (number + 1)
    column = data.draw(st.sampled_from(["lines", "hash"]))
    size = len(rows[number]) if column == "lines" else 32
    spot, mask = data.draw(st.integers(0, size - 1)), data.draw(st.integers(1, 255))
    with tempfile.TemporaryDirectory() as folder:
        path = shutil.copy(untouched, folder)
        with closing(open_connection(path)) as connection:
            register_functions(connection)
            (was,) = connection.execute(f"SELECT {column} FROM facts WHERE last = ?", (last,)).fetchone()
            now = bytearray(was)
            now[spot] ^= mask
            connection.execute(f"UPDATE facts SET {column} = ? WHERE last = ?", (bytes(now), last))
            found = [(flaw.position, flaw.what) for flaw in verify(connection, STEPS)]
    assert (last, "hash") in found
