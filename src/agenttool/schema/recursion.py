"""Misfits of recursive schemas, found one level of recursion at a time.

The validator lists the errors of every alternative. Where alternatives refer back to themselves, their number doubles
with each level of the value. So references that continue a recursion are only judged, and the misfits of the value
behind one are listed by a further run, up to `MAX_RUNS`.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache, cached_property
from itertools import islice

import jsonschema_rs

from agenttool.codec import is_quick, parse_object, sorted_json
from agenttool.records import Json, JsonObject
from agenttool.schema.explain import Misfit, explain
from agenttool.schema.traverse import members, objects_in, subschemas

MAX_RUNS = 50
"""How many levels of recursion are explained for one document."""

MAX_ATTEMPTS = 120_000
"""How many alternatives may be tried for one input: about 20 ms."""

CompileSchema = Callable[[JsonObject, dict[str, type]], jsonschema_rs.Validator]
"""Compiles a schema with additional keywords."""

_JUDGED = "agenttool:judged"
_ROOT = "urn:agenttool:schema"
_FITS = "a value that fits "
_UNNAMED = Misfit(pointer="", expected="a value that fits the schema", advice="compare it with the schema")


def resolve(reference: str, root: JsonObject) -> Json:
    """Return what a JSON pointer or an anchor of a schema refers to; none for another address."""
    if reference == "#" or reference.startswith("#/"):
        return _at(reference[1:], root)
    return next((node for node in subschemas(root) if f"#{node.get('$anchor')}" == reference), None)


def _at(pointer: str, value: Json) -> Json:
    """Return the value at a JSON pointer; none if there is none."""
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list):
            value = value[int(name)] if name.isdecimal() and int(name) < len(value) else None
        else:
            value = value.get(name) if isinstance(value, dict) else None
    return value


def errors_in(value: Json, validator: jsonschema_rs.Validator) -> Iterable[jsonschema_rs.ValidationError]:
    """Return the errors of a value; of a large one only the first, because the validator collects all at once."""
    if is_quick(value):
        return validator.iter_errors(value)
    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        return [error]
    return []


class Recursion:
    """The recursive references of one schema."""

    def __init__(self, schema: JsonObject, compile_schema: CompileSchema) -> None:
        """Find the references that lead back to themselves."""
        self._schema, self._compile = schema, compile_schema
        inside = _references(schema)
        self._is_known = None not in inside.values()
        self._recursive = {each for each in inside if each in _reachable(each, inside)}
        self._validator = cache(self._compiled)

    @property
    def is_bounded(self) -> bool:
        """Whether the errors of one run are bounded by the sizes of the schema and the value."""
        return self._is_known and not self._recursive

    def misfits(self, value: Json, limit: int) -> list[Misfit]:
        """Return what does not fit in a value that was rejected; at least one entry."""
        try:
            return self._listed(value, limit) if self._is_known else [_UNNAMED]
        except ValueError:  # the value is too deep for the validator, or the schema cannot be embedded
            return [_UNNAMED]

    def _listed(self, value: Json, limit: int) -> list[Misfit]:
        found: list[Misfit] = []
        rest = deque([("#", "", value)])
        runs = 0
        while rest and len(found) < limit:
            target, place, inner = rest.popleft()
            runs += 1
            for error in islice(errors_in(inner, self._validator(target, is_cut=True)), limit - len(found)):
                misfit = explain(error)
                behind = misfit.expected.removeprefix(_FITS)
                if behind in self._recursive and runs + len(rest) < MAX_RUNS:
                    rest.append((behind, place + misfit.pointer, _at(misfit.pointer, inner)))
                else:
                    values = tuple(place + each for each in misfit.values)
                    found.append(replace(misfit, pointer=place + misfit.pointer, values=values))
        return found or [_UNNAMED]

    def _compiled(self, target: str, *, is_cut: bool) -> jsonschema_rs.Validator:
        """Compile the schema at a target; if it is cut, inner recursive references are only judged."""
        root = {**(self._cut if is_cut else self._schema), "$id": _ROOT}
        draft = root.pop("$schema", None)
        outer: JsonObject = {
            "$defs": {"root": root},
            "definitions": {"root": root},
            "allOf": [{"$ref": _ROOT + target}],
        }
        outer = outer if draft is None else {"$schema": draft, **outer}
        judged = type("JudgedReference", (_JudgedReference,), {"recursion": self})
        return self._compile(outer, {_JUDGED: judged})

    @cached_property
    def _cut(self) -> JsonObject:
        copy = parse_object(sorted_json(self._schema))
        for target in self._recursive:
            held = resolve(target, copy)
            for node in subschemas(held) if isinstance(held, dict) else ():
                if node.get("$ref") in self._recursive:
                    node[_JUDGED] = node.pop("$ref")
        return copy

    def judge(self, target: str, value: Json) -> bool:
        """Return whether a value fits what a reference refers to."""
        return self._validator(target, is_cut=False).is_valid(value)


def alternative_work(root: JsonObject) -> Callable[[Json], bool] | None:
    """Return whether a value takes more than `MAX_ATTEMPTS` of a validator that tries all alternatives on each level.

    Pydantic does that. Where alternatives refer back to themselves, the attempts double with each level of the value.
    Counting them takes one step for each alternative and value. None is returned if no reference leads back to itself.
    """
    inside = _references(root)
    if not any(each in _reachable(each, inside) for each in inside):
        return None

    def exceeds(value: Json) -> bool:
        try:
            return _attempts(root, value, root, {}) > MAX_ATTEMPTS
        except RecursionError:  # it is too deep to be counted
            return True

    return exceeds


def _attempts(schema: Json, value: Json, root: JsonObject, known: dict[tuple[int, int], int]) -> int:
    if not isinstance(schema, dict) or not isinstance(value, dict | list):
        return 1
    key = id(schema), id(value)
    if key not in known:
        known[key] = 1  # a reference that leads to itself without a level of the value adds nothing
        inner = sum(_attempts(*each, root, known) for each in _tried(schema, value, root))
        known[key] = min(1 + inner, MAX_ATTEMPTS + 1)
    return known[key]


def _tried(schema: JsonObject, value: JsonObject | list[Json], root: JsonObject) -> Iterator[tuple[Json, Json]]:
    """Yield the schemas inside a schema with the values that they are tried on."""
    reference = schema.get("$ref")
    if isinstance(reference, str):
        yield resolve(reference, root), value
    for keyword in ("anyOf", "allOf") if "discriminator" in schema else ("anyOf", "allOf", "oneOf"):
        yield from ((each, value) for each in objects_in(schema.get(keyword)))
    if isinstance(value, list):
        yield from ((schema.get("items"), each) for each in value)
    else:
        declared, other = members(schema, "properties"), schema.get("additionalProperties")
        yield from ((declared.get(name, other), each) for name, each in value.items())


class _JudgedReference:
    """The keyword that replaces `$ref` where a recursion continues."""

    recursion: Recursion

    def __init__(self, parent: JsonObject, target: str, path: list[str | int]) -> None:
        self._target = target

    def validate(self, value: Json) -> None:
        """Judge one value.

        Raises:
            ValueError: it does not fit.
        """
        if not self.recursion.judge(self._target, value):
            raise ValueError(_FITS + self._target)


def _references(schema: JsonObject) -> dict[str, set[str] | None]:
    """Return the references of a schema with those inside their targets; none instead, if a target is not known."""
    found: dict[str, set[str] | None] = {}
    rest = _inside(schema)
    while rest:
        reference = rest.pop()
        if reference not in found:
            target = resolve(reference, schema)
            found[reference] = _inside(target) if isinstance(target, dict) else None if target is None else set()
            rest |= found[reference] or set()
    return found


def _inside(schema: JsonObject) -> set[str]:
    keywords = ("$ref", "$dynamicRef", "$recursiveRef")
    named = (node.get(keyword) for node in subschemas(schema) for keyword in keywords)
    return {each for each in named if isinstance(each, str)}


def _reachable(start: str, inside: dict[str, set[str] | None]) -> set[str]:
    """Return the references that are followed after a reference."""
    found: set[str] = set()
    rest = set(inside[start] or ())
    while rest:
        found |= rest
        rest = {each for reference in rest for each in inside[reference] or ()} - found
    return found
