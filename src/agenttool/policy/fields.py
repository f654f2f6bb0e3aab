"""Which arguments of a tool are paths, commands, URLs or resources, found by JSON pointers.

A permission profile may list the fields that rules match (`rule_matching_fields`): `path`, `url`, `command:/script`.
Rules on other fields then do not apply to the tool. Without a list the schema decides: `format: uri`, `format: path`,
`x-agenttool: command`, or the name of an argument. In a pointer `*` is every member of a list or an object.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, cast

from agenttool.policy.paths import MAX_PATH
from agenttool.records import ClosedEnum, Json, JsonObject
from agenttool.schema.recursion import resolve

Steps = tuple[str, ...]
"""The steps of a JSON pointer."""


def steps_of(pointer: str) -> Steps:
    """Split a pointer into its steps.

    Raises:
        ValueError: it is neither empty nor starts with a slash.
    """
    if pointer and not pointer.startswith("/"):
        raise ValueError(f"a JSON pointer starts with '/', got {pointer!r}; write {'/' + pointer!r}")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])


def values_at(value: Json, steps: Steps) -> list[Json]:
    """Return every value that a pointer reaches.

    A member that is really called `*` is reached too, along with its siblings. An allow that must cover all
    of them is stricter, never looser.
    """
    reached = [value]
    for step in steps:
        reached = [inner for outer in reached for inner in _members(outer, step)]
    return reached


def _members(value: Json, step: str) -> list[Json]:
    if isinstance(value, dict):
        if step == "*":
            return list(value.values())
        return [value[step]] if step in value else []
    if isinstance(value, list):
        if step == "*":
            return value
        # `isdecimal` would let other scripts' digits through, which no JSON pointer has.
        is_index = step.isascii() and step.isdigit() and int(step) < len(value)
        return [value[int(step)]] if is_index else []
    return []


def texts_in(value: Json) -> list[str]:
    """Return every text anywhere in a value."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inner for text in texts_in(each)]


def names_in(value: Json) -> Iterator[str]:
    """Return the name of every member of an object anywhere in a value."""
    if isinstance(value, dict):
        yield from value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if isinstance(each, dict | list):
            yield from names_in(each)


def pointers_in(value: Json, steps: Steps = ()) -> Iterator[Steps]:
    """Return the steps to every member of an object, at any depth, that is a text or a list."""
    if isinstance(value, dict):
        for name, each in value.items():
            if isinstance(each, str | list):
                yield (*steps, name)
            if isinstance(each, dict | list):
                yield from pointers_in(each, (*steps, name))
    elif isinstance(value, list) and not _CONTAINERS.isdisjoint(map(type, value)):
        for place, each in enumerate(value):
            yield from pointers_in(each, (*steps, str(place)))


_CONTAINERS = frozenset({dict, list})


class MatchingField(ClosedEnum):
    """The kinds of arguments that rules match."""

    PATH = "path"
    COMMAND = "command"
    URL = "url"
    RESOURCE = "resource"


def fields_by_word(path: str = "", command: str = "", url: str = "", resource: str = "") -> dict[str, MatchingField]:
    """Return the field of each word, given the words of each field."""
    listed = zip(MatchingField, (path, command, url, resource), strict=True)
    return {word: field for field, words in listed for word in words.split()}


_FORMATS = fields_by_word("path file-path directory-path", url="uri iri uri-reference iri-reference")
_NAMES = fields_by_word(
    "path file filename filepath directory dir folder cwd pathname dirname",
    "command cmd argv",
    "url uri href",
    "resource resource_id",
)
"""Last words of an argument's name, in snake case, singular."""

SYNONYMS = fields_by_word("path file_path", "command", "url uri", "resource resource_id")
"""The words by which a profile or a schema may call a field."""


