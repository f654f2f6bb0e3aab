"""Add records to the index: what the checks of the whole set need of each."""

import msgspec

from agenttool.codec import digest_of
from agenttool.conformance.validate.foreign_records import ForeignRecord, id_of
from agenttool.conformance.validate.parse import walk
from agenttool.conformance.validate.record_checks import whole_number
from agenttool.conformance.validate.record_index import (
    RESULT,
    TERMINAL_EVENT,
    RecordIndex,
    ids_in,
    key_of,
    members_with_references,
    requirement_of,
)
from agenttool.conformance.validate.secret_checks import FieldNames, is_redacted, open_inputs
from agenttool.conformance.validate.value_checks import is_digest, moment_of
from agenttool.errors import RecordError
from agenttool.ports.evidence import REDACTED
from agenttool.records import TERMINAL_EVENTS, Json, is_unresolved
from agenttool.schema.explain import pointer_of


def digest_of_input(record: ForeignRecord, member: str) -> str | None:
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


_TERMINAL_EVENTS = frozenset(str(each) for each in TERMINAL_EVENTS)


class IndexWriter:
    """Adds records to the index."""

    def __init__(self, index: RecordIndex) -> None:
        """Write to this index."""
        self._index = index
        self._count = 0

    def add(self, record: ForeignRecord, *, file: int, line: int, content: int) -> None:
        """Add one record."""
        self._count += 1
        number, kind = self._count, record.kind
        key = _key(id_of(kind, record.members))
        self._index.add("records", (number, file, line, kind, key, content))
        self._add_references(number, record)
        self._add_part_of_call(number, record, key)
        contract = record.members.get("input_contract")
        if kind == "tool_declaration" and isinstance(contract, dict):
            fields = FieldNames.of(contract.get("sensitive_fields"))
            if fields:
                self._index.add("sensitive", (key, msgspec.json.encode(fields.names).decode()))
        tool, call = _key(record.members.get("tool_id")), _key(record.members.get("invocation_id"))
        if (tool or call) and (inputs := open_inputs(record)):
            self._index.add("inputs", (number, tool, call, msgspec.json.encode(inputs).decode()))

    def _add_references(self, number: int, record: ForeignRecord) -> None:
        for member, target in members_with_references(record.kind):
            value = record.members.get(member)
            ids = (
                [((member,), value)] if isinstance(value, str) else [((member, at), each) for at, each in ids_in(value)]
            )
            for steps, name in ids:
                if target != "tool_declaration" or not is_unresolved(name):
                    pointer, requirement = pointer_of(steps), requirement_of(record.kind, member)
                    self._index.add("refs", (number, target, key_of(name), pointer, requirement))

    def _add_part_of_call(self, number: int, record: ForeignRecord, key: str | None) -> None:
        members, kind = record.members, record.kind
        if kind == "tool_event":
            event_type = members.get("event_type")
            if isinstance(event_type, str) and event_type in _TERMINAL_EVENTS:
                self._index.add("ends", (number, _key(members.get("invocation_id")), TERMINAL_EVENT, event_type))
            call, tool = members.get("invocation_id"), members.get("tool_id")
            if isinstance(call, str) and isinstance(tool, str) and not is_unresolved(tool):
                self._index.add("event_tools", (number, key_of(call), key_of(tool)))
        elif kind == "tool_progress":
            sequence = whole_number(members.get("sequence"))
            if sequence is not None:
                self._index.add("progress", (number, _key(members.get("invocation_id")), sequence))
        elif kind == "tool_invocation":
            self._add_call(number, record, key)
        elif kind == "tool_permission_decision":
            digest, behavior = members.get("input_digest"), _key(members.get("behavior"))
            known = digest if isinstance(digest, str) and is_digest(digest) else None
            decided_at, is_edit = moment_of(members.get("decided_at")), members.get("user_modified") is True
            call = _key(members.get("invocation_id"))
            self._index.add("decisions", (number, key, call, behavior, decided_at, known, is_edit))
        elif kind == "tool_result":
            call, status = _key(members.get("invocation_id")), _key(members.get("status"))
            self._index.add("ends", (number, call, RESULT, status))

    def _add_call(self, number: int, record: ForeignRecord, key: str | None) -> None:
        members = record.members
        named = (_key(members.get("tool_id")), _key(members.get("status")))
        digests = (digest_of_input(record, "permission_input"), digest_of_input(record, "call_input"))
        is_changed = bool(members.get("input_mutation_refs"))
        self._index.add("invocations", (number, key, *named, *digests, is_changed))
        if key is not None:
            for place, decision in ids_in(members.get("permission_decision_refs")):
                self._index.add("listed", (number, key, place, key_of(decision)))


def _key(value: Json) -> str | None:
    return key_of(value) if isinstance(value, str) else None
