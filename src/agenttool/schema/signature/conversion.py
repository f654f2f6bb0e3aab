"""Conversion of JSON input to keyword arguments: unchanged where that is right, by pydantic where it is not.

A schema for integers accepts 1.0, and a function could change a list that the records share. So text, numbers, booleans
and null pass unchanged, lists and mappings of them are copied, and integral floats become `int`.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import IntEnum
from typing import cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from agenttool.codec import clone
from agenttool.errors import ToolFailure
from agenttool.records import ErrorClass, Json, JsonObject, ToolError
from agenttool.schema.explain import pointer_of
from agenttool.schema.recursion import ExceedsWork

Convert = Callable[[JsonObject], dict[str, object]]
"""Returns keyword arguments for an input that fits its schema; they share no mutable value with it.

Raises `ToolFailure` with `invalid_arguments` for what only the types can check, such as February 30.
"""

COPY = cast("Convert", clone)
"""The conversion that only copies lists and mappings."""

_CoreSchema = Mapping[str, object]
"""A type as pydantic represents it internally."""

NormalForm = Callable[[JsonObject], JsonObject]
"""Returns an input with the values that its validators make of it."""

_MAX_REPORTED = 5
_ANYWHERE = frozenset({"type", "metadata", "ref", "strict", "serialization"})
_NUMBER = _ANYWHERE | {"ge", "gt", "le", "lt", "multiple_of", "allow_inf_nan"}
_UNTOUCHED = {
    "none": _ANYWHERE,
    "bool": _ANYWHERE,
    "int": _NUMBER,
    "float": _NUMBER,
    "str": _ANYWHERE | {"min_length", "max_length", "pattern"},
    "literal": _ANYWHERE | {"expected"},
    "nullable": _ANYWHERE | {"schema"},
    "union": _ANYWHERE | {"choices", "mode"},
    "typed-dict-field": _ANYWHERE | {"schema", "required"},
}
"""Types whose values pydantic would pass unchanged, and the keywords that do not alter this.

