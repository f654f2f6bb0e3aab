"""Values that should not be there: in sensitive fields, and where only the name of a credential belongs."""

import re
from collections.abc import Iterator

import msgspec

from agenttool.conformance.validate.finding import Flaw, Severity
from agenttool.conformance.validate.record import ForeignRecord
from agenttool.conformance.validate.sense.digests import is_digest
from agenttool.conformance.validate.sense.names import FieldNames
from agenttool.conformance.validate.trail import walk
from agenttool.records import Json
from agenttool.schema.explain import pointer_of

_INPUTS = {
    "tool_invocation": ("model_input", "observable_input", "permission_input", "call_input"),
    "tool_hook": ("updated_input",),
    "tool_permission_decision": ("updated_input",),
    "tool_result": ("structured_content",),
    "tool_event": ("data",),
}
"""Where the arguments of a call may stand in the open; a result may give them back."""

_LONGEST_MARKER = 100
_BRACKETS_AND_DOTS = " \t\r\n[](){}<>*•#_=.…-"
_WORDS = frozenset({"redacted", "masked", "removed", "withheld", "omitted", "filtered", "hidden"})
_REASONS = frozenset(
    {"password", "secret", "token", "key", "credential", "credentials", "sensitive", "pii", "email", "phone", "policy"}
)
"""What a marker may say of what was taken out. No other word: it could be the very thing."""
_WORD_AND_REASON = re.compile(r"redacted[ :_-]+([a-z]+)")
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
    """Tell whether a value is nothing, or says that something was taken out."""
    if value is None:
        return True
    if isinstance(value, str):
        return len(value) <= _LONGEST_MARKER and _is_marker(value.strip(_BRACKETS_AND_DOTS))
    return (
        isinstance(value, dict)
        and not _FLAGS.isdisjoint(value)
        and all(_is_part_of_marker(name, each) for name, each in value.items())
    )


def _is_marker(word: str) -> bool:
    plain = word.lower()
    is_crossed_out = not plain or (plain.startswith("xxx") and not plain.strip("x"))
    reason = _WORD_AND_REASON.fullmatch(plain)
    return is_crossed_out or plain in _WORDS or (reason is not None and reason[1] in _REASONS)


def _is_part_of_marker(name: str, value: Json) -> bool:
    if name in _FLAGS and (value is True or (isinstance(value, int) and value == 1)):
        return True
    if not isinstance(value, str) or name not in _FLAGS | {"digest", "reason"}:
        return False
    return is_digest(value) is not None or value.lower() in _REASONS


def open_values(record: ForeignRecord) -> Iterator[tuple[str | int, ...]]:
    """Give the way to every value of the call's inputs that stands in the open; the values themselves are not kept."""
    for member in _INPUTS.get(record.kind, ()):
        given = _opened(record.members.get(member))
        if isinstance(given, list | dict) and not is_redacted(given):
            yield from ((member, *steps) for steps in _leaves(given))


def _opened(given: Json) -> Json:
    """Read an input that was written as text, as models give theirs; the way to a value then leads into the text."""
    if not isinstance(given, str) or not given.lstrip().startswith(("{", "[")):
        return given
    try:
        return msgspec.json.decode(given)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return given


def check_example_values(record: ForeignRecord) -> Iterator[Flaw]:
    """Ask that examples show no sensitive field; whether a value there is a real one cannot be told (AT-IO-06)."""
    contract = record.members.get("input_contract")
    if not isinstance(contract, dict) or not (fields := FieldNames.of(contract.get("sensitive_fields"))):
        return
    for steps in _leaves(contract.get("examples")):
        if fields.are_passed_by(step for step in steps if isinstance(step, str)):
            pointer = pointer_of(("input_contract", "examples", *steps))
            yield msgspec.structs.replace(secret_flaw(pointer), severity=Severity.WARNING)


def _leaves(value: Json) -> Iterator[tuple[str | int, ...]]:
    marked: set[int] = set()
    for trail, parent, each in walk(value):
        if id(parent) in marked or is_redacted(each):
            if isinstance(each, list | dict):
                marked.add(id(each))
        elif not isinstance(each, list | dict):
            yield trail.steps


def has_inputs(record: ForeignRecord) -> bool:
    """Tell whether a record may hold inputs of a call at all."""
    return not record.members.keys().isdisjoint(_INPUTS.get(record.kind, ()))


def secret_flaw(pointer: str) -> Flaw:
    """Say that a sensitive field holds a value."""
    return Flaw(
        message="a field that its tool declares sensitive stands in the open",
        expected="a redaction marker, such as '[redacted]'",
        advice="redact it, or keep the input behind a ref; treat what leaked as known",
        pointer=pointer,
        requirement="AT-IO-06",
    )


def check_credentials(record: ForeignRecord) -> Iterator[Flaw]:
    """Ask that credentials are named and not told (AT-PERM-06)."""
    member = _CREDENTIAL_MEMBERS[record.kind]
    refs = record.members.get(member)
    for index, ref in enumerate(refs if isinstance(refs, list) else ()):
        if isinstance(ref, str) and _LOOKS_SECRET.match(ref):
            yield Flaw(
                message="this looks like a credential itself, not like the name of one",
                expected="a ref to where the credential is kept",
                advice="put a ref there, and change the credential: it has been written down",
                pointer=pointer_of((member, index)),
                requirement="AT-PERM-06",
            )
