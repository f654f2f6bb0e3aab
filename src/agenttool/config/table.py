"""Decode one table of settings into a msgspec struct; errors name the key, the value and the remedy.

The type of every field of such a struct carries `Meta(description="what it must be; what to write")`. A field that is a
tuple accepts one text instead of a list of one.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from typing import Annotated, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta
from msgspec import field as key
from msgspec.structs import asdict as members_of

from agenttool.records import JsonObject, Part

__all__ = ["Meta", "Switch", "TableError", "Text", "Texts", "convert_members", "key", "members_of", "read_table"]

_T = TypeVar("_T", bound=Part)

Text = Annotated[str, Meta(pattern=r"\S", description="a text; write it in quotes")]
Switch = Annotated[bool, Meta(description="true or false; write one of them")]
Texts = Annotated[
    tuple[Annotated[str, Meta(min_length=1)], ...],
    Meta(min_length=1, description="a text or a list of texts; write each in quotes"),
]


_SECRET_KEYS = ("env", "headers")
"""Keys whose values may be secrets in any table."""


class TableError(ValueError):
    """A table that is invalid.

    Attributes:
        key: the key that is wrong; None if the whole table is.
    """

    def __init__(self, message: str, key: str | None = None) -> None:
        """Store the message, which has the cause and the remedy, but not the place."""
        super().__init__(message)
        self.key = key


def read_table(members: JsonObject, kind: type[_T], what: str, *, shows_values: bool = True) -> _T:
    """Return the struct of a table.

    Raises:
        TableError: a key is unknown, missing or invalid; `what` names the table in the message. Without `shows_values`,
            and for keys that hold secrets, the message has the type of a wrong value instead of the value.
    """
    fields = keys_of(kind)
    for name in members:
        if name not in fields:
            raise TableError(f"{what} has no {name!r}; {suggestion(str(name), fields)}", name)
    listed = {name: [value] if isinstance(value, str) and fields[name][0] else value for name, value in members.items()}
    try:
        return msgspec.convert(listed, kind)
    except msgspec.ValidationError as error:
        name = next((each for each in fields if f"`$.{each}" in str(error) or f"field `{each}`" in str(error)), None)
        if name is None:
            raise TableError(str(error)) from error
        raise _misfit(name, members.get(name), fields[name][1], shows_values=shows_values) from error


def convert_members(made: Part) -> None:
    """Convert the members of a struct that a program made, like `read_table` converts those of a table.

    For example, a dictionary becomes the struct of the member's type, and a list becomes a tuple.

    Raises:
        TableError: a member is invalid; the message has the type of the value.
    """
    fields = keys_of(type(made))
    for field in msgspec.structs.fields(type(made)):
        is_tuple, description = fields[field.encode_name]
        given: object = getattr(made, field.name)
        try:
            value: object = msgspec.convert([given] if isinstance(given, str) and is_tuple else given, field.type)
        except msgspec.ValidationError as error:
            raise _misfit(field.name, given, description, shows_values=False) from error
        if value is not given:
            msgspec.structs.force_setattr(made, field.name, value)


def _misfit(name: str, got: object, description: str, *, shows_values: bool) -> TableError:
    expected, _, remedy = description.partition("; ")
    shown = repr(got) if shows_values and name not in _SECRET_KEYS else type(got).__name__
    return TableError(f"{name} must be {expected}, got {shown}; {remedy}", name)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the remedy for an unknown name: the closest known one, or all of them."""
    close = get_close_matches(name, list(known), 1)
    return f"did you mean {close[0]!r}?" if close else f"use one of {', '.join(known)}"


@cache
def keys_of(kind: type[Part]) -> dict[str, tuple[bool, str]]:
    """Return for each key whether it takes a tuple, and its description."""
    hints = get_type_hints(kind, include_extras=True)
    found: dict[str, tuple[bool, str]] = {}
    for field in msgspec.structs.fields(kind):
        hint: object = hints[field.name]
        parts = [each for each in (hint, *get_args(hint)) if get_origin(each) is Annotated]
        metas = [meta for each in parts for meta in get_args(each)[1:] if isinstance(meta, Meta)]
        is_tuple = any(get_origin(get_args(each)[0]) is tuple for each in parts)
        found[field.encode_name] = is_tuple, next(meta.description for meta in metas if meta.description) or ""
    return found
