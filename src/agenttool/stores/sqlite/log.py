"""The log of facts in a SQLite file, and its retention."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from agenttool.errors import StoreError
from agenttool.ports.facts import Fact, Step
from agenttool.ports.stores import Head, JournalFlaw
from agenttool.records import InvocationId, replace
from agenttool.stores.fact_codec import call_of, decode_fact, encode_fact, head_of, split_lines
from agenttool.stores.sqlite.connect import as_json
from agenttool.stores.sqlite.fact_rows import (
    STARTED_CALLS,
    as_head,
    find_anchor,
    find_head,
    index_rows,
    lines_of,
    read_forward,
)
from agenttool.stores.sqlite.group_commit import GroupCommit
from agenttool.stores.sqlite.leases import is_open
from agenttool.stores.sqlite.store_file import StoreFile
from agenttool.stores.sqlite.verify import verify
from agenttool.stores.sqlite.writer import LeaseState, Writer

_NO_LEASE = LeaseState.NONE

FACT_BYTES = 256 << 20
"""The maximum size of a fact; the other rows of its call fit into the file, too."""

POLL_S = 0.1
"""How often a listener checks whether another process wrote."""

DELETE_ROWS, FREE_PAGES = 500, 250
"""How many rows of facts are checked, and how many free pages are removed from the file, in one transaction of
retention, so that writers do not wait long."""

_HAS_CHECKPOINT = "SELECT 1 FROM json_each(?) WHERE value IN (SELECT invocation_id FROM open_calls) LIMIT 1"
# Some calls that are listed as started have ended since.
_STARTED = (
    "SELECT value FROM json_each(?) AS called"  # noqa: S608 -- constants only
    f" WHERE EXISTS (SELECT 1 FROM started_calls, {STARTED_CALLS} AS one WHERE one.value = called.value)"
)
# Without their facts, calls that are listed as started would look open to recovery.
_UNLIST = (
    f"UPDATE started_calls SET calls = (SELECT json_group_array(one.value) FROM {STARTED_CALLS} AS one"  # noqa: S608 -- constants
    " WHERE one.value NOT IN (SELECT value FROM json_each(:deleted)))"
    f" WHERE EXISTS (SELECT 1 FROM {STARTED_CALLS} AS one WHERE one.value IN (SELECT value FROM json_each(:deleted)))"
)


class SqliteLog:
    """Facts in order, hash-chained. A fact is encoded when it is appended, so later changes do not affect it."""

    durable = True

    def __init__(self, file: StoreFile, writer: Writer, steps: Mapping[str, Step]) -> None:
        self.group = GroupCommit(writer, self._wake)
        self.settle = self.group.settle
        """Returns an awaitable that completes once all facts appended before are on disk."""
        self._file = file
        self._steps = steps
        self._listeners: list[Callable[[], None]] = []
        self._is_polling = False
        self._version = 0
        self._writer = writer

    def append(self, fact: Fact) -> None:
        """Append one fact."""
        call, line = fact.invocation_id, encode_fact(fact)
        if len(line) > FACT_BYTES:
            size = f"{len(line):,} bytes, and the limit is {FACT_BYTES:,}"
            raise StoreError(f"the fact {fact.step.name!r} of {call!r} is {size}; pass a file, not its content")
        group = self.group
        if group.lost and call is not None and not fact.sequence:
            group.lost.discard(call)  # nothing of it was stored, and its parent, which was resumed here, makes it again
        batch = group.add((call, line))
        if call is None or self._writer.lease is _NO_LEASE:
            return
        if not fact.sequence:
            batch.born.add(call)
        # A call with facts on disk and no end must be listed as started. A call that ends before anything of it was
        # written never is, which is most calls that only read.
        if fact.step.ends:
            group.forget(call)
        else:
            group.started.add(call)

    def amend_end(self, end: Fact) -> bool | None:
        """Replace the end of a call that is queued; drop all of a call of which nothing is stored."""
        call = end.invocation_id
        queued = [] if call is None else self.group.amendable(call)
        if call is None or not queued:
            return None if queued is None else False
        first, last = (decode_fact(queued[place], self._steps).sequence for place in (0, -1))
        self.group.amend(call, encode_fact(replace(end, sequence=last)) if first else None)
        return True

    def ended(self, chars: int) -> None:
        """Do nothing: retention deletes facts."""

    @property
    def last(self) -> int:
        """The position of the newest fact."""
        with self._file.reading() as reader:
            return find_head(reader)[0]

    def read(self, after: int, limit: int) -> Sequence[tuple[int, Fact]]:
        """Return facts after a position."""
        with self._file.reading() as reader:
            return read_forward(reader, self._steps, after, limit)

    def facts_of(self, invocation_id: InvocationId) -> Sequence[Fact]:
        """Return the facts of one call: those on disk, and those of this process that are not written yet."""
        pending = [line for call, line in self.group.pending() if call == invocation_id]
        with self._file.reading() as reader:
            stored = [line for _, line in lines_of(reader, invocation_id)]
        # A running commit may have reached the disk meanwhile.
        lines = (*stored, *(line for line in pending if line not in stored))
        return tuple(decode_fact(line, self._steps) for line in lines)

    def stored_facts_of(self, invocation_id: InvocationId) -> Sequence[Fact]:
        """Return the facts of one call that are on disk."""
        with self._file.reading() as reader:
            return tuple(decode_fact(line, self._steps) for _, line in lines_of(reader, invocation_id))

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` when facts were stored: at once for those of this process, soon for those of others."""
        self._listeners.append(wake)
        if not self._is_polling:
            with suppress(RuntimeError):  # without a loop other processes are not polled
                self._poll(asyncio.get_running_loop())
        return lambda: self._listeners.remove(wake)

    def head(self) -> Head:
        """Return the end of the chain."""
        with self._file.reading() as reader:
            return as_head(find_head(reader))

    def verify(self, pinned: Head | None = None) -> Iterator[JournalFlaw]:
        """Walk the chain and yield every flaw."""
        with self._file.reading() as reader:
            yield from verify(reader, self._steps, pinned)

    async def delete_before(self, before_ns: int) -> Head:
        """Delete the oldest facts and shrink the file, some at a time, so that writers do not wait long."""
        while not await self.group.perform(lambda connection: delete_facts(connection, self._steps, before_ns)):
            pass
        while not await self.group.perform(remove_free_pages, erases=True):
            pass
        with self._file.reading() as reader:
            return as_head(find_anchor(reader))

    def _wake(self) -> None:
        for wake in tuple(self._listeners):
            wake()

    def _poll(self, loop: asyncio.AbstractEventLoop) -> None:
        """Check, as long as there are listeners, whether the file was written."""
        self._is_polling = bool(self._listeners)
        if not self._is_polling:
            return
        loop.call_later(POLL_S, self._poll, loop)
        with suppress(sqlite3.Error):  # the next read reports it
            (version,) = self._file.reader.execute("PRAGMA data_version").fetchone()
            if version != self._version:
                self._version = version
                self._wake()


