"""Sensitive fields against the inputs of calls, whichever comes first in the files."""

from collections.abc import Iterable, Iterator
from typing import cast

import msgspec

from agenttool.conformance.validate.facts import Facts, key_of
from agenttool.conformance.validate.finding import Flaw, Severity
from agenttool.conformance.validate.record import ForeignRecord
from agenttool.conformance.validate.sense.names import FieldNames, name_path
from agenttool.conformance.validate.sense.secrets import has_inputs, open_values, secret_flaw
from agenttool.records import Json
from agenttool.schema.explain import pointer_of

_MOST_DECLARED = 20_000
_MOST_KEPT = 10_000
_TOO_MANY = Flaw(
    message=f"the record has more than {_MOST_KEPT} fields and was not searched for secrets",
    expected="the declaration of its tool before the call, or a smaller input",
    advice="put declarations first: then an input of any size is searched",
    requirement="AT-IO-06",
    severity=Severity.WARNING,
)


class Inputs:
    """Knows which fields of which tools are sensitive, as far as they were declared.

    Inputs of a tool that is not declared yet are kept until the end, as the names of what they hold.
    """

    def __init__(self, facts: Facts) -> None:
        """Keep what must wait in these facts."""
        self._facts = facts
        self._declared: dict[str, FieldNames] = {}
        self._tools: dict[str, str] = {}  # of calls, for the records that name only the call

    def declare(self, tool: str | None, contract: Json) -> None:
        """Take note of what a tool calls sensitive."""
        if tool is None:
            return
        fields = FieldNames.of(contract.get("sensitive_fields") if isinstance(contract, dict) else None)
        if fields:
            self._facts.add("sensitive", (tool, msgspec.json.encode(fields.names).decode()))
        if len(self._declared) >= _MOST_DECLARED:
            self._declared.clear()
        self._declared[tool] = fields

    def check(self, number: int, record: ForeignRecord) -> Iterable[Flaw]:
        """Say which sensitive fields stand in the open, or keep the question."""
        if record.kind == "tool_invocation":
            self._note_tool(record)
        if not has_inputs(record):
            return ()
        tool, call = record.members.get("tool_id"), record.members.get("invocation_id")
        tool_key = key_of(tool) if isinstance(tool, str) else None
        if tool_key is None and record.kind == "tool_result" and isinstance(call, str):
            tool_key = self._tools.get(key_of(call))
        fields = self._declared.get(tool_key) if tool_key is not None else None
        if fields is None:
            return self._keep(number, record, tool_key)
        if fields.may_occur_in(record.text):
            return _open_secrets(record, fields)
        return ()

    def _note_tool(self, record: ForeignRecord) -> None:
        tool, call = record.members.get("tool_id"), record.members.get("invocation_id")
        if isinstance(tool, str) and isinstance(call, str):
            if len(self._tools) >= _MOST_DECLARED:
                self._tools.clear()
            self._tools[key_of(call)] = key_of(tool)

    def _keep(self, number: int, record: ForeignRecord, tool: str | None) -> Iterable[Flaw]:
        """Keep one way to each name, for when the tool is known; nothing is kept of a record that names no tool."""
        call = record.members.get("invocation_id")
        call_key = key_of(call) if isinstance(call, str) else None
        if tool is None and call_key is None:
            return ()
        ways: dict[tuple[str, ...], str] = {}
        for steps in open_values(record):
            ways.setdefault(tuple(step for step in steps if isinstance(step, str)), pointer_of(steps))
            if len(ways) >= _MOST_KEPT:
                return (_TOO_MANY,)
        if ways:
            pointers = [record.in_file(pointer) for pointer in ways.values()]
            self._facts.add("inputs", (number, tool, call_key, msgspec.json.encode(pointers).decode()))
        return ()


def _open_secrets(record: ForeignRecord, fields: FieldNames) -> Iterator[Flaw]:
    for steps in open_values(record):
        if fields.are_passed_by(step for step in steps[1:] if isinstance(step, str)):
            yield secret_flaw(pointer_of(steps))


_KEPT = """
SELECT n, pointers, tool FROM (
    SELECT inputs.n AS n, pointers, coalesce(inputs.tool, calls.tool) AS tool
    FROM inputs LEFT JOIN calls ON inputs.tool IS NULL AND calls.id = inputs.invocation
)
WHERE tool IN (SELECT tool FROM sensitive) ORDER BY tool, n
"""
_NAMES = "SELECT names FROM sensitive WHERE tool = ? ORDER BY rowid DESC LIMIT 1"


def check_kept_inputs(facts: Facts) -> Iterator[tuple[int, Flaw]]:
    """Answer the questions that were kept, now that every declaration is known."""
    tool, fields = None, FieldNames(())
    for number, pointers, owner in facts.ask(_KEPT):
        if owner != tool:
            tool = owner
            names = next(facts.ask(_NAMES, (tool,)))[0]
            fields = FieldNames(msgspec.json.decode(cast("str", names), type=tuple[str, ...]))
        for pointer in msgspec.json.decode(cast("str", pointers), type=list[str]):
            if fields.are_passed_by(name_path(pointer)[1:]):
                yield cast("int", number), secret_flaw(pointer)
