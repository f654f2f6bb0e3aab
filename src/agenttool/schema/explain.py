"""Explanation of a failed schema check: the place, what was expected, and what to do."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

import jsonschema_rs

from agenttool.schema.patterns import LESS_TEXT

_Kind = jsonschema_rs.ValidationErrorKind

MAX_ALTERNATIVES = 200
"""How many alternatives of `anyOf` or `oneOf` are explained; of more, only the number is given."""


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
    return "".join(["/" + str(step).replace("~", "~0").replace("/", "~1") for step in path])


def explain(error: jsonschema_rs.ValidationError) -> Misfit:
    """Return the misfit of one failed check; of alternatives, that of the only one that fits at its top."""
    pointer = pointer_of(error.instance_path)
    match error.kind:
        case _Kind.Required(name):
            return Misfit(pointer=pointer + pointer_of([name]), expected=f"a member {name!r}", advice=f"add {name!r}")
        case _Kind.AdditionalProperties(names) | _Kind.UnevaluatedProperties(names):
            values = tuple(pointer + pointer_of([name]) for name in names)
            advice = f"remove {', '.join(map(repr, names))}"
            return Misfit(
                pointer=pointer, expected="no other members", advice=advice, values=values, names=tuple(names)
            )
        case _Kind.AnyOf(context) | _Kind.OneOfNotValid(context):
            # The outermost error of each alternative says what it expects.
            branches = [branch for branch in context if branch and len(context) <= MAX_ALTERNATIVES]
            firsts = [min(branch, key=lambda each: len(each.instance_path)) for branch in branches]
            meant = [first for first in firsts if not _is_other_type(first, error)]
            if len(meant) == 1:
                return explain(meant[0])
            expected = " or ".join(dict.fromkeys(explain(first).expected for first in firsts))
            words = expected or f"one of {len(context)} alternatives", "make it fit one of them"
        case _Kind.Type(types):
            words = " or ".join(types), f"change it from {_TYPE_NAMES.get(type(error.instance), 'what it is')}"
        case _Kind.Enum(options):
            words = f"one of {', '.join(map(str, options))}", "use a listed value"
        case _Kind.Constant(value):
            words = repr(value), f"write {value!r}"
        case _Kind.FalseSchema():
            words = "nothing here", "leave it out"
        case _Kind.Custom():
            words = error.message, "shorten it" if error.message == LESS_TEXT else "change the value"
        case _:
            limits = [repr(value) for value in cast("dict[str, object]", error.kind.as_dict()).values()]
            sentence = _SENTENCES.get(error.kind.name, f"{error.kind.name} {{}}" if limits else error.kind.name)
            words = sentence.format(*limits[:1]), "change the value"
    return Misfit(pointer=pointer, expected=words[0], advice=words[1], values=(pointer,))


def _is_other_type(branch: jsonschema_rs.ValidationError, error: jsonschema_rs.ValidationError) -> bool:
    """Return whether an alternative is for another type, so that the value was not meant for it."""
    is_here = len(branch.instance_path) == len(error.instance_path)
    return is_here and isinstance(branch.kind, _Kind.Type | _Kind.Constant | _Kind.Enum)


_TYPE_NAMES: dict[type, str] = {
    type(None): "null, or leave the member out",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
}

_SENTENCES = {
    "exclusiveMinimum": "a number more than {}",
    "exclusiveMaximum": "a number less than {}",
    "minimum": "a number of at least {}",
    "maximum": "a number of at most {}",
    "multipleOf": "a multiple of {}",
    "minLength": "text of at least {} characters",
    "maxLength": "text of at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "uniqueItems": "items that all differ",
    "minProperties": "at least {} members",
    "maxProperties": "at most {} members",
    "pattern": "text that matches {}",
    "format": "text in the format {}",
    "contains": "an item of the kind that the schema asks for",
    "not": "a value that the schema does not exclude",
}
"""What a keyword expects; the limit of the schema is filled in."""
