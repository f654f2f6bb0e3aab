"""Two views of one input schema: with internal-only fields for the runtime, without them for the model.

A name in `internal_only_fields` means that member on every level: a model that may not set `tenant` may not set it in
a nested object either. A recursive schema allows no other finite rule.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from urllib.parse import unquote

from agenttool.errors import ConfigError
from agenttool.records import Json, JsonObject
from agenttool.schema.explain import pointer_of
from agenttool.schema.traverse import is_composed, members, properties_of, rebuild, steps_of, subschemas

_MARK, _INTERNAL = "visibility", "internal"
_BY_NAME = ("properties", "dependentSchemas", "dependentRequired", "dependencies")
_DEFINITIONS = ("$defs", "definitions")


def model_view(schema: JsonObject, internal_only_fields: Iterable[str]) -> JsonObject:
    """Return the schema without internal fields; the given schema is not changed.

    Fields that the schema itself marks as internal are removed, too. The outermost object, and any other that lost a
    field, accepts no undeclared members where that is possible without naming the field. `pointers_to` finds internal
    fields that a model sends anyway. Where a condition depends on an internal field, the runtime schema decides.

    Raises:
        ConfigError: a field is given as a pointer, or a visible field refers into an internal one.
    """
    properties = list(properties_of(schema))
    listed = frozenset(internal_only_fields)
    pointers = {name for name in listed if name.startswith("/")}.difference(name for name, _ in properties)
    if pointers:
        raise ConfigError(
            f"an internal-only field must be a name, not a pointer, got {min(pointers)!r}; write its last part"
        )
    hidden = listed.union(
        name for name, inner in properties if isinstance(inner, dict) and inner.get(_MARK) == _INTERNAL
    )
    if not hidden:
        return schema
    view = rebuild(schema, partial(_hide, hidden))
    if not is_composed(view):
        _close(view)
    view = _without_unused_definitions(view)
    for steps in _references(view):
        for keyword, name in pairwise(steps):
            if keyword == "properties" and name in hidden:
                raise ConfigError(f"a visible field refers into the internal-only field {name!r}; use a definition")
    return view


def mark_internal(schema: JsonObject, fields: Iterable[str]) -> JsonObject:
    """Return the schema with `visibility: internal` at each of these fields, on every level (AT-IFACE-29).

    Raises:
        ConfigError: there is no such field; a misspelled name would leave the field visible to the model.
    """
    names = frozenset(fields)
    unknown = names.difference(name for name, _ in properties_of(schema))
    if unknown:
        raise ConfigError(f"no internal-only field {min(unknown)!r} in the input schema; name a property of it")
    return rebuild(schema, partial(_mark, names)) if names else schema


def pointers_to(value: Json, names: frozenset[str]) -> list[str]:
    """Return JSON pointers to all members with these names in a JSON value."""
    return [pointer_of(path) for path in _paths_to(value, names, ())]


def _paths_to(value: Json, names: frozenset[str], path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in parts:
        if step in names:
            yield (*path, step)
        yield from _paths_to(inner, names, (*path, step))


def _mark(names: frozenset[str], node: JsonObject, *, alone: bool) -> None:
    properties = members(node, "properties")
    for name in names & properties.keys():
        if properties[name] is not False:
            properties[name] = {**members(properties, name), _MARK: _INTERNAL}


def _hide(names: frozenset[str], node: JsonObject, *, alone: bool) -> None:
    """Remove the names from one schema whose inner schemas are done."""
    lost = names & members(node, "properties").keys()
    if lost and alone:
        _close(node)
        for limit in ("minProperties", "maxProperties"):  # so that a value that fits the view fits the whole schema
            count = node.get(limit)
            if isinstance(count, int):
                node[limit] = max(count - len(lost), 0)
    for keyword in _BY_NAME:
        if keyword in node:
            named = members(node, keyword).items()
            node[keyword] = {name: _unlisted(inner, names) for name, inner in named if name not in names}
    if "required" in node:
        required = _unlisted(node.pop("required"), names)
        node |= {"required": required} if required else {}
    allowed = members(node, "propertyNames")
    if "enum" in allowed:
        allowed["enum"] = _unlisted(allowed["enum"], names)
    _hide_in_documents(names, node)
    if members(node, "discriminator").get("propertyName") in names:
        del node["discriminator"]


def _hide_in_documents(names: frozenset[str], node: JsonObject) -> None:
    """Remove the names from examples and defaults, and remove the enum values that contain them."""
    for keyword in ("default", "example", "examples"):
        if keyword in node:
            node[keyword] = _without(node[keyword], names)
    if pointers_to(node.get("const"), names):
        node |= {"enum": [node.pop("const")]}
    choices = node.get("enum")
    if isinstance(choices, list) and pointers_to(choices, names):
        node["enum"] = [each for each in choices if not pointers_to(each, names)]
        if not node["enum"]:
            node |= {"not": {}}
            del node["enum"]


def _close(node: JsonObject) -> None:
    if node.get("additionalProperties", True) is True:
        node["additionalProperties"] = False


def _unlisted(value: Json, names: frozenset[str]) -> Json:
    if not isinstance(value, list):
        return value
    return [each for each in value if not (isinstance(each, str) and each in names)]


def _without(value: Json, names: frozenset[str]) -> Json:
    if isinstance(value, dict):
        return {name: _without(inner, names) for name, inner in value.items() if name not in names}
    return [_without(each, names) for each in value] if isinstance(value, list) else value


def _references(schema: JsonObject) -> Iterator[list[str]]:
    """Yield the references as lists of unescaped steps; only a local pointer starts with an empty step."""
    for inner in subschemas(schema):
        for keyword in ("$ref", "$dynamicRef"):
            target = inner.get(keyword)
            if isinstance(target, str):
                yield [unquote(target).partition("/")[0].removeprefix("#"), *steps_of(unquote(target))]


def _without_unused_definitions(view: JsonObject) -> JsonObject:
    """Remove the definitions that only hidden fields used; they would reveal the fields to the model."""
    used: dict[str, set[str]] = {keyword: set() for keyword in _DEFINITIONS}
    pending = [{keyword: value for keyword, value in view.items() if keyword not in used}]
    while pending:
        for steps in _references(pending.pop()):
            match steps:
                case ["", ("$defs" | "definitions") as keyword, name, *_]:
                    definition = members(view, keyword).get(name)
                    if isinstance(definition, dict) and name not in used[keyword]:
                        pending.append(definition)
                    used[keyword].add(name)
                case ["", *_]:
                    pass
                case _:  # an anchor or an address: its users cannot be determined here
                    return view
    definitions: JsonObject = {
        keyword: {name: inner for name, inner in members(view, keyword).items() if name in names}
        for keyword, names in used.items()
        if names
    }
    return {keyword: value for keyword, value in view.items() if keyword not in used} | definitions
