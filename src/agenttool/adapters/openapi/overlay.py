"""OpenAPI Overlay 1.0: changes to a document that its owner keeps in a file of their own."""

import copy
import re
from typing import cast

from agenttool.adapters.openapi.document import DocumentError
from agenttool.records import Json, JsonObject

_STEP = re.compile(
    r"""\.\.(?P<deep>[\w$-]+|\*|\[[^\]]*\])"""
    r"""|\.(?P<name>[\w$-]+|\*)"""
    r"""|\[(?P<bracket>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\*|-?\d+|\?[^\]]*)\]"""
)
_FILTER = re.compile(
    r"""\?\(?\s*@(?:\.(?P<name>[\w$-]+)|\['(?P<quoted>[^']*)'\])\s*(?:(?P<operator>==|!=)\s*(?P<value>.+?))?\s*\)?"""
)


def apply_overlay(root: JsonObject, overlay: JsonObject, unused: list[str]) -> JsonObject:
    """Return a document with the actions of an overlay applied; `unused` receives targets that select nothing.

    Raises:
        DocumentError: the overlay is invalid.
    """
    actions = overlay.get("actions")
    if not isinstance(overlay.get("overlay"), str) or not isinstance(actions, list):
        raise DocumentError("an overlay has the members 'overlay' and 'actions'; add them")
    found = copy.deepcopy(root)
    for number, action in enumerate(actions):
        pointer = f"/actions/{number}"
        target = action.get("target") if isinstance(action, dict) else None
        if not isinstance(action, dict) or not isinstance(target, str):
            raise DocumentError("an action needs a target; add it", pointer)
        places = _select(found, target, pointer)
        if not places:
            unused.append(f"the target {target!r} of an overlay ({pointer}) selects nothing; correct it")
        if action.get("remove") is True:
            _remove(places)
        elif "update" in action:
            for parent, key in places:
                _update(parent, key, action["update"], found)
    return found


_Place = tuple[JsonObject | list[Json] | None, str | int]
"""A value by its container and its key; the document itself has no container."""


def _select(root: JsonObject, path: str, pointer: str) -> list[_Place]:
    """Return the places that a JSONPath selects.

    Names, wildcards, indexes, `..name` and filters that compare one member are supported.

    Raises:
        DocumentError: the path is not supported.
    """
    if not path.startswith("$"):
        raise DocumentError(f"a target starts with '$', got {path!r}; correct it", pointer)
    places: list[_Place] = [(None, "$")]
    position = 1
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            raise DocumentError(f"the target {path!r} is not supported at {path[position:]!r}; simplify it", pointer)
        places = [found for place in places for found in _step(_value(place, root), step, pointer)]
        position = step.end()
    return places


def _value(place: _Place, root: JsonObject) -> Json:
    parent, key = place
    if parent is None:
        return root
    return parent[str(key)] if isinstance(parent, dict) else parent[int(key)]


def _step(value: Json, step: re.Match[str], pointer: str) -> list[_Place]:
    deep = step["deep"]
    if deep is not None:
        return [found for each in _descendants(value) for found in _named(each, deep.strip("[]'\""))]
    bracket = step["bracket"]
    if bracket is None:
        return _named(value, step["name"])
    if bracket.startswith("?"):
        return _filtered(value, bracket, pointer)
    return _named(value, bracket[1:-1].replace("\\'", "'") if bracket[0] in "'\"" else bracket)


def _named(value: Json, name: str) -> list[_Place]:
    if isinstance(value, dict):
        return [(value, key) for key in value] if name == "*" else [(value, name)] if name in value else []
    if isinstance(value, list):
        if name == "*":
            return [(value, number) for number in range(len(value))]
        is_index = name.lstrip("-").isdecimal() and -len(value) <= int(name) < len(value)
        return [(value, int(name) % len(value))] if is_index else []
    return []


def _descendants(value: Json) -> list[Json]:
    found, waiting = list[Json](), [value]
    while waiting:
        each = waiting.pop()
        found.append(each)
        waiting += each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
    return found


def _filtered(value: Json, text: str, pointer: str) -> list[_Place]:
    parts = _FILTER.fullmatch(text)
    if parts is None:
        raise DocumentError(f"the filter {text!r} is not supported; compare one member as in ?@.name=='x'", pointer)
    name, operator = parts["name"] or parts["quoted"], parts["operator"]
    wanted = _literal(parts["value"] or "")
    found: list[_Place] = []
    for place in _named(value, "*"):
        each = _value(place, {})
        has = isinstance(each, dict) and name in each
        actual = cast("JsonObject", each)[name] if has else None
        is_equal = has and actual == wanted
        if has if operator is None else is_equal if operator == "==" else not is_equal:
            found.append(place)
    return found


def _literal(text: str) -> Json:
    if text[:1] in "'\"" and len(text) > 1:
        return text[1:-1]
    constants: dict[str, Json] = {"true": True, "false": False, "null": None}
    if text in constants:
        return constants[text]
    return int(text) if text.lstrip("-").isdecimal() else text


def _remove(places: list[_Place]) -> None:
    for parent, key in sorted(places, key=lambda each: each[1] if isinstance(each[1], int) else -1, reverse=True):
        if isinstance(parent, dict):
            parent.pop(str(key), None)
        elif isinstance(parent, list):
            del parent[int(key)]


def _update(parent: JsonObject | list[Json] | None, key: str | int, update: Json, root: JsonObject) -> None:
    """Merge an update into the target: objects member by member; a list gets it as a new item."""
    target: Json = root if parent is None else _value((parent, key), root)
    if isinstance(target, dict) and isinstance(update, dict):
        _merge(target, update)
    elif isinstance(target, list):
        target += copy.deepcopy(update) if isinstance(update, list) else [copy.deepcopy(update)]
    elif isinstance(parent, dict):
        parent[str(key)] = copy.deepcopy(update)
    elif isinstance(parent, list):
        parent[int(key)] = copy.deepcopy(update)


def _merge(target: JsonObject, update: JsonObject) -> None:
    for name, value in update.items():
        before = target.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            _merge(before, value)
        elif isinstance(before, list) and isinstance(value, list):
            before += copy.deepcopy(value)
        else:
            target[name] = copy.deepcopy(value)
