"""What must be remembered of every record until the last one was read: in a database on disk, not in memory.

The database is private to the run and gone with it. It holds ids, statuses, times, digests, names of members and line
numbers; values are never written to it.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from hashlib import sha256
from types import TracebackType
from typing import Self

from agenttool.conformance.validate.finding import Origin, shown_id
from agenttool.errors import StoreError
from agenttool.records import RECORD_TYPES

_TABLES = """
CREATE TABLE records (n INTEGER PRIMARY KEY, file INTEGER, line INTEGER, kind INTEGER, id TEXT, content INTEGER);
CREATE TABLE refs (n INTEGER, kind INTEGER, id TEXT, pointer TEXT, requirement TEXT);
CREATE TABLE invocations (
    n INTEGER, id TEXT, tool TEXT, status TEXT, permission_digest TEXT, call_digest TEXT, is_changed INTEGER
);
CREATE TABLE decisions (
    n INTEGER, id TEXT, invocation TEXT, behavior TEXT, decided_at TEXT, digest TEXT, is_edit INTEGER
);
CREATE TABLE listed (n INTEGER, invocation TEXT, place INTEGER, decision TEXT);
CREATE TABLE event_tools (n INTEGER, invocation TEXT, tool TEXT);
CREATE TABLE results (n INTEGER, invocation TEXT, status TEXT);
CREATE TABLE ends (n INTEGER, invocation TEXT, event_type TEXT);
CREATE TABLE progress (n INTEGER, invocation TEXT, sequence INTEGER);
CREATE TABLE sensitive (tool TEXT, names TEXT);
CREATE TABLE inputs (n INTEGER, tool TEXT, invocation TEXT, pointers TEXT);
"""
_INDEXES = """
CREATE INDEX records_by_id ON records (kind, id, content);
CREATE INDEX results_of_calls ON results (invocation);
CREATE INDEX ends_of_calls ON ends (invocation);
CREATE INDEX names_of_tools ON sensitive (tool);
CREATE INDEX decisions_by_id ON decisions (id);
CREATE INDEX listed_decisions ON listed (decision, invocation);
CREATE TABLE calls AS SELECT id, tool, status, permission_digest, call_digest, is_changed, max(n) AS n
FROM invocations WHERE id IS NOT NULL GROUP BY id;
CREATE INDEX calls_by_id ON calls (id);
"""
_SETTINGS = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA temp_store = FILE;
PRAGMA cache_size = -16384;
"""
_WIDTHS = {
    "records": 6,
    "refs": 5,
    "invocations": 7,
    "decisions": 7,
    "listed": 4,
    "event_tools": 3,
    "results": 3,
    "ends": 3,
    "progress": 3,
    "sensitive": 2,
    "inputs": 4,
}
_INSERTS = {
    table: f"INSERT INTO {table} VALUES ({', '.join('?' * width)})"  # noqa: S608 -- the names are those above
    for table, width in _WIDTHS.items()
}
_BATCH = 2000
_LONGEST_KEY = 200

KINDS = tuple(RECORD_TYPES)
KIND_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}

Value = str | int | None
Row = tuple[Value, ...]


class Facts:
    """The memory of one run. Use it as a context: leaving it removes the database.

    Raises:
        StoreError: the disk that temporary files are on is full or cannot be written.
    """

    def __init__(self) -> None:
        """Make an empty database that only this run can see."""
        self._rows: defaultdict[str, list[Row]] = defaultdict(list)
        self._files: list[str] = []
        try:
            self._database = sqlite3.connect("")
            self._database.executescript(_SETTINGS + _TABLES)
        except sqlite3.Error as error:
            raise _lost(error) from error

    def __enter__(self) -> Self:
        """Start remembering."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the database."""
        self._database.close()

    def add_file(self, name: str) -> int:
        """Give a file its number."""
        self._files.append(name)
        return len(self._files) - 1

    def add(self, table: str, row: Row) -> None:
        """Remember one row, sooner or later."""
        rows = self._rows[table]
        rows.append(row)
        if len(rows) >= _BATCH:
            self._write()

    def settle(self) -> None:
        """Sort what was added, once, before the questions; of a call that was told twice, the last word counts."""
        self._write()
        try:
            self._database.executescript(_INDEXES)
        except sqlite3.Error as error:
            raise _lost(error) from error

    def ask(self, question: str, values: Iterable[Value] = ()) -> Iterator[Row]:
        """Answer a question in SQL about everything that was added."""
        self._write()
        try:
            yield from self._database.execute(question, tuple(values))
        except sqlite3.Error as error:
            raise _lost(error) from error

    def origin(self, number: Value) -> Origin:
        """Say where the record of a number is."""
        question = "SELECT file, line, kind, id FROM records WHERE n = ?"
        for file, line, kind, record_id in self.ask(question, (number,)):
            return Origin(self._files[_whole(file)], _whole(line), KINDS[_whole(kind)], shown_id(record_id))
        raise AssertionError(f"no record has the number {number!r}")

    def _write(self) -> None:
        try:
            for table, rows in self._rows.items():
                self._database.executemany(_INSERTS[table], rows)
                rows.clear()
        except sqlite3.Error as error:
            raise _lost(error) from error


def key_of(text: str) -> str:
    """Give an id as it is remembered: itself, or its digest if it is too long to be one."""
    return text if len(text) <= _LONGEST_KEY else f"sha256:{sha256(text.encode()).hexdigest()}"


def _whole(value: Value) -> int:
    return value if isinstance(value, int) else 0


def _lost(error: sqlite3.Error) -> StoreError:
    return StoreError(f"the facts of the run cannot be kept: {error}; make room where temporary files go (TMPDIR)")
