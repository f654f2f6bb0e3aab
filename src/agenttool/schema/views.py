"""Two views of one input schema: with internal-only fields for the runtime, without them for the model.

A name in `internal_only_fields` means that member on every level: who may not set `tenant` may not set it in a nested
object either, and a recursive schema has no other finite way to say so.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from urllib.parse import unquote

from agenttool.errors import ConfigError
from agenttool.records import Json, JsonObject
from agenttool.schema.explain import pointer_of
from agenttool.schema.traverse import is_composed, members, properties_of, rebuild, subschemas

_MARK, _INTERNAL = "visibility", "internal"
_BY_NAME = ("properties", "dependentSchemas", "dependentRequired", "dependencies")
_DEFINITIONS = ("$defs", "definitions")


def model_view(schema: JsonObject, internal_only_fields: Iterable[str]) -> JsonObject:
    """Give the schema as a model may see it; the one given stays as it is.

    What the schema itself marks as internal goes too. The outermost object, and any other that lost a field, takes no
    undeclared members where this can be said without naming the field; what a model sends all the same is found by
    `pointers_to`. Where a condition depends on an internal field, the runtime schema has the last word.

    Raises:
        ConfigError: a field is pointed at and not named, or what stays visible points into what does not.
    """
    properties = list(properties_of(schema))
    listed = frozenset(internal_only_fields)
    pointers = {name for name in listed if name.startswith("/")}.difference(name for name, _ in properties)
    if pointers:
        raise ConfigError(
            f"an internal-only field is named, not pointed at, got {min(pointers)!r}; write its last part"
        )
    hidden = listed.union(name for name, inner in properties if _is_internal(inner))
    if not hidden:
        return schema
    view = rebuild(schema, partial(_hide, hidden))
    if not is_composed(view):
        _close(view)
    view = _without_unused_definitions(view)
    _refuse_dangling(view, hidden)
    return view


def mark_internal(schema: JsonObject, fields: Iterable[str]) -> JsonObject:
    """Give the schema with `visibility: internal` at each of these fields, on every level (AT-IFACE-29).

    Raises:
        ConfigError: there is no such field; had it been misspelled, the model would still see the right one.
    """
    names = frozenset(fields)
    unknown = names.difference(name for name, _ in properties_of(schema))
    if unknown:
        raise ConfigError(f"no internal-only field {min(unknown)!r} in the input schema; name a property of it")
    return rebuild(schema, partial(_mark, names)) if names else schema


def pointers_to(value: Json, names: frozenset[str]) -> list[str]:
    """List where members with these names stand in a JSON value, as JSON pointers; empty means nowhere."""
    return [pointer_of(path) for path in _paths_to(value, names, ())]


def _paths_to(value: Json, names: frozenset[str], path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in parts:
        if step in names:
            yield (*path, step)
        yield from _paths_to(inner, names, (*path, step))


def _is_internal(schema: Json) -> bool:
    return isinstance(schema, dict) and schema.get(_MARK) == _INTERNAL


def _mark(names: frozenset[str], node: JsonObject, *, alone: bool) -> None:
    properties = members(node, "properties")
    for name in names & properties.keys():
        if properties[name] is not False:
            properties[name] = {**members(properties, name), _MARK: _INTERNAL}


def _hide(names: frozenset[str], node: JsonObject, *, alone: bool) -> None:
    """Take the names out of one schema, whose inner schemas are rid of them already."""
    lost = names & members(node, "properties").keys()
    if lost and alone:
        _close(node)
        _count_less(node, lost)
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
    """Take the names out of examples and defaults, and give up the choices that a model could not make without them."""
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


def _count_less(node: JsonObject, lost: frozenset[str]) -> None:
    """Leave room for the fields that are filled in later, so that what fits the view fits the whole schema too."""
    for limit in ("minProperties", "maxProperties"):
        count = node.get(limit)
        if isinstance(count, int):
            node[limit] = max(count - len(lost), 0)


def _unlisted(value: Json, names: frozenset[str]) -> Json:
    if not isinstance(value, list):
        return value
    return [each for each in value if not (isinstance(each, str) and each in names)]


def _without(value: Json, names: frozenset[str]) -> Json:
    if isinstance(value, dict):
        return {name: _without(inner, names) for name, inner in value.items() if name not in names}
    return [_without(each, names) for each in value] if isinstance(value, list) else value


def _references(schema: JsonObject) -> Iterator[list[str]]:
    """Go through the local references as lists of unescaped steps; what is no local pointer is one odd step."""
    for inner in subschemas(schema):
        for keyword in ("$ref", "$dynamicRef"):
            target = inner.get(keyword)
            if isinstance(target, str):
                steps = unquote(target).removeprefix("#").split("/")
                yield [step.replace("~1", "/").replace("~0", "~") for step in steps]


def _refuse_dangling(view: JsonObject, names: frozenset[str]) -> None:
    for steps in _references(view):
        for keyword, name in pairwise(steps):
            if keyword == "properties" and name in names:
                raise ConfigError(f"a visible field points into the internal-only field {name!r}; use a definition")


def _without_unused_definitions(view: JsonObject) -> JsonObject:
    """Drop the definitions that only hidden fields used; they would tell the model what it may not know."""
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
                case _:  # an anchor or an address: from here nobody can tell who uses what
                    return view
    kept: JsonObject = {
        keyword: {name: inner for name, inner in members(view, keyword).items() if name in names}
        for keyword, names in used.items()
        if names
    }
    return {keyword: value for keyword, value in view.items() if keyword not in used} | kept
