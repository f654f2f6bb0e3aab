"""Store what later checks need of each record in a temporary SQLite database, so that memory stays bounded.

The database is private to the run and deleted with it. It holds ids, statuses, times, digests, names of members and
line numbers, never values.
"""

import sqlite3
from collections.abc import Iterator
from functools import cache, lru_cache
from hashlib import sha256

import msgspec

from agenttool.codec import digest_of
from agenttool.conformance.validate.finding import Origin, requirements_of, shown_id
from agenttool.conformance.validate.foreign_records import ID_FIELDS, ID_MEMBERS, ForeignRecord, id_of, ids_at, items_of
from agenttool.conformance.validate.parse import walk
from agenttool.conformance.validate.secret_checks import FieldNames, is_redacted, name_path, open_inputs
from agenttool.conformance.validate.value_checks import Meaning, is_digest, moment_of, plan_of, whole_number
from agenttool.errors import RecordError
from agenttool.ports.evidence import REDACTED
from agenttool.records import (
    OUTCOMES,
    RECORD_TYPES,
    InvocationStatus,
    Json,
    is_unresolved,
)
from agenttool.schema.explain import pointer_of
from agenttool.schema.traverse import value_at

_TABLES = """
CREATE TABLE records (
    n INTEGER PRIMARY KEY, file TEXT, line INTEGER, kind TEXT, id TEXT, content INTEGER,
    tool TEXT, invocation TEXT, status TEXT, behavior TEXT, event_type TEXT, decided_at TEXT, sequence INTEGER,
    is_edit INTEGER, is_changed INTEGER, input_digest TEXT, permission_digest TEXT, call_digest TEXT
);
CREATE TABLE refs (n INTEGER, kind TEXT, id TEXT, pointer TEXT, requirement TEXT);
CREATE TABLE listed (n INTEGER, invocation TEXT, place INTEGER, decision TEXT);
CREATE TABLE sensitive (tool TEXT, names TEXT);
CREATE TABLE inputs (n INTEGER, tool TEXT, invocation TEXT, pointers TEXT);
CREATE TABLE statuses (status TEXT);
CREATE TABLE outcomes (status TEXT, thing TEXT, word TEXT);
CREATE TABLE things (thing TEXT, pointer TEXT, one_end TEXT, same_outcome TEXT);
INSERT INTO things VALUES ('result', '/status', 'AT-RES-11', 'G-09'),
    ('terminal event', '/event_type', 'AT-EVT-12', 'AT-EVT-12');
CREATE VIEW places AS SELECT n, id, content, file || ':' || line AS place FROM records;
CREATE VIEW decisions AS SELECT * FROM records WHERE kind = 'tool_permission_decision';
CREATE VIEW event_tools AS SELECT n, invocation, tool FROM records
WHERE kind = 'tool_event' AND invocation IS NOT NULL AND tool IS NOT NULL AND NOT is_unresolved(coalesce(tool, ''));
CREATE VIEW progress AS SELECT * FROM records WHERE kind = 'tool_progress' AND sequence IS NOT NULL;
"""
_INDEXES = """
CREATE INDEX records_by_id ON records (kind, id, content);
CREATE INDEX names_of_tools ON sensitive (tool);
CREATE INDEX listed_decisions ON listed (decision, invocation);
CREATE TABLE ends AS
SELECT n, invocation, 'result' AS thing, status AS word FROM records WHERE kind = 'tool_result'
UNION ALL SELECT n, invocation, 'terminal event', event_type FROM records
WHERE kind = 'tool_event' AND event_type IN (SELECT word FROM outcomes WHERE thing = 'terminal event');
CREATE INDEX ends_of_calls ON ends (thing, invocation);
CREATE TABLE calls AS SELECT id, tool, status, permission_digest, call_digest, is_changed, max(n) AS n
FROM records WHERE kind = 'tool_invocation' AND id IS NOT NULL GROUP BY id;
CREATE INDEX calls_by_id ON calls (id);
CREATE VIEW ended AS SELECT ends.n, thing, word, status FROM ends JOIN calls ON calls.id = ends.invocation
WHERE thing <> 'result' OR word IN (SELECT word FROM outcomes WHERE thing = 'result');
CREATE TABLE ranked AS
SELECT d.n AS n, d.invocation AS invocation, behavior, input_digest AS digest, is_edit,
    rank() OVER (PARTITION BY d.invocation ORDER BY decided_at DESC, place DESC) = 1 AS is_last,
    max(is_edit) OVER (PARTITION BY d.invocation) AS is_edited
FROM decisions AS d LEFT JOIN (SELECT decision, invocation, max(place) AS place FROM listed GROUP BY 1, 2) AS l
ON l.decision = d.id AND l.invocation = d.invocation
WHERE d.invocation IS NOT NULL;
"""
_SETTINGS = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA temp_store = FILE;
PRAGMA cache_size = -16384;
"""
_LONGEST_KEY = 200

Row = tuple[str | int | None, ...]


class RecordIndex:
    """The index of one run; `close` deletes the database.

    Raises:
        sqlite3.Error: the disk that temporary files are on is full or cannot be written.
    """

    def __init__(self) -> None:
        self._count = 0
        self._database = sqlite3.connect("")
        self._database.row_factory = sqlite3.Row
        self._database.executescript(_SETTINGS + _TABLES)
        self._database.create_function("shown_id", 1, shown_id)
        self._database.create_function("id_member", 1, ID_MEMBERS.get)
        self._database.create_function("is_sensitive", 2, _is_sensitive)
        self._database.create_function("is_unresolved", 1, is_unresolved)
        for status in InvocationStatus:
            self.add("statuses", (status,))
        for each in OUTCOMES:
            self.add("outcomes", (each.invocation_status, "result", each.result_status))
            self.add("outcomes", (each.invocation_status, "terminal event", each.terminal_event))

    def close(self) -> None:
        """Delete the database."""
        self._database.close()

    def add(self, table: str, row: Row) -> None:
        """Add one row."""
        places = ", ".join("?" * len(row))
        self._database.execute(f"INSERT INTO {table} VALUES ({places})", row)  # noqa: S608 -- a name of ours

    def add_record(self, record: ForeignRecord, *, file: str, line: int, content: int) -> None:
        """Add what the checks of the whole set need of a record."""
        self._count += 1
        number, kind, members = self._count, record.kind, record.members
        key, tool, call = _key(id_of(kind, members)), _key(members.get("tool_id")), _key(members.get("invocation_id"))
        digest = members.get("input_digest")
        self.add(
            "records",
            (
                *(number, file, line, kind, key, content, tool, call),
                *(_key(members.get(name)) for name in ("status", "behavior", "event_type")),
                moment_of(members.get("decided_at")),
                whole_number(members.get("sequence")),
                members.get("user_modified") is True,
                bool(members.get("input_mutation_refs")),
                digest if isinstance(digest, str) and is_digest(digest) else None,
                *(_digest_of_input(record, name) for name in ("permission_input", "call_input")),
            ),
        )
        self._add_references(number, record)
        for place, decision in items_of(members.get("permission_decision_refs")):
            if kind == "tool_invocation" and key is not None and isinstance(decision, str):
                self.add("listed", (number, key, place, key_of(decision)))
        fields = FieldNames.of(value_at(members, "/input_contract/sensitive_fields"))
        if kind == "tool_declaration" and fields:
            self.add("sensitive", (key, msgspec.json.encode(fields.names).decode()))
        if (tool or call) and (inputs := open_inputs(record)):
            self.add("inputs", (number, tool, call, msgspec.json.encode(inputs).decode()))

    def _add_references(self, number: int, record: ForeignRecord) -> None:
        for member, target in members_with_references(record.kind):
            for steps, name in ids_at(record.members, member):
                if target != "tool_declaration" or not is_unresolved(name):
                    pointer, requirement = pointer_of(steps), requirement_of(record.kind, member)
                    self.add("refs", (number, target, key_of(name), pointer, requirement))

    def settle(self) -> None:
        """Create the indexes before the first query; of a call that was added twice, the last counts."""
        self._database.executescript(_INDEXES)

    def ask(self, question: str, **values: int) -> Iterator[sqlite3.Row]:
        """Run a query over everything that was added."""
        return self._database.execute(question, values)

    def origin(self, number: int) -> Origin:
        """Return the place of the record with a number."""
        question = "SELECT file, line, kind, id FROM records WHERE n = :number"
        file, line, kind, record_id = next(self.ask(question, number=number))
        return Origin(file, line, kind, shown_id(record_id))


def key_of(text: str) -> str:
    """Return an id as it is stored: itself, or its digest if it is too long."""
    return text if len(text) <= _LONGEST_KEY else f"sha256:{sha256(text.encode()).hexdigest()}"


@lru_cache(maxsize=64)
def _field_names(encoded: str) -> FieldNames:
    return FieldNames(msgspec.json.decode(encoded, type=tuple[str, ...]))


def _is_sensitive(names: str, pointer: str) -> bool:
    """Return whether a pointer into a record leads to one of these fields of a call's input."""
    return _field_names(names).are_passed_by(name_path(pointer)[1:])


def _key(value: Json) -> str | None:
    return key_of(value) if isinstance(value, str) else None


def _digest_of_input(record: ForeignRecord, member: str) -> str | None:
    """Return the digest of an input, or none if it was redacted or is not exact."""
    value = record.members.get(member)
    if not isinstance(value, dict) or not record.is_exact:
        return None
    # A text or a name may be redacted in part.
    if REDACTED in str(value) or _was_redacted(value) or any(_was_redacted(each) for _, _, each in walk(value)):
        return None
    try:
        return digest_of(value)
    except RecordError:
        return None


def _was_redacted(value: Json) -> bool:
    """Return whether a value was redacted; null is not a marker here, since it may be the input."""
    return value is not None and value != "" and is_redacted(value)


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


def requirement_of(kind: str, member: str) -> str:
    """Return the requirement that a reference breaks if it has no target."""
    return _ROWS.get(f"{kind}.{member}", _JOINS_RECORDS)
