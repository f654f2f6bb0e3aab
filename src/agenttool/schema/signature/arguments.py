"""The signature of a callable: one type for all arguments, its schemas and its defaults."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, cast

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, with_config
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, SchemaError, to_jsonable_python
from typing_extensions import TypedDict

from agenttool.codec import canonical_json, sorted_json
from agenttool.errors import ConfigError, RecordError
from agenttool.records import JsonObject
from agenttool.schema.compile import Checker, compile_schema
from agenttool.schema.defaults import DefaultTree, compile_defaults
from agenttool.schema.markers import MARKERS, Internal, Marker, Sensitive
from agenttool.schema.recursion import alternative_work
from agenttool.schema.signature.callables import (
    EMPTY,
    CallableInfo,
    FunctionKind,
    Injected,
    parse_docstring,
    read_callable,
)
from agenttool.schema.signature.conversion import Convert, NormalForm, PydanticConversion, conversion_of, normal_form_of
from agenttool.schema.signature.schemas import (
    CompactJsonSchema,
    TypeCheck,
    output_contract,
    read_fields,
    reason_of,
    remedy_of,
    without_marks,
)
from agenttool.schema.traverse import members
from agenttool.schema.views import mark_internal, model_view, pointers_to

ArgumentsType = TypeAdapter[dict[str, object]]

_WORDS = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[^\W\d_A-Z])(?=[A-Z])")

MAX_ATTEMPTS = 120_000
"""How many alternatives of a recursive type pydantic may try for one input: about 20 ms."""

_CONFIG = ConfigDict(extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")

_UNUSABLE = (PydanticUserError, SchemaError, TypeError, ValueError, NameError, AttributeError, RecursionError)
"""What a type without a schema can raise."""

_make_typed_dict = cast("Callable[..., type[dict[str, object]]]", TypedDict)

_PLAIN_VALUES = (str, int, float, bool)
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (),
    "object": (),
}
"""The plain Python values that are of a type of JSON Schema."""

_NOTHING: JsonObject = {}
_NO_FIELDS: Mapping[Marker, tuple[str, ...]] = dict.fromkeys(MARKERS, ())
"""Shared, because a program may declare very many tools."""

_NO_JSON_DEFAULT = (RecordError, ValueError, TypeError, AttributeError, LookupError, RecursionError)
"""What a default without JSON form can raise; comparing it runs code of the tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """A parameter as pydantic reads it.

    Attributes:
        sent_as: the name of its member in the input; an alias allows a reserved word of Python.
        default: the value if the member is not sent; `EMPTY` if it is required or has a default factory.
    """

    name: str
    sent_as: str
    annotation: object
    default: object
    is_required: bool
    text: str
    markers: tuple[Marker, ...]


def read_argument(function: CallableInfo, parameter: inspect.Parameter, text: str) -> Argument:
    """Read a parameter; text in its `Annotated` overrides `text`, which comes from the docstring.

    Raises:
        ConfigError: it has two defaults, or several names that it could be sent by.
    """
    annotation: object = parameter.annotation
    default: object = parameter.default
    try:
        if isinstance(default, FieldInfo):  # as in pydantic's own models: `limit: int = Field(5, ge=1)`
            annotation = Annotated[annotation, default]  # pyright: ignore[reportInvalidTypeForm] -- made at run time
            default = EMPTY
        field = FieldInfo.from_annotation(cast("type[object]", annotation))
    except (PydanticUserError, TypeError, AttributeError) as error:
        raise function.parameter_error(
            parameter.name, f"cannot be {annotation!r}", "annotate it with a type"
        ) from error
    if default is not EMPTY and not field.is_required():
        raise function.parameter_error(parameter.name, "has two defaults", "remove the one in Field()")
    sent_as = field.validation_alias or field.alias or parameter.name
    if not isinstance(sent_as, str):
        raise function.parameter_error(parameter.name, f"has several names, {sent_as!r}", "give it one alias")
    metadata = cast("list[object]", field.metadata)
    return Argument(
        name=parameter.name,
        sent_as=sent_as,
        annotation=annotation,
        default=field.default if default is EMPTY and field.default is not PydanticUndefined else default,
        is_required=default is EMPTY and field.is_required(),
        text=next((found for found in map(_text, metadata) if found), text),
        markers=tuple(each for each in metadata if isinstance(each, Marker)),
    )


