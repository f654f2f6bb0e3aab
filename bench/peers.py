"""Pydantic models with the same fields as our records, made from the records themselves."""
# pyright: basic
# Types made of values are beyond a strict type checker.

from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
import pydantic

from agenttool.records import UNSET, Part, UnsetType


@cache
def peer_of(kind: type[Part]) -> type[pydantic.BaseModel]:
    """Make the model: same names, same types, nested alike, unknown members kept as we keep them."""
    config, fields = kind.__struct_config__, dict[str, Any]()
    if config.tag_field is not None:
        fields[config.tag_field] = (Literal[config.tag], config.tag)
    for field in msgspec.structs.fields(kind):
        default = ... if field.required else None
        if field.default_factory is not msgspec.NODEFAULT:
            default = pydantic.Field(default_factory=field.default_factory)
        name = field.encode_name.lstrip("_")
        annotation = _annotation(field.type, optional=field.default is UNSET)
        if name != field.encode_name:
            default = pydantic.Field(default=default, alias=field.encode_name)
        fields[name] = (annotation, default)
    return pydantic.create_model(kind.__name__, __config__=pydantic.ConfigDict(extra="allow", frozen=True), **fields)


def _annotation(annotation: Any, *, optional: bool) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return peer_of(annotation)
    arguments = tuple(_annotation(each, optional=False) for each in get_args(annotation) if each is not UnsetType)
    match get_origin(annotation):
        case None:
            found = annotation
        case origin if origin in (Union, UnionType):
            found = Union[arguments]  # noqa: UP007 -- made of values
        case origin if origin is tuple:
            found = tuple[arguments]
        case origin if origin is dict:
            found = dict.__class_getitem__(arguments)
        case _:
            found = annotation
    return Union[found, None] if optional else found  # noqa: UP007 -- made of values