Each of these keywords has an equivalent in JSON Schema, so a checked value fits it.
"""

_COPIED = {
    "list": _ANYWHERE | {"items_schema", "min_length", "max_length"},
    "dict": _ANYWHERE | {"keys_schema", "values_schema", "min_length", "max_length"},
}
"""Containers that pydantic would copy and otherwise not change, if their items are simple."""

_VALIDATORS = frozenset({"function-before", "function-after", "function-wrap", "function-plain"})
_CASES = ("to_lower", "to_upper", "strip_whitespace", "str_to_lower", "str_to_upper", "str_strip_whitespace")
_CHANGING_TYPES = frozenset({"EmailStr._validate"})
"""Validators of pydantic that return another text. Its other ones check a value, or convert it to a type."""

_RESPELLED_TYPES = frozenset({"url", "multi-host-url", "datetime", "date", "time", "timedelta", "decimal"})
_RESPELLED_BY = frozenset({"GenerateSchema._path_schema.<locals>.path_validator", "ByteSize._validate"})
"""Types whose values have several spellings, and the validators of such types."""

_CONTAINER = "container"
_OTHER = "other"
_LITERALS: dict[type[object], str] = {str: "str", bool: "bool", int: "int", type(None): "none"}


def conversion_of(
    core: _CoreSchema,
    validate: Callable[[JsonObject], object],
    sensitive: frozenset[str],
    exceeds_work: ExceedsWork | None,
) -> tuple[Convert | None, frozenset[str]]:
    """Return the conversion to arguments, none if the input can be the arguments; and the fields that are integers.

    An integer field may be written as `1.0`. The pipeline turns that into an integer, so it needs no conversion here.
    """
    integers: list[str] = []
    has_containers = False
    fields = core["fields"] if core["type"] == "typed-dict" else {"": core}
    for name, field in cast("dict[str, _CoreSchema]", fields).items():
        kinds = set(_kinds(field))
        # pydantic turns the integers in a list of floats into floats.
        if _OTHER in kinds or kinds >= {_CONTAINER, "float"}:
            return PydanticConversion(validate, sensitive, exceeds_work), frozenset()
        if "int" in kinds and "float" not in kinds:
            integers.append(name)
        has_containers = has_containers or _CONTAINER in kinds
    return (COPY if has_containers else None), frozenset(integers)


def _kinds(core: object) -> Iterator[str]:
    """Yield the kinds of simple values that a type accepts; `_OTHER` for one that is not simple or is converted."""
    found = cast("_CoreSchema", core if isinstance(core, dict) else {})
    kind = found.get("type")
    if not isinstance(kind, str) or found.keys() - (_UNTOUCHED.get(kind) or _COPIED.get(kind, frozenset())):
        yield _OTHER
    elif kind in _COPIED:
        yield _CONTAINER
        yield from _kinds(found.get("items_schema" if kind == "list" else "values_schema"))
        if kind == "dict" and found.get("keys_schema") != {"type": "str"}:
            yield _OTHER
    elif kind == "literal":
        yield from (_LITERALS.get(type(each), _OTHER) for each in cast("list[object]", found["expected"]))
    elif kind == "union":
        for each in cast("list[object]", found["choices"]):
            yield from _kinds(each)
    elif "schema" in found:
        yield from _kinds(found["schema"])
    else:
        # A compiled pattern may have flags that JSON Schema does not know.
        yield kind if isinstance(found.get("pattern", ""), str) else _OTHER


@dataclass(frozen=True, slots=True)
class PydanticConversion:
    """A conversion that can reject an input that fits its schema.

    Attributes:
        sensitive: fields that are not described in errors.
        exceeds_work: returns whether the validator would try too many alternatives.
    """

    validate: Callable[[JsonObject], object]
    sensitive: frozenset[str] = frozenset()
    exceeds_work: ExceedsWork | None = None

    def __call__(self, given: JsonObject) -> dict[str, object]:
        """Return the arguments.

        Raises:
            ToolFailure: invalid_arguments.
        """
        if self.exceeds_work is not None and self.exceeds_work(given):
            raise ToolFailure(invalid_arguments(_TOO_MANY_ALTERNATIVES))
        try:
            # Some types pass parts of the input on, and a function may change its arguments.
            return cast("dict[str, object]", self.validate(clone(given)))
        except ValidationError as error:
            failure = _error_of(error, self.sensitive)
        # Raised here, the failure has no cause. The cause would quote the input, and tracebacks are logged.
        raise ToolFailure(failure)


def normal_form_of(adapter: TypeAdapter[dict[str, object]], convert: Convert | None) -> NormalForm | None:
    """Return the function that replaces values by validated ones; none if no validator or type can change a value.

    Rules, approvers and records must see what the tool gets: `HTTP://EXAMPLE.com` is `http://example.com/` for a URL.
    So the returned function raises `ToolFailure` if validators change their own output again, or make no JSON.
    A value that only its type respells stays as it is if its own serializer writes it in another form.
    """
    core = cast("_CoreSchema", adapter.core_schema)
    change = _change_by(core)
    if convert is None or not change:
        return None
    fields = cast("dict[str, object]", core["fields"]) if core["type"] == "typed-dict" else None
    changing = None if fields is None else {name for name, field in fields.items() if _change_by(field)}

    def normal(given: JsonObject) -> JsonObject:
        arguments = convert(given)
        try:
            written: JsonObject = adapter.dump_python(
                arguments,
                mode="json",
                include=changing,
                by_alias=True,
                exclude_unset=True,
                round_trip=True,
                warnings="error",
            )
            found = cast("JsonObject", _merged(given, written))
            if found == given or convert(found) == arguments:
                return found
        except (PydanticSerializationError, ToolFailure):
            pass
        if change is _Change.SPELLING:
            return given
        raise ToolFailure(invalid_arguments(_UNSTABLE))

    return normal


def normal_form_of_model(model: object) -> NormalForm | None:
    """Return the same for the fields of a pydantic model."""
    adapter = TypeAdapter[dict[str, object]](cast("type[dict[str, object]]", model))
    return normal_form_of(adapter, PydanticConversion(adapter.validate_python))


class _Change(IntEnum):
    """What a type can do to a value: nothing, write it in another way, or replace it by another one of its type."""

    NONE = 0
    SPELLING = 1
    VALUE = 2


def _change_by(core: object) -> _Change:
    """Return what the validators, the types and the settings of texts in a type can do to a value."""
    if isinstance(core, list | tuple):
        return max(map(_change_by, cast("list[object]", core)), default=_Change.NONE)
    if not isinstance(core, dict):
        return _Change.NONE
    found = cast("_CoreSchema", core)
    own, kind = _Change.NONE, found.get("type")
    if (
        any(found.get(name) is True for name in _CASES)
        or kind == "uuid"
        or found.get("post_init")
        or found.get("custom_init")
    ):
        own = _Change.VALUE
    elif kind in _RESPELLED_TYPES:
        own = _Change.SPELLING
    elif kind in _VALIDATORS:
        function = cast("Mapping[str, object]", found["function"])["function"]
        name = getattr(function, "__qualname__", "")
        if not str(getattr(function, "__module__", "")).startswith("pydantic.") or name in _CHANGING_TYPES:
            own = _Change.VALUE
        elif name in _RESPELLED_BY:
            own = _Change.SPELLING
    inner = (_change_by(each) for name, each in found.items() if name not in ("metadata", "serialization"))
    return own if own is _Change.VALUE else max([own, *inner])


def _merged(given: Json, written: Json) -> Json:
    """Return the written value with the members that only the given one has, its numbers and its masked secrets."""
    if isinstance(given, dict) and isinstance(written, dict):
        return given | {name: _merged(given.get(name), value) for name, value in written.items()}
    if isinstance(given, list) and isinstance(written, list) and len(given) == len(written):
        return [_merged(old, new) for old, new in zip(given, written, strict=True)]
    is_secret = isinstance(written, str) and written and not written.strip("*")
    return given if is_secret or _is_same_number(given, written) else written


def _is_same_number(given: Json, written: Json) -> bool:
    """Return whether a number is written as text, as that of a decimal type is; rules compare numbers."""
    if isinstance(given, int | float) and isinstance(written, str):
        with suppress(InvalidOperation):
            return Decimal(written) == Decimal(str(given))
    return False


def _error_of(error: ValidationError, sensitive: frozenset[str]) -> ToolError:
    """Return an error with the places and problems; the problem of a sensitive value is left out."""
    problems: list[str] = []
    for each in error.errors(include_url=False, include_context=False, include_input=False)[:_MAX_REPORTED]:
        secret = any(step in sensitive for step in each["loc"])
        problems.append(f"{pointer_of(each['loc'])!r}: {'not a valid value' if secret else each['msg']}")
    return invalid_arguments(f"arguments do not fit the tool: {'; '.join(problems)}; correct them and call again")


_TOO_MANY_ALTERNATIVES = (
    "arguments are nested too deeply in a union that refers to itself: too many alternatives would be tried; nest less,"
    " or let the author of the tool give the union a discriminator"
)

_UNSTABLE = (
    "a validator of this tool makes a value that has no JSON form or that it would change again, so rules and approvers"
    " cannot see what would run; let the author of the tool convert the value in its function instead"
)


def invalid_arguments(message: str) -> ToolError:
    """Return the error of arguments that do not fit the types of a tool."""
    return ToolError(error_class=ErrorClass.INVALID_ARGUMENTS, message=message)
