"""The output side of a signature: the schema of what a function returns, if that has a structure."""

from collections.abc import AsyncIterable, Awaitable, Iterator
from typing import cast, get_args, get_origin

from pydantic import PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError
from pydantic_core import to_jsonable_python

from agenttool.errors import ConfigError, RecordError
from agenttool.records import JsonObject
from agenttool.schema.compile import compile_schema
from agenttool.schema.signature.callee import EMPTY, Callee, Flavour
from agenttool.schema.signature.fields import without_marks
from agenttool.schema.signature.generate import SparingSchema, reason_of
from agenttool.schema.traverse import members, objects_in

_TEXT_OR_NOTHING = (EMPTY, object, str, bytes, int, float, bool, type(None))


def read_output(callee: Callee) -> JsonObject | None:
    """Give the schema of a structured return value; none for text, plain numbers, streams and strangers.

    A class that pydantic does not know is a stranger: its values are mapped to a result by other means.

    Raises:
        ConfigError: the type is one that could be described, if it were not for a mistake in it.
    """
    returns = _awaited(callee.returns)
    if (
        callee.flavour in {Flavour.GENERATOR, Flavour.ASYNC_GENERATOR}
        or returns in _TEXT_OR_NOTHING
        or _is_stream(returns)
        or _holds_content(returns)
    ):
        return None
    try:
        generated = TypeAdapter(cast("type[object]", returns)).json_schema(
            mode="serialization", schema_generator=SparingSchema
        )
        schema: JsonObject = without_marks(to_jsonable_python(generated), frozenset())
        compile_schema(schema)
    except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema):
        return None
    except (PydanticUserError, RecordError, ValueError, TypeError, NameError, OverflowError) as error:
        raise ConfigError(
            f"{callee.name}() returns {returns!r}, which has no usable schema ({reason_of(error)}); correct the type"
        ) from error
    return schema if _is_structured(schema, members(schema, "$defs")) else None


def _awaited(annotation: object) -> object:
    """Look through the awaitable of a function that is not `async` itself but returns one."""
    kind = get_origin(annotation)
    return get_args(annotation)[-1] if isinstance(kind, type) and issubclass(kind, Awaitable) else annotation


def _is_stream(annotation: object) -> bool:
    kind = get_origin(annotation) or annotation
    return isinstance(kind, type) and issubclass(kind, (Iterator, AsyncIterable))


def _holds_content(annotation: object) -> bool:
    """Tell whether what is returned is, or holds, something that goes to the model as it is, such as an image."""
    return getattr(annotation, "is_content", False) is True or any(map(_holds_content, get_args(annotation)))


def _is_structured(schema: JsonObject, definitions: JsonObject) -> bool:
    """Tell whether every value but null is an object or an array."""
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return _is_structured(members(definitions, reference.removeprefix("#/$defs/")), definitions)
    choices = [*objects_in(schema.get("anyOf")), *objects_in(schema.get("oneOf"))]
    values = [each for each in choices if each.get("type") != "null"]
    return (
        all(_is_structured(each, definitions) for each in values)
        if values
        else schema.get("type") in {"object", "array"}
    )