def _text(metadata: object) -> str:
    """Return a text, or the text of a `Doc`, which several libraries define."""
    text: object = metadata if isinstance(metadata, str) else getattr(metadata, "documentation", "")
    return text if isinstance(text, str) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The signature of a callable. A field name means that member of the input on every level.

    Attributes:
        description: the docstring without its parameter sections; may be empty.
        model_input_schema: what a model may send; it accepts no undeclared members and has no internal fields.
        runtime_input_schema: the same with the internal fields; none if there are no internal fields.
        output_schema: the schema of a structured return value; none for text, plain numbers and streams.
        output_check: the check of a return value without such a schema; none if its type is not known.
        defaults: the defaults with a JSON form, by member of the input; Python itself applies the others.
        secret_defaults: those of sensitive members, which are in no record.
        nested_defaults: the defaults inside the members; none if there are none.
        fields: the names of the marked fields, by marker.
        context_parameter: filled by the runtime, and in no schema.
        injected: the parameters that the runtime fills with objects of the program.
        arguments: converts an input to keyword arguments; none if the input is the keyword arguments.
        normal_form: returns an input with the values that its validators make of it; none if they can change none.
        integer_fields: the members that must arrive as integers, also if they are written as `1.0`.
        kind: how the callable runs; a `function` may still return an awaitable if a decorator hides it.
    """

    name: str
    title: str | None = None
    description: str
    model_input_schema: JsonObject
    runtime_input_schema: JsonObject | None = None
    output_schema: JsonObject | None = None
    output_check: TypeCheck | None = None
    defaults: JsonObject = field(default_factory=lambda: _NOTHING)
    secret_defaults: JsonObject = field(default_factory=lambda: _NOTHING, repr=False)
    nested_defaults: DefaultTree | None = None
    fields: Mapping[Marker, tuple[str, ...]] = field(default_factory=lambda: _NO_FIELDS)
    context_parameter: str | None
    injected: Mapping[str, Injected]
    arguments: Convert | None
    integer_fields: frozenset[str] = frozenset()
    kind: FunctionKind
    normal_form: NormalForm | None = None

    @property
    def can_reject(self) -> bool:
        """Whether its types can reject an input that fits its schema."""
        return isinstance(self.arguments, PydanticConversion)


def signature_of(callable_object: Callable[..., object], *, context_type: type | None = None) -> Signature:
    """Return the signature of a function, a bound method, a partial or a callable object.

    Args:
        callable_object: each parameter has a name and an annotation.
        context_type: a parameter of this class or a subclass is the context of the call, not an argument.

    Raises:
        ConfigError: it cannot be called by name with JSON; the message names the parameter and the remedy.
    """
    function = read_callable(callable_object, context_type=context_type)
    names = {*(each.name for each in function.parameters), function.context_parameter or ""}
    description, texts = parse_docstring(function.docstring, names)
    arguments = [read_argument(function, each, texts.get(each.name, "")) for each in function.parameters]
    _reject_duplicates(function, arguments)
    adapter, generated = _describe(function, arguments)
    fields = read_fields(function, generated)
    sensitive, internal = frozenset(fields[Sensitive]), fields[Internal]
    schema = without_marks(generated, sensitive)
    _reject_defaults(function, arguments, schema)
    found = _json_defaults(adapter, arguments, schema)
    secret = {name for name, default in found.items() if pointers_to({name: default}, sensitive)}
    defaults: JsonObject = {name: default for name, default in found.items() if name not in secret}
    for name, default in defaults.items():
        members(members(schema, "properties"), name)["default"] = default
    runtime_schema = mark_internal(schema, internal)
    exceeds_work = alternative_work(runtime_schema, MAX_ATTEMPTS, reads_tags=True)
    convert, integers = conversion_of(adapter.core_schema, adapter.validator.validate_python, sensitive, exceeds_work)
    model_schema = model_view(runtime_schema, internal)
    schema_of_output, output_check = output_contract(function)
    return Signature(
        name=function.name,
        title=_title(function.name),
        description=description,
        model_input_schema=model_schema,
        runtime_input_schema=runtime_schema if runtime_schema != model_schema else None,
        output_schema=schema_of_output,
        output_check=output_check,
        defaults=defaults,
        secret_defaults={name: found[name] for name in secret},
        nested_defaults=compile_defaults(generated),
        fields=fields,
        context_parameter=function.context_parameter,
        injected=function.injected,
        arguments=convert,
        normal_form=normal_form_of(adapter, convert),
        integer_fields=integers,
        kind=function.kind,
    )


def _title(name: str) -> str | None:
    """Return a name as words: `read_file` and `ReadFile` become `Read file`."""
    words = " ".join(_WORDS.findall(_HUMP.sub("_", name)))
    return words[:1].upper() + words[1:].lower() if words else None


def _reject_duplicates(function: CallableInfo, arguments: Sequence[Argument]) -> None:
    senders: dict[str, str] = {}
    for each in arguments:
        other = senders.setdefault(each.sent_as, each.name)
        if other != each.name:
            raise function.parameter_error(
                each.name, f"is sent as {each.sent_as!r}, and so is {other!r}", "change one alias"
            )


def _describe(function: CallableInfo, arguments: Sequence[Argument]) -> tuple[ArgumentsType, JsonObject]:
    """Return the type and its schema; if that fails, try each argument alone to name the one at fault."""
    try:
        # All arguments are optional in this type, because the schema lists the required ones.
        annotations = {each.name: each.annotation for each in arguments}
        adapter = TypeAdapter(with_config(_CONFIG)(_make_typed_dict("Arguments", annotations, total=False)))
        schema = _schema(adapter, arguments)
        compile_schema(schema)
    except (*_UNUSABLE, OverflowError, RecordError) as error:
        if len(arguments) != 1:
            for each in arguments:
                _describe(function, [each])
            raise ConfigError(
                f"the parameters of {function.name}() have no schema together ({error}); simplify"
            ) from None
        raise function.parameter_error(
            arguments[0].name,
            f"has a type without a usable schema, {arguments[0].annotation!r} ({reason_of(error)})",
            remedy_of(error, "use JSON types, dataclasses, typed dicts or pydantic models"),
        ) from None
    return adapter, schema


def _schema(adapter: ArgumentsType, arguments: Sequence[Argument]) -> JsonObject:
    schema: JsonObject = to_jsonable_python(adapter.json_schema(schema_generator=CompactJsonSchema))
    if "properties" not in schema:
        raise TypeError("`Self` is not known outside of a class")
    schema.pop("title", None)
    properties = members(schema, "properties")
    for each in arguments:
        declared = members(properties, each.sent_as)
        declared |= {marker.keyword: marker.value for marker in each.markers}
        declared.pop("default", None)  # `_json_defaults` adds it where it has a JSON form
        if each.text:
            declared.setdefault("description", each.text)
    if any(each.is_required for each in arguments):
        schema["required"] = [each.sent_as for each in arguments if each.is_required]
    return schema


def _reject_defaults(function: CallableInfo, arguments: Sequence[Argument], schema: JsonObject) -> None:
    """Reject plain values of another type than their parameter; none and other objects may mean "not given".

    Raises:
        ConfigError: names the parameter.
    """
    for each in arguments:
        kind = members(members(schema, "properties"), each.sent_as).get("type")
        allowed = _PYTHON_TYPES.get(kind) if isinstance(kind, str) else None
        if type(each.default) in _PLAIN_VALUES and allowed is not None and not isinstance(each.default, allowed):
            flaw = f"has a default of the type {type(each.default).__name__}, but is declared as {kind}"
            raise function.parameter_error(each.name, flaw, "correct the default or the annotation")


def _json_defaults(
    adapter: ArgumentsType,
    arguments: Sequence[Argument],
    schema: JsonObject,
) -> JsonObject:
    """Return the defaults by the name they are sent as; Python itself applies the others.

    A default is returned if its JSON fits the schema and reads back as the same value.
    """
    fits = Checker({keyword: value for keyword, value in schema.items() if keyword != "required"})
    defaults: JsonObject = {}
    for each in arguments:
        if each.default is EMPTY:
            continue
        try:
            member = _written(adapter, each)
            canonical_json(member)
            back = adapter.validate_python(member)[each.name]
            if fits.accepts(member) and _is_same(back, each.default):
                defaults |= member
        except _NO_JSON_DEFAULT:
            continue
    return defaults


def _written(adapter: ArgumentsType, argument: Argument) -> JsonObject:
    written: JsonObject = adapter.dump_python(
        {argument.name: argument.default}, mode="json", by_alias=True, round_trip=True, warnings="error"
    )
    value = written[argument.sent_as]
    if isinstance(argument.default, set | frozenset) and isinstance(value, list):
        value = sorted(value, key=sorted_json)  # the order of a set differs from run to run
    return {argument.sent_as: value}


def _is_same(back: object, default: object) -> bool:
    is_widened = type(back) is float and type(default) is int
    return (is_widened or type(back) is type(default)) and bool(back == default)
