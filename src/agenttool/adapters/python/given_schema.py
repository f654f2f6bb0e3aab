"""Check a schema that a program gives for a tool, and that the tool's function accepts what the schema allows."""

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import cast

from agenttool.errors import ConfigError, RecordError
from agenttool.records import Json, JsonObject
from agenttool.schema.compile import compile_schema
from agenttool.schema.traverse import members

_WRAPPERS = ("parameters", "input_schema", "inputSchema", "function", "args_schema")
_COMPOSED = frozenset({"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if"})
"""Keywords that can define fields elsewhere than in `properties`."""

_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def checked_schema(name: str, given: Mapping[str, Json]) -> JsonObject:
    """Return the schema of a tool's input, which accepts no other fields unless it says so.

    Raises:
        ConfigError: it is no JSON Schema of an object, or requires a field that it does not allow.
    """
    schema: JsonObject = {"type": "object", "additionalProperties": False, **given}
    if schema["type"] != "object":
        raise _invalid(name, f"its type is {schema['type']!r}", "arguments have names, so write an object")
    if "properties" not in schema and not _COMPOSED & schema.keys():
        _reject_other_forms(name, given)
    try:
        compile_schema(schema)
    except RecordError as error:
        raise ConfigError(f"the schema of {name!r} is invalid: {error}") from error
    required, fields = schema.get("required"), members(schema, "properties")
    if isinstance(required, list) and schema["additionalProperties"] is False and not _COMPOSED & schema.keys():
        for each in required:
            if each not in fields:
                advice = _suggestion(str(each), fields) or "add it to the properties"
                raise _invalid(name, f"it requires the field {each!r}, which it does not define", advice)
    return schema


def _reject_other_forms(name: str, given: Mapping[str, Json]) -> None:
    """Reject a declaration of another library, and fields without `properties` around them."""
    inner = next((each for each in _WRAPPERS if isinstance(given.get(each), dict)), None)
    if inner is not None:
        raise _invalid(name, "it is the declaration of a whole tool", f"pass its member {inner!r}")
    fields = [each for each, value in given.items() if isinstance(value, dict) and value.get("type") in _TYPES]
    if fields:
        advice = f'write {{"properties": {{{fields[0]!r}: ...}}}}'
        raise _invalid(name, f"the field {fields[0]!r} is not in its properties", advice)


def check_parameters(
    name: str, schema: JsonObject, function: Callable[..., object], filled: Collection[str | None]
) -> None:
    """Check that a function can be called with every input that fits a schema; `filled` are filled by the runtime.

    Raises:
        ConfigError: the function has no parameter for a field, or requires one that a model may leave out.
    """
    try:
        parameters = inspect.signature(function).parameters
    except (ValueError, TypeError):
        return  # a builtin function may have no readable signature
    problem = next(_mismatches(schema, parameters, filled), None)
    if problem is not None:
        raise ConfigError(f"{_call_of(function)} does not fit the schema of {name!r}: {problem}")


def _mismatches(
    schema: JsonObject, parameters: Mapping[str, inspect.Parameter], filled: Collection[str | None]
) -> Iterator[str]:
    fields, required = members(schema, "properties"), cast("list[str]", schema.get("required", []))
    takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    by_name = {each.name: each for each in parameters.values() if each.kind in _BY_NAME and each.name not in filled}
    for field in fields if not takes_any else ():
        if field not in by_name:
            advice = _suggestion(field, by_name.keys() - fields.keys()) or f"add a parameter {field!r}, or **fields"
            yield f"it has no parameter for the field {field!r}; {advice}"
    is_open = schema["additionalProperties"] is not False or "patternProperties" in schema
    if is_open and not takes_any and not _COMPOSED & schema.keys():
        yield "the schema allows further fields; add **fields to the function, or additionalProperties: False"
    for each in parameters.values():
        if each.default is inspect.Parameter.empty and each.kind is inspect.Parameter.POSITIONAL_ONLY:
            yield f"its parameter {each.name!r} is positional-only, but arguments are sent by name; move the '/'"
    for each in by_name.values():
        if each.default is not inspect.Parameter.empty or each.name in required or _COMPOSED & schema.keys():
            continue
        if each.name in fields:
            yield f"it needs {each.name!r}, which a call may leave out; add it to 'required', or give it a default"
        else:
            yield f"it needs {each.name!r}, which is no field; add it to 'properties', or give it a default"


def _call_of(function: object) -> str:
    return f"{getattr(function, '__name__', type(function).__name__)}()"


def _suggestion(name: str, known: Collection[str]) -> str:
    close = get_close_matches(name, list(known), 1)
    return f"did you mean {close[0]!r}?" if close else ""


def _invalid(name: str, problem: str, advice: str) -> ConfigError:
    return ConfigError(f"the schema of {name!r} is invalid: {problem}; {advice}")
