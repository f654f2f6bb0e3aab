"""Older and looser spellings, read as what they mean, and the way back to what the file says."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from agenttool.codec.synonyms import renamed
from agenttool.conformance.validate.finding import Flaw, Layer, Severity
from agenttool.records import RECORD_TYPES, JsonObject
from agenttool.schema.explain import pointer_of

_HAVE_SYNONYMS = frozenset({"tool_invocation", "tool_declaration"})
_TRANSITION_NAMES = {"to": "status", "timestamp": "at", "time": "at"}


class Today(NamedTuple):
    """A record in today's spelling, and how its renamed members are spelled in the file, by pointer."""

    members: JsonObject
    old_pointers: Mapping[str, str]

    @property
    def flaws(self) -> Iterable[Flaw]:
        """One warning per old spelling (AT-VER-04)."""
        return [
            Flaw(
                message="the member is spelled as in version 0.1 of the draft",
                expected=f"the name {new.rpartition('/')[2]!r}",
                advice="rename it; it was read as if it were",
                pointer=old,
                severity=Severity.WARNING,
                layer=Layer.SHAPE,
                requirement="AT-VER-04",
            )
            for new, old in self.old_pointers.items()
        ]


_NOTHING_OLD: dict[str, str] = {}


def in_todays_words(kind: str, members: JsonObject) -> Today:
    """Rename what an older draft called otherwise, and the members of transitions, for which the draft has no names."""
    if kind not in _HAVE_SYNONYMS:
        return Today(members, _NOTHING_OLD)
    today = renamed(members, RECORD_TYPES[kind])
    old = _NOTHING_OLD if today is members else _renamed_pointers(members, today)
    if "schema_version" in members and today is not members:
        today["schema_version"] = members["schema_version"]
    transitions = today.get("status_transitions")
    if isinstance(transitions, list) and any(isinstance(each, dict) and _is_loose(each) for each in transitions):
        today = {**today}
        today["status_transitions"] = [_transition(each) if isinstance(each, dict) else each for each in transitions]
    return Today(today, old)


def _renamed_pointers(members: JsonObject, today: JsonObject, before: tuple[str, ...] = ()) -> dict[str, str]:
    """Compare name by name: renaming keeps the order of members."""
    old: dict[str, str] = {}
    for (was, value), (name, new_value) in zip(members.items(), today.items(), strict=False):
        if was != name:
            old[pointer_of((*before, name))] = pointer_of((*before, was))
        elif value is not new_value and isinstance(value, dict) and isinstance(new_value, dict):
            old |= _renamed_pointers(value, new_value, (*before, name))
    return old


def _is_loose(step: JsonObject) -> bool:
    return not step.keys().isdisjoint(_TRANSITION_NAMES)


def _transition(step: JsonObject) -> JsonObject:
    return {
        (_TRANSITION_NAMES[name] if _TRANSITION_NAMES.get(name, name) not in step else name): value
        for name, value in step.items()
    }
