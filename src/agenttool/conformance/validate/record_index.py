"""Store what later checks need of each record in a temporary SQLite database, so that memory stays bounded.

The database is private to the run and deleted with it. It holds ids, statuses, times, digests, names of members and
line numbers, never values.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from typing import cast

from agenttool.conformance.validate.finding import Origin, requirements_of, shown_id
from agenttool.conformance.validate.foreign_records import ID_FIELDS, ID_MEMBERS, items_of
from agenttool.conformance.validate.value_checks import Meaning, plan_of
from agenttool.errors import StoreError
from agenttool.records import RECORD_TYPES, Json

_TABLES = """
CREATE TABLE records (n INTEGER PRIMARY KEY, file INTEGER, line INTEGER, kind TEXT, id TEXT, content INTEGER);
CREATE TABLE refs (n INTEGER, kind TEXT, id TEXT, pointer TEXT, requirement TEXT);
CREATE TABLE invocations (
    n INTEGER, id TEXT, tool TEXT, status TEXT, permission_digest TEXT, call_digest TEXT, is_changed INTEGER
);
CREATE TABLE decisions (
    n INTEGER, id TEXT, invocation TEXT, behavior TEXT, decided_at TEXT, digest TEXT, is_edit INTEGER
);
CREATE TABLE listed (n INTEGER, invocation TEXT, place INTEGER, decision TEXT);
CREATE TABLE event_tools (n INTEGER, invocation TEXT, tool TEXT);
CREATE TABLE ends (n INTEGER, invocation TEXT, thing TEXT, word TEXT);
CREATE TABLE progress (n INTEGER, invocation TEXT, sequence INTEGER);
CREATE TABLE sensitive (tool TEXT, names TEXT);
CREATE TABLE inputs (n INTEGER, tool TEXT, invocation TEXT, pointers TEXT);
"""
_INDEXES = """
CREATE INDEX records_by_id ON records (kind, id, content);
CREATE INDEX ends_of_calls ON ends (thing, invocation);
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
_BATCH = 2000
_LONGEST_KEY = 200

RESULT, TERMINAL_EVENT = "result", "terminal event"
"""The two things that end a call, as the table `ends` names them."""

Value = str | int | None
Row = tuple[Value, ...]


class RecordIndex:
    """The index of one run; `close` deletes the database.

    Raises:
        StoreError: the disk that temporary files are on is full or cannot be written.
    """

    def __init__(self) -> None:
        self._rows: defaultdict[str, list[Row]] = defaultdict(list)
        self._files: list[str] = []
        try:
            self._database = sqlite3.connect("")
            self._database.executescript(_SETTINGS + _TABLES)
        except sqlite3.Error as error:
            raise _lost(error) from error

    def close(self) -> None:
        """Delete the database."""
        self._database.close()

    def add_file(self, name: str) -> int:
        """Add a file and return its number."""
        self._files.append(name)
        return len(self._files) - 1

    def add(self, table: str, row: Row) -> None:
        """Add one row; rows are written in batches."""
        rows = self._rows[table]
        rows.append(row)
        if len(rows) >= _BATCH:
            self._write()

    def settle(self) -> None:
        """Create the indexes before the first query; of a call that was added twice, the last counts."""
        self._write()
        try:
            self._database.executescript(_INDEXES)
        except sqlite3.Error as error:
            raise _lost(error) from error

    def ask(self, question: str, *values: Value) -> Iterator[Row]:
        """Run a query over everything that was added."""
        self._write()
        try:
            yield from self._database.execute(question, values)
        except sqlite3.Error as error:
            raise _lost(error) from error

    def origin(self, number: Value) -> Origin:
        """Return the place of the record with a number."""
        question = "SELECT file, line, kind, id FROM records WHERE n = ?"
        file, line, kind, record_id = next(self.ask(question, number))
        return Origin(self._files[cast("int", file)], cast("int", line), cast("str", kind), shown_id(record_id))

    def place(self, number: Value) -> str:
        """Return the file and line of the record with a number."""
        found = self.origin(number)
        return f"{found.file}:{found.line}"

    def _write(self) -> None:
        try:
            for table, rows in self._rows.items():
                places = ", ".join("?" * len(rows[0]))
                self._database.executemany(f"INSERT INTO {table} VALUES ({places})", rows)  # noqa: S608 -- a name of ours
            self._rows.clear()
        except sqlite3.Error as error:
            raise _lost(error) from error


def key_of(text: str) -> str:
    """Return an id as it is stored: itself, or its digest if it is too long."""
    return text if len(text) <= _LONGEST_KEY else f"sha256:{sha256(text.encode()).hexdigest()}"


def _lost(error: sqlite3.Error) -> StoreError:
    return StoreError(f"the index of the run cannot be written: {error}; free space for temporary files (TMPDIR)")


_NO_TARGETS = frozenset({"tool_namespace", "deferred_tool_ref"})
TARGETS: dict[Meaning, str] = {field.type: kind for kind, field in ID_FIELDS.items() if kind not in _NO_TARGETS}
"""The kind of record of each type of id."""

_UNTYPED = {
    ("tool_invocation", "input_mutation_refs"): "tool_input_mutation",
    ("tool_result", "input_mutation_refs"): "tool_input_mutation",
    ("tool_surface", "tool_refs"): "tool_declaration",
    ("tool_surface", "loaded_tools"): "tool_declaration",
}
_NEED_NOT_BE_DECLARED = frozenset({"deferred_tools", "blocked_tools", "excluded_tools", "matches"})

_ROWS = requirements_of("reference")
_JOINS_RECORDS = "AT-MODEL-01"


@cache
def members_with_references(kind: str) -> tuple[tuple[str, str], ...]:
    """List the members of a kind that hold ids of other records, with the target kind."""
    slots = plan_of(RECORD_TYPES[kind], TARGETS)
    passed_over = {ID_MEMBERS.get(kind), *_NEED_NOT_BE_DECLARED}
    typed = ((slot.name, TARGETS[slot.meaning]) for slot in slots if slot.meaning and slot.name not in passed_over)
    untyped = ((member, target) for (owner, member), target in _UNTYPED.items() if owner == kind)
    return (*typed, *untyped)


def ids_in(value: Json) -> Iterator[tuple[int, str]]:
    """Yield the ids in a list with their positions; an entry may be an object with an id."""
    for index, item in items_of(value):
        each = item.get("tool_id") if isinstance(item, dict) else item
        if isinstance(each, str):
            yield index, each


def requirement_of(kind: str, member: str) -> str:
    """Return the requirement that a reference breaks if it has no target."""
    return _ROWS.get(f"{kind}.{member}", _JOINS_RECORDS)
