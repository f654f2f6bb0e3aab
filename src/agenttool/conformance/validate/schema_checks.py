"""Check the schemas and examples that declarations and interfaces carry."""

import re
from collections.abc import Iterator
from itertools import pairwise

from agenttool.conformance.validate.finding import RecordFlaw, flaw
from agenttool.conformance.validate.foreign_records import ForeignRecord
from agenttool.conformance.validate.parse import walk
from agenttool.conformance.validate.secret_checks import FieldNames
from agenttool.errors import RecordError
from agenttool.records import Json, JsonObject
from agenttool.schema.compile import Checker, is_costly
from agenttool.schema.explain import Misfit, pointer_of

_SCHEMAS_OF_DECLARATION = (
    ("input_contract", "model_input_schema"),
    ("input_contract", "runtime_input_schema"),
    ("output_contract", "structured_schema"),
)
_SCHEMAS_OF_INTERFACE = (("model_input_schema",), ("runtime_input_schema",), ("output_schema",), ("progress_schema",))
_PLAIN_EXPECTATION = re.compile(
    r"a member '[^']{1,80}'|(?:(?:null|boolean|integer|number|string|array|object)(?: or )?){1,7}"
)
_KEEPS_PROPERTIES = frozenset({"properties", "patternProperties", "dependentSchemas"})


def check_schemas(record: ForeignRecord) -> Iterator[RecordFlaw]:
    """Check that every schema of a declaration or interface compiles without fetching (AT-IO-01)."""
    places = _SCHEMAS_OF_DECLARATION if record.kind == "tool_declaration" else _SCHEMAS_OF_INTERFACE
    for steps in places:
        schema = _at(record.members, steps)
        if isinstance(schema, dict) and _compiled(schema) is None:
            yield flaw("unusable_schema", pointer_of(steps))


def check_examples(record: ForeignRecord) -> Iterator[RecordFlaw]:
    """Check that each example input fits the schema (AT-IO-05)."""
    schema = _at(record.members, ("input_contract", "model_input_schema"))
    examples = _at(record.members, ("input_contract", "examples"))
    if not isinstance(schema, dict) or not isinstance(examples, list) or not examples:
        return
    if is_costly(schema):
        yield flaw("costly_schema", "/input_contract/model_input_schema")
        return
    checker = _compiled(schema)
    for index, example in enumerate(examples):
        for misfit in checker.misfits(example) if checker else ():
            yield _misfit(misfit, pointer_of(("input_contract", "examples", index)))


def _misfit(misfit: Misfit, place: str) -> RecordFlaw:
    """Return the flaw of an example without quoting values that the schema lists."""
    is_plain = _PLAIN_EXPECTATION.fullmatch(misfit.expected) is not None
    expected = misfit.expected if is_plain else "what the schema asks for here"
    advice = misfit.advice if is_plain else "correct the example, or the schema"
    return flaw("example_misfit", place + misfit.pointer, expected=expected, advice=advice)


def check_internal_fields(record: ForeignRecord) -> Iterator[RecordFlaw]:
    """Check that the schema for the model names no internal-only field on any level (AT-IO-10)."""
    schema = _at(record.members, ("input_contract", "model_input_schema"))
    internal = FieldNames.of(_at(record.members, ("input_contract", "internal_only_fields")))
    for steps, _, value in walk(schema) if internal else ():
        if isinstance(steps[-1], str) and len(steps) > 1 and steps[-2] in _KEEPS_PROPERTIES:
            shown = _properties(steps)
        elif isinstance(value, str) and "required" in steps[-2:-1]:
            shown = (*_properties(steps), value)
        else:
            continue
        if internal.end(shown):
            yield flaw("internal_field", pointer_of(("input_contract", "model_input_schema", *steps)))


def _properties(steps: tuple[str | int, ...]) -> tuple[str, ...]:
    """Return the property names on the path to a subschema."""
    return tuple(str(name) for keeper, name in pairwise(steps) if keeper in _KEEPS_PROPERTIES)


def _compiled(schema: JsonObject) -> Checker | None:
    try:
        return Checker(schema)
    except RecordError:
        return None


def _at(value: Json, steps: tuple[str, ...]) -> Json:
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return value
