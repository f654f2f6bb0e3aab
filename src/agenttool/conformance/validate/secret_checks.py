"""Check that sensitive fields of tools do not appear in the inputs, examples and results of calls."""

import re
from collections.abc import Iterable, Iterator
from typing import Self

import msgspec

from agenttool.conformance.validate.finding import Finding, Severity, flaw
from agenttool.conformance.validate.foreign_records import ForeignRecord, items_of
from agenttool.conformance.validate.parse import walk
from agenttool.records import Json
from agenttool.schema.explain import pointer_of
from agenttool.schema.traverse import steps_of, value_at

_STEP = re.compile(r"[^.\[\]]+")


def name_path(name: str) -> tuple[str, ...]:
    """Return the steps of a field's name, without indexes and stars: they stand for any item."""
    steps = steps_of(name) if name.startswith("/") else _STEP.findall(name)
    return tuple(step for step in steps if step and step not in ("*", "$") and not step.isdigit())


class FieldNames:
    """A list of field names; answers whether a path leads to one of the fields.

    A bare name matches every field of that name on any level.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self._paths = frozenset(path for name in self.names if (path := name_path(name)))
        self._lengths = sorted({len(path) for path in self._paths})

    @classmethod
    def of(cls, names: Json) -> Self:
        """Make it from the names in a contract, which may be any JSON."""
        return cls(name for _, name in items_of(names) if isinstance(name, str))

    def __bool__(self) -> bool:
        return bool(self._paths)

    def end(self, steps: tuple[str, ...]) -> bool:
        """Return whether a path ends at one of the fields."""
        return any(steps[-length:] in self._paths for length in self._lengths)

    def are_passed_by(self, steps: Iterable[str]) -> bool:
        """Return whether a path leads through one of the fields or ends there."""
        way = tuple(steps)
        return any(self.end(way[:length]) for length in range(1, len(way) + 1))


_INPUTS = {
    "tool_invocation": ("model_input", "observable_input", "permission_input", "call_input"),
    "tool_hook": ("updated_input",),
    "tool_permission_decision": ("updated_input",),
    "tool_result": ("structured_content",),
    "tool_event": ("data",),
}
"""Members that may hold the arguments of a call; a result may repeat them."""

_LONGEST_MARKER = 100
_BRACKETS_AND_DOTS = " \t\r\n[](){}<>*•#_=.…-"
_REASON = "password|secret|token|key|credentials?|sensitive|pii|email|phone|policy"
_MARKER = re.compile(
    rf"(?:xxx+|redacted(?:[ :_-]+(?:{_REASON}))?|masked|removed|withheld|omitted|filtered|hidden)?", re.IGNORECASE
)
_MARKER_PART = re.compile(rf"(?i:{_REASON})|sha256:[0-9a-f]{{64}}")
"""What a redaction marker may contain; any other word could be the secret."""
_FLAGS = frozenset({"redacted", "$redacted"})

_CREDENTIAL_MEMBERS = {"tool_permission_profile": "credential_refs", "tool_interface": "required_credentials"}
_LOOKS_SECRET = re.compile(
    r"-----BEGIN |eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\."
    r"|(?:sk|rk|pk)[-_](?:live|test|proj|ant)?[-_]?[A-Za-z0-9]{16,}|(?:Bearer|Basic) +\S{8,}"
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|xox[abeprs]-[A-Za-z0-9-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}"
    r"|npm_[A-Za-z0-9]{30,}|hf_[A-Za-z0-9]{30,}|SG\.[A-Za-z0-9_-]{16,}\.|pypi-[A-Za-z0-9_-]{40,}"
)
"""Prefixes and shapes of well-known tokens, keys and certificates."""


def is_redacted(value: Json) -> bool:
    """Return whether a value is empty or a marker of a redacted value."""
    if value is None:
        return True
    if isinstance(value, str):
        return len(value) <= _LONGEST_MARKER and _MARKER.fullmatch(value.strip(_BRACKETS_AND_DOTS)) is not None
    return (
        isinstance(value, dict)
        and not _FLAGS.isdisjoint(value)
        and all(_is_part_of_marker(name, each) for name, each in value.items())
    )


def _is_part_of_marker(name: str, value: Json) -> bool:
    if name in _FLAGS and (value is True or (isinstance(value, int) and value == 1)):
        return True
    is_known = name in _FLAGS or name in ("digest", "reason")
    return is_known and isinstance(value, str) and _MARKER_PART.fullmatch(value) is not None


def open_inputs(record: ForeignRecord) -> list[str]:
    """Return a pointer to each field of the call's inputs that is not redacted; items of one list count once."""
    found: dict[tuple[str, ...], str] = {}
    for member in _INPUTS.get(record.kind, ()):
        given = _opened(record.members.get(member))
        if isinstance(given, list | dict) and not is_redacted(given):
            for steps in _leaves(given):
                names = tuple(step for step in steps if isinstance(step, str))
                found.setdefault((member, *names), pointer_of((member, *steps)))
    return [record.in_file(pointer) for pointer in found.values()]


def _opened(given: Json) -> Json:
    """Parse an input that is JSON text, as models write theirs; paths then lead into it."""
    if not isinstance(given, str) or not given.lstrip().startswith(("{", "[")):
        return given
    try:
        return msgspec.json.decode(given)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return given


def check_example_values(record: ForeignRecord) -> Iterator[Finding]:
    """Check that examples hold no value of a sensitive field (AT-IO-06)."""
    fields = FieldNames.of(value_at(record.members, "/input_contract/sensitive_fields"))
    for steps in _leaves(value_at(record.members, "/input_contract/examples")) if fields else ():
        if fields.are_passed_by(step for step in steps if isinstance(step, str)):
            pointer = f"/input_contract/examples{pointer_of(steps)}"
            yield msgspec.structs.replace(flaw("open_secret", pointer), severity=Severity.WARNING)


def _leaves(value: Json) -> Iterator[tuple[str | int, ...]]:
    marked: set[int] = set()
    for steps, parent, each in walk(value):
        if id(parent) in marked or is_redacted(each):
            if isinstance(each, list | dict):
                marked.add(id(each))
        elif not isinstance(each, list | dict):
            yield steps


def check_credentials(record: ForeignRecord) -> Iterator[Finding]:
    """Check that credentials are given by name and not by value (AT-PERM-06)."""
    member = _CREDENTIAL_MEMBERS[record.kind]
    for index, ref in items_of(record.members.get(member)):
        if isinstance(ref, str) and _LOOKS_SECRET.match(ref):
            yield flaw("credential", pointer_of((member, index)))