def field_named(name: str) -> MatchingField | None:
    """Return the field that the name of an argument suggests; a number at its end is ignored."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("-", "_").rstrip("0123456789_").split("_")
    last = words[-1]
    singular = last if last in _NAMES else last.removesuffix("s") if last != "s" else last
    return _NAMES.get("_".join(words)) or _NAMES.get(singular)


def fields_in(value: Json, field: MatchingField) -> list[Json]:
    """Return the values in an argument that may be a field: itself, list items, and members named like the field.

    In an object without such a member, every text that is not longer than a path may be the field.
    """
    if isinstance(value, list):
        return [found for each in value for found in fields_in(each, field)]
    if not isinstance(value, dict):
        return [value]
    named = [each for name, each in value.items() if field_named(name) is field]
    if named:
        return fields_in(named, field)
    texts = fields_in([*value.values()], field)
    return [each for each in texts if isinstance(each, str) and 0 < len(each) <= MAX_PATH]


def field_hinted(schema: JsonObject) -> MatchingField | None:
    """Return the field that the schema of an argument declares."""
    hint, form = schema.get("x-agenttool"), schema.get("format")
    if isinstance(hint, str) and hint in SYNONYMS:
        return SYNONYMS[hint]
    return _FORMATS.get(form) if isinstance(form, str) else None


MAX_DEPTH = 8
"""How deep a schema is looked through; what lies deeper counts as room for anything."""

MAX_VISITS = 2000
"""How many places of a schema are looked at; one that leads in circles has no end of them."""

_SAME_PLACE = ("anyOf", "oneOf", "allOf", "if", "then", "else", "dependentSchemas")
_EACH_MEMBER = ("items", "prefixItems", "contains", "unevaluatedItems", "additionalProperties", "unevaluatedProperties")
_SAID_ELSEWHERE = frozenset({"enum", "const", "$ref", *_SAME_PLACE})


class SchemaSearch:
    """Searches the schemas of one tool; a part that it cannot follow counts as open.

    Attributes:
        is_open: whether arguments may have members that no schema names, so that only a call shows them.
        hinted: the fields that a schema declares, and not only the name of an argument suggests.
        unset: the places whose default is an empty text, which stands for none.
    """

    def __init__(self, schemas: Iterable[JsonObject]) -> None:
        """Search the schemas of a tool's input."""
        self.places: list[tuple[MatchingField, Steps]] = []
        self.hinted: set[MatchingField] = set()
        self.unset: set[Steps] = set()
        self.is_open = False
        self._seen: set[tuple[int, Steps]] = set()
        for schema in schemas:
            self._look(schema, (), schema)

    def _look(self, schema: Json, steps: Steps, root: JsonObject, *, is_closed: bool = False) -> None:
        """Search one place of the arguments and below it; `is_closed` if an outer schema names all members."""
        visit = (id(schema), steps)
        if visit in self._seen:
            return
        if not isinstance(schema, dict) or len(steps) > MAX_DEPTH or len(self._seen) >= MAX_VISITS:
            self.is_open = self.is_open or schema is not False
            return
        self._seen.add(visit)
        hinted = field_hinted(schema)
        kind = hinted or (field_named(steps[-1]) if steps and _may_be_text(schema) else None)
        if hinted is not None:
            self.hinted.add(hinted)
        if kind is not None:
            self.places.append((kind, steps))
            if schema.get("default") == "":
                self.unset.add(steps)
        is_closed = is_closed or False in (schema.get("additionalProperties"), schema.get("unevaluatedProperties"))
        self.is_open = self.is_open or _leaves_room(schema, is_closed=is_closed)
        for inner in _beside(schema, root):
            self._look(inner, steps, root, is_closed=is_closed)
        for name, inner in _below(schema):
            self._look(inner, (*steps, name), root)


def _beside(schema: JsonObject, root: JsonObject) -> Iterator[Json]:
    """Return the schemas that describe the same place."""
    if "$ref" in schema:
        yield resolve(str(schema["$ref"]), root)
    if "$dynamicRef" in schema:
        yield None
    for keyword in _SAME_PLACE:
        yield from _listed(schema.get(keyword), keyword == "dependentSchemas")


def _below(schema: JsonObject) -> Iterator[tuple[str, Json]]:
    """Return the schemas of members, each with the step that leads there; `*` is any."""
    properties = schema.get("properties")
    if isinstance(properties, dict):
        yield from properties.items()
    for keyword in _EACH_MEMBER:
        yield from (("*", each) for each in _listed(schema.get(keyword)) if not isinstance(each, bool))
    yield from (("*", each) for each in _listed(schema.get("patternProperties"), is_map=True))


def _listed(value: object, is_map: bool = False) -> Iterable[Json]:  # noqa: FBT001, FBT002 -- read beside its keyword
    if isinstance(value, dict):
        members = cast("JsonObject", value)
        return members.values() if is_map else (members,)
    return cast("list[Json]", value) if isinstance(value, list) else ()


