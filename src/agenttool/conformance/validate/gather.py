"""From one record to the facts that are needed once all records are known."""

from collections.abc import Iterable

from agenttool.conformance.validate.decisions import digest_of_input, facts_of_decision
from agenttool.conformance.validate.facts import KIND_NUMBERS, KINDS, Facts, key_of
from agenttool.conformance.validate.finding import Flaw
from agenttool.conformance.validate.inputs import Inputs
from agenttool.conformance.validate.kinds import id_of
from agenttool.conformance.validate.record import ForeignRecord
from agenttool.conformance.validate.references import ids_in, members_with_references, requirement_of
from agenttool.conformance.validate.sense.sequence import whole_number
from agenttool.records import TERMINAL_EVENTS, Json, is_unresolved
from agenttool.schema.explain import pointer_of

_MOST_KNOWN = 20_000
_TERMINAL_EVENTS = frozenset(str(each) for each in TERMINAL_EVENTS)


class Gatherer:
    """Remembers records, and answers references from the last of them while they are at hand."""

    def __init__(self, facts: Facts) -> None:
        """Write to these facts."""
        self._facts = facts
        self._inputs = Inputs(facts)
        self._known: dict[str, set[str]] = {kind: set() for kind in KINDS}
        self._count = 0

    def add(self, record: ForeignRecord, *, file: int, line: int, content: int) -> Iterable[Flaw]:
        """Remember one record; say at once what need not wait for the others."""
        self._count += 1
        number, kind = self._count, record.kind
        record_id = id_of(kind, record.members)
        key = key_of(record_id) if record_id is not None else None
        self._facts.add("records", (number, file, line, KIND_NUMBERS[kind], key, content))
        if key is not None:
            self._remember(kind, key)
        self._add_references(number, record)
        self._add_part_of_call(number, record, key)
        return self._inputs.check(number, record)

    def _remember(self, kind: str, key: str) -> None:
        known = self._known[kind]
        if len(known) >= _MOST_KNOWN:
            known.clear()
        known.add(key)

    def _add_references(self, number: int, record: ForeignRecord) -> None:
        """Keep the references that nothing read so far answers; most point back, and end here."""
        for member, target in members_with_references(record.kind):
            value = record.members.get(member)
            if isinstance(value, str):
                if value not in self._known[target]:
                    self._keep(number, record, target, value, (member,))
            elif value is not None:
                for index, each in ids_in(value):
                    if each not in self._known[target]:
                        self._keep(number, record, target, each, (member, index))

    def _keep(
        self, number: int, record: ForeignRecord, target: str, name: str, steps: tuple[str] | tuple[str, int]
    ) -> None:
        if target == "tool_declaration" and is_unresolved(name):
            return
        requirement = requirement_of(record.kind, steps[0])
        self._facts.add("refs", (number, KIND_NUMBERS[target], key_of(name), pointer_of(steps), requirement))

    def _add_part_of_call(self, number: int, record: ForeignRecord, key: str | None) -> None:
        members, kind = record.members, record.kind
        if kind == "tool_event":
            event_type = members.get("event_type")
            if isinstance(event_type, str) and event_type in _TERMINAL_EVENTS:
                self._facts.add("ends", (number, _key(members.get("invocation_id")), event_type))
            call, tool = members.get("invocation_id"), members.get("tool_id")
            if isinstance(call, str) and isinstance(tool, str) and not is_unresolved(tool):
                self._facts.add("event_tools", (number, key_of(call), key_of(tool)))
        elif kind == "tool_progress":
            sequence = whole_number(members.get("sequence"))
            if sequence is not None:
                self._facts.add("progress", (number, _key(members.get("invocation_id")), sequence))
        elif kind == "tool_invocation":
            self._add_call(number, record, key)
        elif kind == "tool_permission_decision":
            self._facts.add("decisions", (number, key, *facts_of_decision(members)))
        elif kind == "tool_result":
            self._facts.add("results", (number, _key(members.get("invocation_id")), _key(members.get("status"))))
        elif kind == "tool_declaration":
            self._inputs.declare(key, members.get("input_contract"))

    def _add_call(self, number: int, record: ForeignRecord, key: str | None) -> None:
        members = record.members
        told = (_key(members.get("tool_id")), _key(members.get("status")))
        digests = (digest_of_input(record, "permission_input"), digest_of_input(record, "call_input"))
        is_changed = bool(members.get("input_mutation_refs"))
        self._facts.add("invocations", (number, key, *told, *digests, is_changed))
        if key is not None:
            for place, decision in ids_in(members.get("permission_decision_refs")):
                self._facts.add("listed", (number, key, place, key_of(decision)))


def _key(value: Json) -> str | None:
    return key_of(value) if isinstance(value, str) else None
