"""Find tests of arguments that no valid input of a tool can pass, by the schema of the argument.

A part of a schema that cannot be followed may describe any value, so that no valid rule is rejected.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from agenttool.errors import RecordError
from agenttool.policy.fields import MAX_DEPTH
from agenttool.policy.rules import ArgumentTest
from agenttool.policy.subject import Subject
from agenttool.records import Json, JsonObject
from agenttool.schema.compile import compile_schema
from agenttool.schema.recursion import resolve
from agenttool.schema.traverse import members

_ANY: JsonObject = {}
"""The schema of any value."""
_SHARED = ("$defs", "definitions", "$schema")
_ALSO = frozenset({"allOf", "if", "not", "$dynamicRef", "dependentSchemas", "patternProperties", "prefixItems"})
"""Keywords that this module does not follow."""


def why_never(test: ArgumentTest, subject: Subject, *, is_allow: bool) -> str | None:
    """Return why no call of a tool passes a test, and what to do; None if a call may pass it."""
    problems = [_why_never(test, schema, subject, is_allow=is_allow) for schema in subject.schemas]
    return problems[0] if problems and all(problems) else None


def _why_never(test: ArgumentTest, schema: JsonObject, subject: Subject, *, is_allow: bool) -> str | None:
    if test.present is False:
        return _why_never_absent(test, schema, subject)
    found: Sequence[JsonObject] = [*_alternatives(schema, schema)]
    for depth, step in enumerate(test.steps):
        below = [each for outer in found for each in _below(outer, step, schema)]
        if not below:
            names = sorted({name for outer in found for name in members(outer, "properties")})
            return _why_nothing(test, depth, names, subject)
        found = below
    found = [*_with_items(found, schema)]
    if any(_may_pass(test, each, schema, is_allow=is_allow) for each in found):
        return None
    what = f"no valid value of {test.pointer!r} of {subject.qualified_name!r} passes its test"
    return f"{what}; {_remedy(test, found, schema)}"


def _why_never_absent(test: ArgumentTest, schema: JsonObject, subject: Subject) -> str | None:
    contract = subject.declaration.input_contract
    defaults = (contract.defaults if contract is not None else None) or {}
    required = schema.get("required")
    if len(test.steps) != 1 or not (
        test.steps[0] in defaults or (isinstance(required, list) and test.steps[0] in required)
    ):
        return None
    what = f"{test.pointer!r} of {subject.qualified_name!r} is never absent"
    if test.steps[0] not in defaults:
        return f"{what}, because it is required; take the condition out"
    return f"{what}, because its default is filled in; write equals = {json.dumps(defaults[test.steps[0]])}"


def _why_nothing(test: ArgumentTest, depth: int, names: list[str], subject: Subject) -> str:
    steps = test.pointer.split("/")[1:]
    close = get_close_matches(test.steps[depth], names, 1)
    above = "".join(f"/{each}" for each in steps[:depth])
    wanted = f"{above}/{close[0]}" if close else above
    what = f"{subject.qualified_name!r} never has a value at {test.pointer!r}"
    return f"{what}; did you mean {wanted!r}?" if wanted else f"{what}; take the condition out"


def _alternatives(schema: Json, root: JsonObject, depth: int = 0) -> Iterator[JsonObject]:
    """Return the schemas of which a value fits one; references are resolved."""
    if schema is False:
        return
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        yield _ANY
    elif isinstance(reference := schema.get("$ref"), str):
        yield from _alternatives(resolve(reference, root), root, depth + 1)
    elif isinstance(choices := schema.get("anyOf", schema.get("oneOf")), list):
        for each in choices:
            yield from _alternatives(each, root, depth + 1)
    else:
        yield schema


def _types(schema: JsonObject) -> list[Json]:
    """Return the types that a schema names; an empty list if it names none."""
    kinds = schema.get("type")
    return kinds if isinstance(kinds, list) else [] if kinds is None else [kinds]


def _below(schema: JsonObject, step: str, root: JsonObject) -> Iterator[JsonObject]:
    """Return the schemas of what one step of a pointer leads to; none if it leads nowhere."""
    kinds = _types(schema)
    if not kinds or not _ALSO.isdisjoint(schema):
        yield _ANY
        return
    inner: list[Json] = []
    if "object" in kinds:
        properties, more = members(schema, "properties"), schema.get("additionalProperties", True)
        inner += properties.values() if step == "*" else [properties[step]] if step in properties else []
        inner += [more] if step == "*" or step not in properties else []
    if "array" in kinds and (step == "*" or step.isdigit()):
        inner.append(schema.get("items", True))
    for each in inner:
        yield from _alternatives(each, root)


def _with_items(schemas: Iterable[JsonObject], root: JsonObject, depth: int = 0) -> Iterator[JsonObject]:
    """Return schemas and those of their items: a list is tested by its elements."""
    for schema in schemas:
        yield schema
        if "array" in _types(schema) and depth < MAX_DEPTH:
            yield from _with_items([*_below(schema, "*", root)], root, depth + 1)


def _may_pass(test: ArgumentTest, schema: JsonObject, root: JsonObject, *, is_allow: bool) -> bool:
    listed = _listed(schema)
    if listed is not None:
        return any(test.passes(each, doubt=not is_allow) for each in listed)
    if test.choices:
        return any(_accepts(schema, root, each) for each in test.choices)
    low, high = schema.get("minimum"), schema.get("maximum")
    is_above = test.minimum is not None and isinstance(high, int | float) and high < test.minimum
    is_below = test.maximum is not None and isinstance(low, int | float) and low > test.maximum
    return not (is_above or is_below)


def _listed(schema: JsonObject) -> list[Json] | None:
    """Return the values of a schema that lists them."""
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return values if isinstance(values, list) else None


def _accepts(schema: JsonObject, root: JsonObject, value: Json) -> bool:
    shared: JsonObject = {name: root[name] for name in _SHARED if name in root}
    try:
        return compile_schema({**shared, **schema}).accepts(value)
    except RecordError:
        return True


def _remedy(test: ArgumentTest, schemas: Sequence[JsonObject], root: JsonObject) -> str:
    listed = [each for schema in schemas for each in _listed(schema) or ()]
    wanted = test.choices[0] if test.choices else test.glob or test.prefix
    close = get_close_matches(str(wanted), [each for each in listed if isinstance(each, str)], 1)
    if not close and isinstance(wanted, str):
        close = [each for each in _readings(wanted) if any(_accepts(schema, root, each) for schema in schemas)]
    if close:
        return f"did you mean {json.dumps(close[0])}?"
    if listed:
        return f"use one of {', '.join(map(json.dumps, listed))}"
    kinds = sorted({str(kind) for schema in schemas for kind in _types(schema)})
    return f"write a value that fits its schema ({' or '.join(kinds) or 'see its declaration'})"


def _readings(text: str) -> list[Json]:
    """Return what a text is without its quotes: a number, true or false."""
    try:
        return [json.loads(text)]
    except ValueError:
        return []
