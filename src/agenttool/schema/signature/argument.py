"""A parameter as pydantic reads it: its type, the name it is sent by, its default, its text and its marks."""

from dataclasses import dataclass
from typing import Annotated, cast

from pydantic import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from agenttool.schema.markers import Marker
from agenttool.schema.signature.callee import EMPTY, Callee, Parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """What one member of the input fills.

    Attributes:
        sent_as: the name of that member; an alias lets it be a reserved word of Python.
        default: what is taken if it is not sent; `EMPTY` if it must be, or if each call makes a default of its own.
    """

    name: str
    sent_as: str
    annotation: object
    default: object
    is_required: bool
    text: str
    marks: tuple[Marker, ...]


def read_argument(callee: Callee, parameter: Parameter, text: str) -> Argument:
    """Read a parameter; words in its `Annotated` win over the text that the docstring has for it.

    Raises:
        ConfigError: it has two defaults, or several names that it could be sent by.
    """
    annotation, default = parameter.annotation, parameter.default
    try:
        if isinstance(default, FieldInfo):  # as in pydantic's own models: `limit: int = Field(5, ge=1)`
            annotation = Annotated[annotation, default]  # pyright: ignore[reportInvalidTypeForm] -- made at run time
            default = EMPTY
        field = FieldInfo.from_annotation(cast("type[object]", annotation))
    except (PydanticUserError, TypeError, AttributeError) as error:
        raise callee.refusal(parameter.name, f"cannot be {annotation!r}", "annotate it with a type") from error
    if default is not EMPTY and not field.is_required():
        raise callee.refusal(parameter.name, "has two defaults", "keep the one after the '='")
    sent_as = field.validation_alias or field.alias or parameter.name
    if not isinstance(sent_as, str):
        raise callee.refusal(parameter.name, f"has several names, {sent_as!r}", "give it one alias")
    metadata = cast("list[object]", field.metadata)
    return Argument(
        name=parameter.name,
        sent_as=sent_as,
        annotation=annotation,
        default=field.default if default is EMPTY and field.default is not PydanticUndefined else default,
        is_required=default is EMPTY and field.is_required(),
        text=next((said for said in map(_text, metadata) if said), text),
        marks=tuple(each for each in metadata if isinstance(each, Marker)),
    )


def _text(metadata: object) -> str:
    """Take a text as it is, or out of a `Doc`, which more than one library has."""
    text: object = metadata if isinstance(metadata, str) else getattr(metadata, "documentation", "")
    return text if isinstance(text, str) else ""
