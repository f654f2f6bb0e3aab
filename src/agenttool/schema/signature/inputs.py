"""The input side of a signature: one type for all arguments, its schemas, its defaults and its conversion."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, with_config
from pydantic_core import SchemaError, to_jsonable_python
from typing_extensions import TypedDict

from agenttool.errors import ConfigError, RecordError
from agenttool.records import JsonObject
from agenttool.schema.compile import compile_schema
from agenttool.schema.signature.argument import Argument, read_argument
from agenttool.schema.signature.callee import Callee
from agenttool.schema.signature.convert import Convert, converter
from agenttool.schema.signature.defaults import json_defaults
from agenttool.schema.signature.fields import Fields, read_fields, without_marks
from agenttool.schema.signature.generate import SparingSchema, reason_of
from agenttool.schema.traverse import members
from agenttool.schema.views import mark_internal, model_view

ArgumentsType = TypeAdapter[dict[str, object]]

_CONFIG = ConfigDict(extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")

_UNUSABLE = (PydanticUserError, SchemaError, TypeError, ValueError, NameError, AttributeError, RecursionError)
"""What a type may end in that cannot be described as a schema."""

_make_typed_dict = cast("Callable[..., type[dict[str, object]]]", TypedDict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Everything about the input of a function that its signature tells."""

    model_schema: JsonObject
    runtime_schema: JsonObject
    defaults: JsonObject
    fields: Fields
    convert: Convert | None


def read_inputs(callee: Callee, texts: dict[str, str]) -> Inputs:
    """Read the parameters of a function; `texts` is what its docstring says of each.

    Raises:
        ConfigError: a parameter is not fit for JSON, or cannot be hidden from the model as its mark asks.
    """
    arguments = [read_argument(callee, each, texts.get(each.name, "")) for each in callee.parameters]
    _refuse_doubles(callee, arguments)
    adapter, generated = _describe(callee, arguments)
    fields = read_fields(generated)
    if fields.both:
        raise ConfigError(
            f"field {fields.both[0]!r} in the input of {callee.name}() is internal in one place and open in another;"
            " rename one of them"
        )
    sensitive = frozenset(fields.sensitive)
    schema = without_marks(generated, sensitive)
    defaults = json_defaults(adapter, arguments, schema, sensitive)
    for name, default in defaults.items():
        members(members(schema, "properties"), name)["default"] = default
    runtime_schema = mark_internal(schema, fields.internal)
    return Inputs(
        model_schema=model_view(runtime_schema, fields.internal),
        runtime_schema=runtime_schema,
        defaults=defaults,
        fields=fields,
        convert=converter(adapter.core_schema, adapter.validator.validate_python, sensitive),
    )


def _refuse_doubles(callee: Callee, arguments: Sequence[Argument]) -> None:
    senders: dict[str, str] = {}
    for each in arguments:
        other = senders.setdefault(each.sent_as, each.name)
        if other != each.name:
            raise callee.refusal(each.name, f"is sent as {each.sent_as!r}, and so is {other!r}", "change one alias")


def _describe(callee: Callee, arguments: Sequence[Argument]) -> tuple[ArgumentsType, JsonObject]:
    """Make the type and its schema; if that fails, try the arguments one by one to name the one at fault."""
    try:
        adapter = _adapter(arguments)
        schema = _schema(adapter, arguments)
        compile_schema(schema)
    except (*_UNUSABLE, OverflowError, RecordError) as error:
        if len(arguments) != 1:
            for each in arguments:
                _describe(callee, [each])
            raise ConfigError(
                f"the parameters of {callee.name}() have no schema together ({error}); simplify"
            ) from error
        raise callee.refusal(
            arguments[0].name,
            f"has a type without a usable schema, {arguments[0].annotation!r} ({reason_of(error)})",
            "use JSON types, dataclasses, typed dicts or pydantic models",
        ) from error
    return adapter, schema


def _adapter(arguments: Sequence[Argument]) -> ArgumentsType:
    """Make the type of all arguments; in it all are optional, for the schema says which are not."""
    annotations = {each.name: each.annotation for each in arguments}
    return TypeAdapter(with_config(_CONFIG)(_make_typed_dict("Arguments", annotations, total=False)))


def _schema(adapter: ArgumentsType, arguments: Sequence[Argument]) -> JsonObject:
    schema: JsonObject = to_jsonable_python(adapter.json_schema(schema_generator=SparingSchema))
    if "properties" not in schema:
        raise TypeError("`Self` is not known outside of a class")
    schema.pop("title", None)
    properties = members(schema, "properties")
    for each in arguments:
        declared = members(properties, each.sent_as)
        declared |= {mark.keyword: mark.value for mark in each.marks}
        declared.pop("default", None)  # whether it is told is decided later
        if each.text:
            declared.setdefault("description", each.text)
    if any(each.is_required for each in arguments):
        schema["required"] = [each.sent_as for each in arguments if each.is_required]
    return schema
