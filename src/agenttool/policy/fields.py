"""Which arguments of a tool are paths, commands, addresses or resources, so that a rule can be about them.

The permission profile may list what rules match on (`rule_matching_fields`): `path`, `url`, `command:/script`. Then a
rule on anything else does not apply to the tool. Where it lists nothing, the schema tells: `format: uri`, `format:
path`, `x-agenttool: command`, or simply an argument that is called `path`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from agenttool.policy.pointers import steps_of
from agenttool.records import ClosedEnum, Json, JsonObject

Steps = tuple[str, ...]

_MAX_DEPTH = 8


class MatchingField(ClosedEnum):
    """What rules can look at inside the arguments of a call."""

    PATH = "path"
    COMMAND = "command"
    URL = "url"
    RESOURCE = "resource"


_FORMATS = {
    "path": MatchingField.PATH,
    "file-path": MatchingField.PATH,
    "directory-path": MatchingField.PATH,
    "uri": MatchingField.URL,
    "iri": MatchingField.URL,
    "uri-reference": MatchingField.URL,
    "iri-reference": MatchingField.URL,
}

# Last words of an argument's name, in snake case, singular.
_NAMES = {
    **dict.fromkeys(("path", "file", "filename", "filepath", "directory", "dir", "folder", "cwd"), MatchingField.PATH),
    **dict.fromkeys(("command", "cmd", "argv"), MatchingField.COMMAND),
    **dict.fromkeys(("url", "uri", "href"), MatchingField.URL),
    **dict.fromkeys(("resource", "resource_id"), MatchingField.RESOURCE),
}

_SYNONYMS = {
    "resource_id": MatchingField.RESOURCE,
    "uri": MatchingField.URL,
    "file_path": MatchingField.PATH,
    **{str(each): each for each in MatchingField},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Where the arguments of one tool hold what rules look at.

    Attributes:
        places: for each field, the JSON pointers that lead to it, as steps.
        anywhere: fields that the tool says it has without saying where: any text may be one.
    """

    places: dict[MatchingField, tuple[Steps, ...]] = field(default_factory=dict[MatchingField, tuple[Steps, ...]])
    anywhere: frozenset[MatchingField] = frozenset()

    def has(self, wanted: MatchingField) -> bool:
        """Tell whether a rule on a field can apply; a command may hold paths and addresses of its own."""
        return (
            wanted in self.places
            or wanted in self.anywhere
            or (wanted in (MatchingField.PATH, MatchingField.URL) and self.has_commands)
        )

    @property
    def has_commands(self) -> bool:
        """Tell whether the tool takes a command."""
        return MatchingField.COMMAND in self.places or MatchingField.COMMAND in self.anywhere


def fields_of(
    schemas: Iterable[JsonObject], listed: tuple[str, ...] | None, told: Iterable[tuple[MatchingField, Steps]] = ()
) -> Fields:
    """Find the fields of a tool.

    Args:
        schemas: the schemas of its input, each of which may know something.
        listed: what its permission profile says rules match on; nothing if it does not say.
        told: places that its interface names in other ways.
    """
    found: dict[MatchingField, dict[Steps, None]] = {}
    for name, steps in [*told, *(each for schema in schemas for each in _in_schema(schema))]:
        found.setdefault(name, {})[steps] = None
    if listed is None:
        return Fields(places={name: tuple(places) for name, places in found.items()})
    wanted: set[MatchingField] = set()
    for entry in listed:
        kind, steps = _entry(entry)
        if kind is not None:
            wanted.add(kind)
        if kind is not None and steps is not None:
            found.setdefault(kind, {})[steps] = None
    return Fields(
        places={name: tuple(found[name]) for name in sorted(wanted) if name in found},
        anywhere=frozenset(name for name in wanted if name not in found),
    )


def field_named(name: str) -> MatchingField | None:
    """Tell what an argument is by its name alone."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("-", "_").split("_")
    last = words[-1]
    singular = last if last in _NAMES else last.removesuffix("s") if last != "s" else last
    return _NAMES.get("_".join(words)) or _NAMES.get(singular)


def _entry(entry: str) -> tuple[MatchingField | None, Steps | None]:
    """Read `path`, `path:/target`, `/target` or the name of an argument."""
    head, _, pointer = entry.partition(":")
    word = head.strip().lower().replace(" ", "_")
    if word in _SYNONYMS:
        return _SYNONYMS[word], steps_of(pointer) if pointer.startswith("/") else None
    if entry.startswith("/"):
        steps = steps_of(entry)
        return field_named(steps[-1]), steps
    return field_named(entry), (entry,)


def _in_schema(schema: JsonObject) -> list[tuple[MatchingField, Steps]]:
    found: list[tuple[MatchingField, Steps]] = []
    _search(schema, schema, (), found)
    return found


def _search(root: JsonObject, schema: Json, steps: Steps, found: list[tuple[MatchingField, Steps]]) -> None:
    """Look for fields at one place of the arguments and below it."""
    if not isinstance(schema, dict) or len(steps) > _MAX_DEPTH:
        return
    kind = _hinted(schema) or (field_named(steps[-1]) if steps and _may_be_text(schema) else None)
    if kind is not None:
        found.append((kind, steps))
    for inner, more in _inner(schema):
        _search(root, _resolved(root, inner, len(steps)), (*steps, *more), found)


def _inner(schema: JsonObject) -> list[tuple[Json, Steps]]:
    """Give the schemas inside a schema, each with the steps that lead to what it describes."""
    properties = schema.get("properties")
    found: list[tuple[Json, Steps]] = []
    if isinstance(properties, dict):
        found += [(each, (name,)) for name, each in properties.items()]
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            found.append((schema[keyword], ("*",)))
    for keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
        choices = schema.get(keyword)
        step: Steps = ("*",) if keyword == "prefixItems" else ()
        found += [(each, step) for each in choices] if isinstance(choices, list) else []
    return found


def _hinted(schema: JsonObject) -> MatchingField | None:
    hint, form = schema.get("x-agenttool"), schema.get("format")
    if isinstance(hint, str) and hint in _SYNONYMS:
        return _SYNONYMS[hint]
    return _FORMATS.get(form) if isinstance(form, str) else None


def _may_be_text(schema: JsonObject) -> bool:
    kinds = schema.get("type")
    return kinds is None or kinds in ("string", "array") or (isinstance(kinds, list) and "string" in kinds)


def _resolved(root: JsonObject, schema: Json, depth: int) -> Json:
    """Follow a reference inside the same document; one that leads nowhere, or in circles, is nothing."""
    for _ in range(_MAX_DEPTH):
        ref = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(ref, str):
            return schema
        if not ref.startswith("#"):
            return None
        target: Json = root
        for step in steps_of(ref[1:]):
            target = target.get(step) if isinstance(target, dict) else None
        schema = target
    return None