def remove_free_pages(connection: sqlite3.Connection) -> bool:
    """Remove some free pages from the file, inside a transaction; return whether no more can be removed."""
    (before,) = connection.execute("PRAGMA freelist_count").fetchone()
    for _ in range(FREE_PAGES):  # Python 3.11 executes one step of this statement, which removes one page
        connection.execute("PRAGMA incremental_vacuum(1)")
    (after,) = connection.execute("PRAGMA freelist_count").fetchone()
    return after in (0, before)


def delete_facts(connection: sqlite3.Connection, steps: Mapping[str, Step], before_ns: int) -> bool:
    """Delete one portion of old facts, inside a transaction; return whether that was all.

    It ends at the first row with a fact that is newer or whose call is open: facts are deleted in order, and whole
    rows at a time.
    """
    index_rows(connection)
    found = connection.execute(
        "SELECT last, CAST(hash AS BLOB), CAST(lines AS BLOB) FROM facts ORDER BY last LIMIT ?", (DELETE_ROWS,)
    ).fetchall()
    last: tuple[int, bytes] | None = None
    count = 0
    for position, chained, text in found:
        if _is_needed(connection, steps, text, before_ns):
            break
        last, count = (position, chained), count + 1
    if last is not None:
        _delete_up_to(connection, last, before_ns)
    return count < DELETE_ROWS


def _is_needed(connection: sqlite3.Connection, steps: Mapping[str, Step], text: bytes, before_ns: int) -> bool:
    lines = split_lines(text)
    if any(head_of(line).at_ns >= before_ns for line in lines):
        return True
    calls = as_json([call for call in {call_of(line) for line in lines} if call is not None])
    if connection.execute(_HAS_CHECKPOINT, (calls,)).fetchone() is not None:
        return True
    return any(is_open(connection, steps, call) for (call,) in connection.execute(_STARTED, (calls,)).fetchall())


def _delete_up_to(connection: sqlite3.Connection, last: tuple[int, bytes], before_ns: int) -> None:
    connection.execute("INSERT INTO anchors VALUES (?, ?, ?)", (*last, before_ns))
    deleted: set[str] = set()
    for (text,) in connection.execute("SELECT CAST(lines AS BLOB) FROM facts WHERE last <= ?", last[:1]).fetchall():
        deleted.update(call for call in map(call_of, split_lines(text)) if call is not None)
    calls = as_json([*deleted])
    places = "DELETE FROM facts_of_call WHERE invocation_id IN (SELECT value FROM json_each(?)) AND last <= ?"
    connection.execute(places, (calls, last[0]))
    connection.execute("DELETE FROM call_keys WHERE invocation_id IN (SELECT value FROM json_each(?))", (calls,))
    connection.execute(_UNLIST, {"deleted": calls})
    connection.execute("DELETE FROM started_calls WHERE calls = '[]'")
    connection.execute("DELETE FROM facts WHERE last <= ?", last[:1])
    # The answer of a deleted call has no body and only records that it was given.
    connection.execute(
        "DELETE FROM answers WHERE at_ns < ? AND approval_id NOT IN"
        " (SELECT approval_id FROM open_calls WHERE approval_id IS NOT NULL)",
        (before_ns,),
    )
