"""Values that should not be there: in sensitive fields, and where only the name of a credential belongs."""

import re
from collections.abc import Iterator

from agenttool.conformance.validate.finding import Flaw
from agenttool.conformance.validate.record import ForeignRecord
from agenttool.conformance.validate.trail import walk
from agenttool.records import Json
from agenttool.schema.explain import pointer_of

_INPUTS = {
    "tool_invocation": ("model_input", "observable_input", "permission_input", "call_input"),
    "tool_hook": ("updated_input",),
    "tool_permission_decision": ("updated_input",),
    "tool_event": ("data",),
}
"""Where the arguments of a call may stand in the open."""

_LONGEST_MARKER = 100
_BRACKETS_AND_DOTS = " \t\r\n[](){}<>*•#_=.…-"
_WORDS = frozenset({"redacted", "masked", "removed", "withheld", "omitted", "filtered", "hidden"})
_REDACTED_AND_MORE = re.compile(r"redacted[\s:;,(\[/-].*", re.IGNORECASE | re.DOTALL)

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
    return isinstance(value, dict) and ("$redacted" in value or value.get("redacted") is True)


def _is_marker(word: str) -> bool:
    plain = word.lower()
    is_crossed_out = not plain or (plain.startswith("xxx") and not plain.strip("x"))
    return is_crossed_out or plain in _WORDS or _REDACTED_AND_MORE.fullmatch(word) is not None


def open_values(record: ForeignRecord) -> Iterator[tuple[str | int, ...]]:
    """Give the way to every value of the call's inputs that stands in the open; the values themselves are not kept."""
    for member in _INPUTS.get(record.kind, ()):
        given = record.members.get(member)
        if isinstance(given, list | dict) and not is_redacted(given):
            yield from ((member, *steps) for steps in _leaves(given))


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
