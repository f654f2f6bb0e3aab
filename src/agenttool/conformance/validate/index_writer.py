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
from agenttool.records import TERMINAL_EVENTS, Json, JsonObject, is_unresolved
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
        self._add = index.add
        self._count = 0

    def add(self, record: ForeignRecord, *, file: int, line: int, content: int) -> None:
        """Add one record."""
        self._count += 1
        number, kind, members = self._count, record.kind, record.members
        key, tool, call = _key(id_of(kind, members)), _key(members.get("tool_id")), _key(members.get("invocation_id"))
        self._add("records", (number, file, line, kind, key, content))
        self._add_references(number, record)
        if kind == "tool_event":
            self._add_event(number, members, call, tool)
        elif kind == "tool_progress" and (sequence := whole_number(members.get("sequence"))) is not None:
            self._add("progress", (number, call, sequence))
        elif kind == "tool_invocation":
            self._add_call(number, record, key, tool)
        elif kind == "tool_permission_decision":
            digest, is_edit = members.get("input_digest"), members.get("user_modified") is True
            known = digest if isinstance(digest, str) and is_digest(digest) else None
            behavior, decided_at = _key(members.get("behavior")), moment_of(members.get("decided_at"))
            self._add("decisions", (number, key, call, behavior, decided_at, known, is_edit))
        elif kind == "tool_result":
            self._add("ends", (number, call, RESULT, _key(members.get("status"))))
        contract = members.get("input_contract")
        fields = FieldNames.of(contract.get("sensitive_fields")) if isinstance(contract, dict) else None
        if kind == "tool_declaration" and fields:
            self._add("sensitive", (key, msgspec.json.encode(fields.names).decode()))
        if (tool or call) and (inputs := open_inputs(record)):
            self._add("inputs", (number, tool, call, msgspec.json.encode(inputs).decode()))

    def _add_references(self, number: int, record: ForeignRecord) -> None:
        for member, target in members_with_references(record.kind):
            value = record.members.get(member)
            ids = (
                [((member,), value)] if isinstance(value, str) else [((member, at), each) for at, each in ids_in(value)]
            )
            for steps, name in ids:
                if target != "tool_declaration" or not is_unresolved(name):
                    pointer, requirement = pointer_of(steps), requirement_of(record.kind, member)
                    self._add("refs", (number, target, key_of(name), pointer, requirement))

    def _add_event(self, number: int, members: JsonObject, call: str | None, tool: str | None) -> None:
        event_type, tool_id = members.get("event_type"), members.get("tool_id")
        if isinstance(event_type, str) and event_type in _TERMINAL_EVENTS:
            self._add("ends", (number, call, TERMINAL_EVENT, event_type))
        if call is not None and isinstance(tool_id, str) and not is_unresolved(tool_id):
            self._add("event_tools", (number, call, tool))

    def _add_call(self, number: int, record: ForeignRecord, key: str | None, tool: str | None) -> None:
        members = record.members
        digests = (digest_of_input(record, "permission_input"), digest_of_input(record, "call_input"))
        is_changed = bool(members.get("input_mutation_refs"))
        self._add("invocations", (number, key, tool, _key(members.get("status")), *digests, is_changed))
        for place, decision in ids_in(members.get("permission_decision_refs")) if key is not None else ():
            self._add("listed", (number, key, place, key_of(decision)))


def _key(value: Json) -> str | None:
    return key_of(value) if isinstance(value, str) else None
