"""OpenAPI Overlay 1.0 and 1.1: changes to a document that its owner keeps in a file of their own."""

import copy
import re
from collections.abc import Callable
from typing import cast

from agenttool.adapters.openapi.document import DocumentError
from agenttool.records import Json, JsonObject

_TEXT = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_STEP = re.compile(
    rf"""(?:\.(?P<deep_name>\.)?(?P<name>[\w$-]+|\*))"""
    rf"""|(?P<deep>\.\.)?\[(?P<bracket>{_TEXT}|\*|-?\d+|\?(?:{_TEXT}|\[(?:{_TEXT})\]|[^\]\['"])*)\]"""
)
_COMPARISON = re.compile(
    rf"""\s*@(?:\.(?P<name>[\w$-]+)|\[(?P<quoted>{_TEXT})\])\s*"""
    rf"""(?:(?P<operator>==|!=)\s*(?P<value>{_TEXT}|true|false|null|-?\d+))?\s*(?P<joint>&&|\|\||$)"""
)
_ESCAPED = re.compile(r"\\(.)")


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
            continue
        update = action.get("update")
        if isinstance(source := action.get("copy"), str):
            sources = _select(found, source, pointer)
            if len(sources) != 1:
                raise DocumentError(
                    f"copy must select one value, but {source!r} selects {len(sources)}; correct it", pointer
                )
            update = copy.deepcopy(_value(sources[0], found))
        elif "update" not in action:
            raise DocumentError("an action must have remove, update or copy; add one of them", pointer)
        for parent, key in places:
            _update(parent, key, update, found)
    return found


_Place = tuple[JsonObject | list[Json] | None, str | int]
"""A value by its container and its key; the document itself has no container."""


def _select(root: JsonObject, path: str, pointer: str) -> list[_Place]:
    """Return the places that a JSONPath selects.

    Names, wildcards, indexes, `..` and filters that compare members of a value, with `&&` and `||`, are supported.

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
    values = _descendants(value) if step["deep"] or step["deep_name"] else [value]
    name, bracket = step["name"], step["bracket"]
    if "*" in (name, bracket):
        return [place for each in values for place in _members(each)]
    if name is None and bracket[0] == "?":
        is_wanted = _condition(bracket, pointer)
        return [place for each in values for place in _members(each) if is_wanted(_value(place, {}))]
    if name is None and bracket[0] not in "'\"":
        number = int(bracket)
        lists = [each for each in values if isinstance(each, list) and -len(each) <= number < len(each)]
        return [(each, number % len(each)) for each in lists]
    name = _unquoted(bracket) if name is None else name
    return [(each, name) for each in values if isinstance(each, dict) and name in each]


def _members(value: Json) -> list[_Place]:
    if isinstance(value, dict):
        return [(value, key) for key in value]
    return [(value, number) for number in range(len(value))] if isinstance(value, list) else []


def _unquoted(text: str) -> str:
    return _ESCAPED.sub(r"\1", text[1:-1])


def _descendants(value: Json) -> list[Json]:
    found, waiting = list[Json](), [value]
    while waiting:
        each = waiting.pop()
        found.append(each)
        waiting += each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
    return found


def _condition(text: str, pointer: str) -> Callable[[Json], bool]:
    """Return the condition of a filter such as `?@.a == 1 && @.b || @.c`.

    Raises:
        DocumentError: the filter is not supported.
    """
    inner = text[1:].strip()
    inner = inner[1:-1] if inner.startswith("(") and inner.endswith(")") else inner
    alternatives: list[list[re.Match[str]]] = [[]]
    position, joint = 0, "&&"
    while joint:
        found = _COMPARISON.match(inner, position)
        if found is None:
            reason = "compare members as in ?@.name=='x' && @.other"
            raise DocumentError(f"the filter {text!r} is not supported at {inner[position:]!r}; {reason}", pointer)
        alternatives[-1].append(found)
        position, joint = found.end(), found["joint"]
        if joint == "||":
            alternatives.append([])
    return lambda value: any(all(_holds(each, value) for each in group) for group in alternatives)


def _holds(comparison: re.Match[str], value: Json) -> bool:
    name, operator = comparison["name"] or _unquoted(comparison["quoted"]), comparison["operator"]
    has = isinstance(value, dict) and name in value
    if operator is None:
        return has
    actual, wanted = cast("JsonObject", value)[name] if has else None, _literal(comparison["value"])
    is_equal = has and actual == wanted and isinstance(actual, bool) == isinstance(wanted, bool)
    return is_equal if operator == "==" else not is_equal


def _literal(text: str) -> Json:
    constants: dict[str, Json] = {"true": True, "false": False, "null": None}
    if text in constants:
        return constants[text]
    return _unquoted(text) if text[0] in "'\"" else int(text)


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
