"""Hypothesis strategies that generate records from their types.

Needs `hypothesis`, which only tests install.
"""

from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, TypeVar, Union, cast, get_args, get_origin

import msgspec
from hypothesis import strategies as st

from agenttool.codec import from_json
from agenttool.records import Json, JsonObject, OpenEnum, Part, Record, UnsetType

_P = TypeVar("_P", bound=Part)
_Any = st.SearchStrategy[object]

_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_names = _text.map(lambda text: "x-" + "".join(each for each in text if each.isprintable() and each not in '"\\'))
_scalars = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False) | _text


def json_values(*, max_leaves: int = 6) -> st.SearchStrategy[Json]:
    """Generate any JSON value that canonical JSON can express."""
    return st.recursive(
        cast("st.SearchStrategy[Json]", _scalars.filter(lambda value: value not in (float("inf"), float("-inf")))),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
        max_leaves=max_leaves,
    )


def records(kind: type[_P]) -> st.SearchStrategy[_P]:
    """Generate records of one kind, with any of their optional fields."""
    return cast("st.SearchStrategy[_P]", _part(kind))


@st.composite
def records_with_unknown_members(draw: st.DrawFn, kind: type[Record]) -> Record:
    """Generate records of one kind with unknown members, as other implementations may write them."""
    members: JsonObject = msgspec.json.decode(msgspec.json.encode(draw(records(kind))))
    unknown = draw(st.dictionaries(_names, json_values(), min_size=1, max_size=3))
    return from_json({**members, **unknown}, kind)


@cache
def _part(kind: type[Part]) -> _Any:
    fields = msgspec.structs.fields(kind)
    required = {field.name: _values(field.type) for field in fields if field.required}
    optional = {
        field.name: _values(field.type) for field in fields if not field.required and field.name != "schema_version"
    }
    return st.fixed_dictionaries(required, optional=optional).map(lambda values: kind(**values))


def _values(annotation: object) -> _Any:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        found = st.one_of([_values(each) for each in arguments if each not in (NoneType, UnsetType)])
    elif origin is Annotated:
        found = st.floats(arguments[1].ge, arguments[1].le)
    elif origin is tuple:
        found = st.lists(_values(arguments[0]), max_size=2).map(tuple)
    elif origin is dict:
        found = st.dictionaries(_text, json_values(), max_size=3)
    elif isinstance(annotation, type):
        found = _values_of_class(annotation)
    else:
        found = _values(getattr(annotation, "__supertype__", object))
    return found


_plain: dict[object, _Any] = {
    bool: st.booleans(),
    int: st.integers(-(2**53) + 1, 2**53 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: _text,
}


def _values_of_class(kind: type[object]) -> _Any:
    if issubclass(kind, Part):
        return st.deferred(lambda: _part(kind))
    if issubclass(kind, OpenEnum):
        return st.sampled_from(kind) | _text.map(kind)
    if issubclass(kind, StrEnum):
        return st.sampled_from(kind)
    return _plain.get(kind, json_values())
