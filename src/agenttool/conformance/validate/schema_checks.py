"""Check records against the schemas of their kinds, and the schemas and examples that records carry.

Our schemas accept nothing that the published ones reject, and require more. What breaks a published schema is an
error. What breaks only what ours add (`OUR_MEMBERS`, and whatever lies inside a member) is a warning.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise

import msgspec

from agenttool.conformance.ledger import read_table
from agenttool.conformance.validate.finding import Finding, Severity, flaw, requirements_of
from agenttool.conformance.validate.foreign_records import ForeignRecord
from agenttool.conformance.validate.parse import walk
from agenttool.conformance.validate.secret_checks import FieldNames
from agenttool.errors import RecordError
from agenttool.records import JsonObject
from agenttool.schema.compile import Checker, is_costly
from agenttool.schema.explain import Misfit, pointer_of
from agenttool.schema.record_schemas import schema_of
from agenttool.schema.traverse import value_at

SHAPE_ROWS = requirements_of("schema")
"""The requirement that a record of each kind fits its schema."""

CLOSED_LISTS = requirements_of("closed_enum")
"""The requirement of each closed enum, by `record_type.member`."""

OUR_MEMBERS = frozenset((row["record_type"], row["member"]) for row in read_table("validate/extensions.tsv"))
"""Members that our schemas describe and the published ones leave open; a test compares both."""

ITEMS_OF_ANYTHING = frozenset({("tool_surface", "deferred_tools"), ("tool_surface", "loaded_tools")})
"""Lists whose items the published schemas leave open."""

_MODEL_SCHEMA = "/input_contract/model_input_schema"
_SCHEMAS_OF_DECLARATION = (_MODEL_SCHEMA, "/input_contract/runtime_input_schema", "/output_contract/structured_schema")
_SCHEMAS_OF_INTERFACE = ("/model_input_schema", "/runtime_input_schema", "/output_schema", "/progress_schema")
_PLAIN_EXPECTATION = re.compile(
    r"a member '[^']{1,80}'|(?:(?:null|boolean|integer|number|string|array|object)(?: or )?){1,7}"
)
_KEEPS_PROPERTIES = frozenset({"properties", "patternProperties", "dependentSchemas"})


def misfits_of(kind: str, members: JsonObject) -> Iterable[Finding]:
    """Return the flaws of a record that does not fit the schema of its kind."""
    checker = _checker_of(kind)
    if checker.accepts(members):
        return ()
    return [_schema_flaw(kind, misfit) for misfit in checker.misfits(members)]


@cache
def _checker_of(kind: str) -> Checker:
    return Checker(schema_of(kind))


def _schema_flaw(kind: str, misfit: Misfit) -> Finding:
    member, *inner = misfit.pointer.split("/")[1:] or [""]
    is_item = len(inner) == 1 and inner[0].isdigit()
    is_ours = (kind, member) in OUR_MEMBERS or (is_item and (kind, member) in ITEMS_OF_ANYTHING)
    is_published = not is_ours and (not inner or is_item)
    made = flaw(
        "missing_member" if misfit.advice.startswith("add ") else "misfit",
        misfit.pointer,
        kind=kind,
        expected=misfit.expected,
        advice=misfit.advice,
        requirement=CLOSED_LISTS.get(f"{kind}.{member}", SHAPE_ROWS[kind]),
    )
    return made if is_published else msgspec.structs.replace(made, severity=Severity.WARNING)


def check_schemas(record: ForeignRecord) -> Iterator[Finding]:
    """Check that every schema of a declaration or interface compiles without fetching (AT-IO-01)."""
    places = _SCHEMAS_OF_DECLARATION if record.kind == "tool_declaration" else _SCHEMAS_OF_INTERFACE
    for pointer in places:
        schema = value_at(record.members, pointer)
        if isinstance(schema, dict) and _compiled(schema) is None:
            yield flaw("unusable_schema", pointer)


def check_examples(record: ForeignRecord) -> Iterator[Finding]:
    """Check that each example input fits the schema (AT-IO-05)."""
    schema = value_at(record.members, _MODEL_SCHEMA)
    examples = value_at(record.members, "/input_contract/examples")
    if not isinstance(schema, dict) or not isinstance(examples, list) or not examples:
        return
    if is_costly(schema):
        yield flaw("costly_schema", _MODEL_SCHEMA)
        return
    checker = _compiled(schema)
    for index, example in enumerate(examples):
        for misfit in checker.misfits(example) if checker else ():
            yield _misfit(misfit, f"/input_contract/examples/{index}")


def _misfit(misfit: Misfit, place: str) -> Finding:
    """Return the flaw of an example without quoting values that the schema lists."""
    is_plain = _PLAIN_EXPECTATION.fullmatch(misfit.expected) is not None
    expected = misfit.expected if is_plain else "what the schema asks for here"
    advice = misfit.advice if is_plain else "correct the example, or the schema"
    return flaw("example_misfit", place + misfit.pointer, expected=expected, advice=advice)


def check_internal_fields(record: ForeignRecord) -> Iterator[Finding]:
    """Check that the schema for the model names no internal-only field on any level (AT-IO-10)."""
    schema = value_at(record.members, _MODEL_SCHEMA)
    internal = FieldNames.of(value_at(record.members, "/input_contract/internal_only_fields"))
    for steps, _, value in walk(schema) if internal else ():
        if isinstance(steps[-1], str) and len(steps) > 1 and steps[-2] in _KEEPS_PROPERTIES:
            shown = _properties(steps)
        elif isinstance(value, str) and "required" in steps[-2:-1]:
            shown = (*_properties(steps), value)
        else:
            continue
        if internal.end(shown):
            yield flaw("internal_field", _MODEL_SCHEMA + pointer_of(steps))


def _properties(steps: tuple[str | int, ...]) -> tuple[str, ...]:
    """Return the property names on the path to a subschema."""
    return tuple(str(name) for keeper, name in pairwise(steps) if keeper in _KEEPS_PROPERTIES)


def _compiled(schema: JsonObject) -> Checker | None:
    try:
        return Checker(schema)
    except RecordError:
        return None
