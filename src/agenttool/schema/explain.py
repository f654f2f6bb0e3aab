"""Explanation of a failed schema check: the place, what was expected, and what to do."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

import jsonschema_rs

_Kind = jsonschema_rs.ValidationErrorKind


@dataclass(frozen=True, kw_only=True, slots=True)
class Misfit:
    """One place where a document does not fit its schema. It never quotes the document: a value may be a secret.

    Attributes:
        values: pointers to the values at fault.
        names: members that the schema does not know.
    """

    pointer: str
    expected: str
    advice: str
    values: tuple[str, ...] = field(default=(), compare=False)
    names: tuple[str, ...] = field(default=(), compare=False)


def pointer_of(path: Iterable[str | int]) -> str:
    """Join the steps of a path into a JSON pointer (RFC 6901)."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def explain(error: jsonschema_rs.ValidationError) -> Misfit:
    """Return the misfit of one failed check."""
    expected, advice = _words(error)
    pointer = pointer_of(error.instance_path)
    values, unknown = (pointer,), ()
    match error.kind:
        case _Kind.Required(name):
            pointer, values = pointer + pointer_of([name]), ()
        case _Kind.AdditionalProperties(names) | _Kind.UnevaluatedProperties(names):
            values, unknown = tuple(pointer + pointer_of([name]) for name in names), tuple(names)
        case _:
            pass
    return Misfit(pointer=pointer, expected=expected, advice=advice, values=values, names=unknown)


def _words(error: jsonschema_rs.ValidationError) -> tuple[str, str]:
    match error.kind:
        case _Kind.Required(name):
            words = f"a member {name!r}", f"add {name!r}"
        case _Kind.Type(types):
            words = " or ".join(types), f"change it from {_TYPE_NAMES.get(type(error.instance), 'what it is')}"
        case _Kind.Enum(options):
            words = f"one of {', '.join(map(str, options))}", "use a listed value"
        case _Kind.Constant(value):
            words = repr(value), f"write {value!r}"
        case _Kind.AdditionalProperties(names) | _Kind.UnevaluatedProperties(names):
            words = "no other members", f"remove {', '.join(map(repr, names))}"
        case _Kind.AnyOf(context) | _Kind.OneOfNotValid(context):
            # What each branch expects is listed, so that the reader need not open the schema.
            expected = dict.fromkeys(_words(branch[0])[0] for branch in context if branch)
            words = " or ".join(expected), "make it fit one of them"
        case _Kind.FalseSchema():
            words = "nothing here", "leave it out"
        case _Kind.Custom():
            words = error.message, "change the value"
        case _:
            # The keyword and its limit, such as `maximum 100`.
            limits = [repr(value) for value in cast("dict[str, object]", error.kind.as_dict()).values()]
            words = " ".join([error.kind.name, *limits[:1]]), "change the value"
    return words


_TYPE_NAMES: dict[type, str] = {
    type(None): "null, or leave the member out",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
}
