"""Check the schemas and examples that declarations and interfaces carry."""

import re
from collections.abc import Iterator
from itertools import pairwise

from agenttool.conformance.validate.finding import RecordFlaw, Severity
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
    value_places = _SCHEMAS_OF_DECLARATION if record.kind == "tool_declaration" else _SCHEMAS_OF_INTERFACE
    for steps in value_places:
        schema = _at(record.members, steps)
        if isinstance(schema, dict) and _compiled(schema) is None:
            yield RecordFlaw(
                message="the schema cannot be used",
                expected="a JSON Schema of draft 2020-12 that is complete in itself",
                advice="correct it, and put what it refers to under its own $defs: nothing is fetched",
                pointer=pointer_of(steps),
                requirement="AT-IO-01",
            )


def check_examples(record: ForeignRecord) -> Iterator[RecordFlaw]:
    """Check that each example input fits the schema (AT-IO-05)."""
    schema = _at(record.members, ("input_contract", "model_input_schema"))
    examples = _at(record.members, ("input_contract", "examples"))
    if not isinstance(schema, dict) or not isinstance(examples, list) or not examples:
        return
    if is_costly(schema):
        yield RecordFlaw(
            message="the examples were not checked: the references of the schema multiply",
            expected="a schema whose references do not multiply one another",
            advice="simplify it: validators may take very long to use it",
            pointer="/input_contract/model_input_schema",
            requirement="AT-IO-01",
            severity=Severity.WARNING,
        )
        return
    checker = _compiled(schema)
    for index, example in enumerate(examples if checker else ()):
        for misfit in checker.misfits(example) if checker else ():
            yield _misfit(misfit, pointer_of(("input_contract", "examples", index)))


def _misfit(misfit: Misfit, place: str) -> RecordFlaw:
    """Return the flaw of an example without quoting values that the schema lists."""
    is_plain = _PLAIN_EXPECTATION.fullmatch(misfit.expected) is not None
    return RecordFlaw(
        message="the example does not fit the schema that it is an example of",
        expected=misfit.expected if is_plain else "what the schema asks for here",
        advice=misfit.advice if is_plain else "correct the example, or the schema",
        pointer=place + misfit.pointer,
        requirement="AT-IO-05",
    )


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
            yield RecordFlaw(
                message="the schema for the model names a field that is internal only",
                expected="no internal-only field in a schema that a model sees",
                advice="move it to runtime_input_schema",
                pointer=pointer_of(("input_contract", "model_input_schema", *steps)),
                requirement="AT-IO-10",
            )


def _properties(steps: tuple[str | int, ...]) -> tuple[str, ...]:
    """Yield the property names on the path to a subschema."""
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