def _may_be_text(schema: JsonObject) -> bool:
    kinds = schema.get("type")
    return kinds is None or kinds in ("string", "array") or (isinstance(kinds, list) and "string" in kinds)


def _leaves_room(schema: JsonObject, *, is_closed: bool) -> bool:
    """Return whether a valid value may have members or items that this schema does not describe."""
    said = schema.get("type")
    kinds: list[Json] = said if isinstance(said, list) else [said]
    if said is None:
        untold: list[Json] = [] if _SAID_ELSEWHERE & schema.keys() else ["object", "array"]
        kinds = ["object"] if "properties" in schema else untold
    untold_items = "array" in kinds and not {"items", "prefixItems"} & schema.keys()
    more = schema.get("additionalProperties")
    # A number is no path, command or address.
    is_never_text = isinstance(more, dict) and more.get("type") in ("integer", "number", "boolean", "null")
    return ("object" in kinds and not is_closed and not is_never_text) or untold_items


class MatchingFields(NamedTuple):
    """The fields of one tool that rules match.

    Attributes:
        places: for each field, the JSON pointers that lead to it, as steps.
        anywhere: fields that the tool says it has without saying where: any text may be one.
        is_open: whether the arguments may have members that are not declared; their names then decide for each call.
        declared: the fields that the tool's records declare; of the others, only the name of an argument suggests them.
        unset: the places whose default is an empty text; an empty text there names no path, command, URL or resource.
    """

    places: dict[MatchingField, tuple[Steps, ...]]
    anywhere: frozenset[MatchingField] = frozenset()
    is_open: bool = False
    declared: frozenset[MatchingField] = frozenset()
    unset: frozenset[Steps] = frozenset()

    def has(self, wanted: MatchingField) -> bool:
        """Return whether a rule on a field can apply; a command may contain paths and URLs."""
        return self.takes(wanted) or (wanted in (MatchingField.PATH, MatchingField.URL) and self.has_commands)

    def may_have(self, wanted: MatchingField) -> bool:
        """Return whether a call can have a field, also as an argument that is not declared."""
        return self.is_open or self.has(wanted)

    @property
    def has_commands(self) -> bool:
        """Return whether the tool takes a command."""
        return self.takes(MatchingField.COMMAND)

    def takes(self, wanted: MatchingField) -> bool:
        """Return whether an argument of the tool is such a field, or any text may be one."""
        return wanted in self.places or wanted in self.anywhere


def matching_fields_of(
    schemas: Iterable[JsonObject], listed: tuple[str, ...] | None, named: Iterable[tuple[MatchingField, Steps]] = ()
) -> MatchingFields:
    """Find the fields of a tool.

    Args:
        schemas: the schemas of its input, each of which may know something.
        listed: what its permission profile says rules match on; nothing if it does not say.
        named: places that its interface names in other ways.
    """
    searched, named = SchemaSearch(schemas), tuple(named)
    entries = [(kind, steps) for kind, steps in map(_entry, listed or ()) if kind is not None]
    found: dict[MatchingField, dict[Steps, None]] = {}
    for kind, steps in (*named, *searched.places, *entries):
        if steps is not None:
            found.setdefault(kind, {})[steps] = None
    stated = {kind for kind, _ in entries}
    wanted = found.keys() if listed is None else stated
    return MatchingFields(
        places={kind: tuple(found[kind]) for kind in sorted(wanted) if kind in found},
        anywhere=frozenset(wanted - found.keys()),
        is_open=listed is None and searched.is_open,
        declared=frozenset({*searched.hinted, *(kind for kind, _ in named), *stated}),
        unset=frozenset(searched.unset),
    )


def _entry(entry: str) -> tuple[MatchingField | None, Steps | None]:
    """Read `path`, `path:/target`, `/target` or the name of an argument."""
    head, _, pointer = entry.partition(":")
    word = head.strip().lower().replace(" ", "_")
    if word in SYNONYMS:
        return SYNONYMS[word], steps_of(pointer) if pointer.startswith("/") else None
    if entry.startswith("/"):
        steps = steps_of(entry)
        return field_named(steps[-1]), steps
    return field_named(entry), (entry,)
