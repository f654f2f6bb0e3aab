"""JSON input to keyword arguments: as it came where that is right, by pydantic where it is not.

A schema that accepts integers accepts 1.0, and a list that is handed over as it came can be changed by whoever gets it,
under the eyes of the records. So only text, numbers, booleans and null pass untouched, and whole numbers become `int`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import cast

from pydantic import ValidationError

from agenttool.errors import ToolFailure
from agenttool.records import ErrorClass, Json, JsonObject, Recoverability, RetryGuidance, ToolError
from agenttool.schema.explain import pointer_of

Convert = Callable[[JsonObject], dict[str, object]]
"""Makes keyword arguments of an input that fits its schema: what is in them is shared with nobody.

Raises `ToolFailure` with `invalid_arguments` for what only the types know: a day that no calendar has, for one.
"""

Core = Mapping[str, object]
"""A type as pydantic keeps it for itself."""

MAX_TOLD = 5
"""How many misfits one failure tells."""

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
"""Types whose values pydantic would hand over as they came, and the words that do not change that.

Each of these words has its like in JSON Schema, so a value that came this far fits it.
"""

_OTHER = "other"
_LITERALS: dict[type[object], str] = {str: "str", bool: "bool", int: "int", type(None): "none"}
_BY_REFERENCE = frozenset({"any", "is-instance", "function-plain"})


def converter(core: Core, validate: Callable[[JsonObject], object], sensitive: frozenset[str]) -> Convert | None:
    """Choose the cheapest conversion that is right, which is none at all when the input is the arguments."""
    whole: list[str] = []
    fields = core["fields"] if core["type"] == "typed-dict" else {"": core}
    for name, field in cast("dict[str, Core]", fields).items():
        kinds = set(_kinds(field))
        if _OTHER in kinds:
            return ByPydantic(validate, sensitive, copies=any(map(_is_by_reference, _nodes(core))))
        if "int" in kinds and "float" not in kinds:
            whole.append(name)
    return WholeNumbers(whole) if whole else None


def _kinds(core: object) -> Iterator[str]:
    """Go through the kinds of simple values that a type takes; `_OTHER` is one that is not simple or is changed."""
    found = cast("Core", core if isinstance(core, dict) else {})
    kind = found.get("type")
    if not isinstance(kind, str) or found.keys() - _UNTOUCHED.get(kind, frozenset()):
        yield _OTHER
    elif kind == "literal":
        yield from (_LITERALS.get(type(each), _OTHER) for each in cast("list[object]", found["expected"]))
    elif kind == "union":
        for each in cast("list[object]", found["choices"]):
            yield from _kinds(each)
    elif "schema" in found:
        yield from _kinds(found["schema"])
    else:
        # A compiled pattern may carry flags that JSON Schema has no words for.
        yield kind if isinstance(found.get("pattern", ""), str) else _OTHER


def _nodes(value: object) -> Iterator[Core]:
    if isinstance(value, dict):
        core = cast("Core", value)
        yield core
        for inner in core.values():
            yield from _nodes(inner)
    elif isinstance(value, list | tuple):
        for inner in cast("list[object]", value):
            yield from _nodes(inner)


def _is_by_reference(core: Core) -> bool:
    return core.get("type") in _BY_REFERENCE or "allow" in (
        core.get("extra_behavior"),
        core.get("extra_fields_behavior"),
    )


class WholeNumbers:
    """A conversion that has nothing to do unless some number was spelled with a point."""

    __slots__ = ("_names",)

    def __init__(self, names: Iterable[str]) -> None:
        """Take the names of what must be an integer."""
        self._names = frozenset(names)

    def __call__(self, given: JsonObject) -> dict[str, object]:
        """Make the arguments."""
        names = self._names
        return {name: _whole(value) if name in names else value for name, value in given.items()}


def _whole(value: Json) -> Json:
    return int(value) if type(value) is float and value.is_integer() else value


class ByPydantic:
    """A conversion that can find fault with an input that fits its schema."""

    __slots__ = ("_copies", "_sensitive", "_validate")

    def __init__(self, validate: Callable[[JsonObject], object], sensitive: frozenset[str], *, copies: bool) -> None:
        """Take what validates, whose faults not to describe, and whether values must be copied first."""
        self._validate = validate
        self._sensitive = sensitive
        self._copies = copies

    def __call__(self, given: JsonObject) -> dict[str, object]:
        """Make the arguments.

        Raises:
            ToolFailure: invalid_arguments.
        """
        try:
            return cast(
                "dict[str, object]", self._validate(cast("JsonObject", _copied(given)) if self._copies else given)
            )
        except ValidationError as error:
            told = _told(error, self._sensitive)
        # Raised out here, it has no cause: that one quotes the input, and tracebacks are logged.
        raise ToolFailure(told)


def _copied(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _copied(inner) for name, inner in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list) else value


def _told(error: ValidationError, sensitive: frozenset[str]) -> ToolError:
    """Say what did not fit and where; of a sensitive value not even what was wrong with it."""
    told: list[str] = []
    for each in error.errors(include_url=False, include_context=False, include_input=False)[:MAX_TOLD]:
        secret = any(step in sensitive for step in each["loc"])
        told.append(f"{pointer_of(each['loc'])!r}: {'not a valid value' if secret else each['msg']}")
    return ToolError(
        error_class=ErrorClass.INVALID_ARGUMENTS,
        message=f"arguments do not fit the tool: {'; '.join(told)}; correct them and call again",
        recoverability=Recoverability.CHANGE_ARGUMENTS,
        retry=RetryGuidance(safe=True, arguments_must_change=True),
    )
