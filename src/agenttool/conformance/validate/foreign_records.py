"""Recognise a record written by another program: its kind, its id, and older spellings of its members."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import fields

from agenttool.codec.decode import renamed
from agenttool.conformance.validate.finding import Finding, flaw, shown_word
from agenttool.conformance.validate.parse import Steps
from agenttool.records import RECORD_TYPES, Json, JsonObject
from agenttool.schema.explain import pointer_of


class ForeignRecord(NamedTuple):
    """One record in the current spelling, written by another program.

    Attributes:
        kind: its `record_type`, given or inferred.
        members: plain JSON; nothing about their shape is certain.
        is_exact: whether no value was replaced while parsing.
        old_pointers: the pointer in the file of each renamed member, by its current pointer.
    """

    kind: str
    members: JsonObject
    is_exact: bool
    old_pointers: Mapping[str, str]

    def in_file(self, pointer: str) -> str:
        """Return the pointer in the file for a pointer in the current spelling."""
        for new, old in self.old_pointers.items():
            if pointer == new or pointer.startswith(f"{new}/"):
                return old + pointer.removeprefix(new)
        return pointer


ID_FIELDS = {kind: fields(record)[1] for kind, record in RECORD_TYPES.items() if kind != "tool_search_result"}
"""The field with a record's id: the first after the version. A search result has none."""

ID_MEMBERS = {kind: field.encode_name for kind, field in ID_FIELDS.items()}

_REQUIRED = {
    kind: {field.encode_name for field in fields(record) if field.required} for kind, record in RECORD_TYPES.items()
}
_KINDS_WITH = {
    member: {kind for kind, record in RECORD_TYPES.items() if member in record.__struct_encode_fields__}
    for record in RECORD_TYPES.values()
    for member in record.__struct_encode_fields__
}
"""The kinds of records that have a member of each name."""

_KNOWN = ", ".join(RECORD_TYPES)


def kind_of(members: JsonObject) -> str | Finding:
    """Return the kind of a record, or the flaw that it is unknown.

    The published schemas have no `record_type`. A record without it is of the kind that has most of its members; of
    several such kinds, the one whose required members are all there.
    """
    name = members.get("record_type")
    if isinstance(name, str) and name in RECORD_TYPES:
        return name
    if "record_type" in members:
        word = shown_word(name)
        return flaw("unknown_record_type", "/record_type", word=f": {word!r}" if word else "", known=_KNOWN)
    known = Counter(kind for member in members for kind in _KINDS_WITH.get(member, ()))
    fitting = {kind for kind, count in known.items() if count == max(known.values())}
    if len(fitting) > 1:
        fitting = {kind for kind in fitting if members.keys() >= _REQUIRED[kind]}
    return fitting.pop() if len(fitting) == 1 else flaw("unknown_kind")


def id_of(kind: str, members: Mapping[str, Json]) -> str | None:
    """Return the id of a record if it is text."""
    value = members.get(ID_MEMBERS.get(kind, ""))
    return value if isinstance(value, str) else None


def items_of(value: Json) -> Iterator[tuple[int, Json]]:
    """Yield the items of a list with their positions; anything else has none."""
    return enumerate(value if isinstance(value, list) else ())


def values_at(members: Mapping[str, Json], name: str) -> Iterator[tuple[Steps, Json]]:
    """Yield the items of a member that is a list, or any other value of a member, with their paths."""
    value = members.get(name)
    yield from (((name, at), each) for at, each in enumerate(value)) if isinstance(value, list) else [((name,), value)]


def ids_at(members: Mapping[str, Json], name: str) -> Iterator[tuple[Steps, str]]:
    """Yield the id or the ids at a member with their paths; an entry may be an object with an id."""
    for steps, item in values_at(members, name):
        each = item.get("tool_id") if isinstance(item, dict) else item
        if isinstance(each, str):
            yield steps, each


_HAVE_SYNONYMS = frozenset({"tool_invocation", "tool_declaration"})
_TRANSITION_NAMES = {"to": "status", "timestamp": "at", "time": "at"}


def in_current_spelling(kind: str, members: JsonObject) -> tuple[JsonObject, dict[str, str]]:
    """Rename members of older drafts, and the members of transitions, which the draft does not name.

    Returns:
        the record, and the pointers in the file of its renamed members by their current pointers.
    """
    if kind not in _HAVE_SYNONYMS:
        return members, {}
    today: JsonObject = renamed(members, RECORD_TYPES[kind])
    old = {} if today is members else _renamed_pointers(members, today)
    if "schema_version" in members and today is not members:
        today["schema_version"] = members["schema_version"]
    transitions = today.get("status_transitions")
    if isinstance(transitions, list):
        steps: list[Json] = [_transition(each) if isinstance(each, dict) else each for each in transitions]
        if steps != transitions:
            today = {**today, "status_transitions": steps}
    return today, old


def flaws_of_spelling(old_pointers: Mapping[str, str]) -> Iterator[Finding]:
    """Yield one warning per old spelling (AT-VER-04)."""
    for new, old in old_pointers.items():
        yield flaw("old_spelling", old, name=new.rpartition("/")[2])


def _renamed_pointers(members: JsonObject, today: JsonObject, before: tuple[str, ...] = ()) -> dict[str, str]:
    """Return old pointers by new ones; renaming preserves the order of members."""
    old: dict[str, str] = {}
    for (was, value), (name, new_value) in zip(members.items(), today.items(), strict=False):
        if was != name:
            old[pointer_of((*before, name))] = pointer_of((*before, was))
        elif value is not new_value and isinstance(value, dict) and isinstance(new_value, dict):
            old |= _renamed_pointers(value, new_value, (*before, name))
    return old


def _transition(step: JsonObject) -> JsonObject:
    return {
        (_TRANSITION_NAMES[name] if _TRANSITION_NAMES.get(name, name) not in step else name): value
        for name, value in step.items()
    }
