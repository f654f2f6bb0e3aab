"""What a result carries: items for the model, segments for people."""

import binascii
import re
from typing import Annotated, cast

from msgspec import UNSET, Meta, UnsetType, field

from agenttool.adapters.rap.wire.message import Message
from agenttool.records import Json

_MEDIA_TYPE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(?:\s*;.*)?", re.ASCII)

MediaType = Annotated[str, Meta(min_length=1)]


class TextItem(Message, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """Text that the model reads."""

    text: str


class ImageItem(Message, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """An image that the model sees: standard base64 without line breaks, and its MIME type."""

    data: str
    media_type: MediaType = field(name="mediaType")

    def __post_init__(self) -> None:
        """Refuse what is no image on the wire."""
        _check_image(self.data, self.media_type)


ContentItem = TextItem | ImageItem
"""What `content` is made of; an item of another type makes its message invalid."""


class Segment(Message, frozen=True, kw_only=True):
    """A part of `display_as`, for people only. One of an unknown type is kept and may be skipped."""

    type: str
    content: Json | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Check the three known types; of the others nothing is known."""
        match self.type:
            case "text":
                if not isinstance(self.content, str):
                    raise TypeError("content of a text segment must be text; write a string")
            case "diff":
                _strings(self.content, "path", "patch")
            case "image":
                data, media_type = _strings(self.content, "data", "mediaType")
                _check_image(data, media_type)
            case _:
                pass

    @property
    def is_known(self) -> bool:
        """Tell whether the segment is of a type that has a meaning."""
        return self.type in ("text", "diff", "image")


def shown_text(text: str) -> Segment:
    """Show a short text, usually one line; the last segment should be one."""
    return Segment(type="text", content=text)


def shown_diff(path: str, patch: str) -> Segment:
    """Show a unified diff."""
    return Segment(type="diff", content={"path": path, "patch": patch})


def shown_image(data: str, media_type: str) -> Segment:
    """Show an image, given in base64; a text segment should follow it."""
    return Segment(type="image", content={"data": data, "mediaType": media_type})


def _strings(content: Json | UnsetType, *names: str) -> list[str]:
    members: dict[str, Json] = content if isinstance(content, dict) else {}
    for name in names:
        if not isinstance(members.get(name), str):
            raise TypeError(f"content must be an object with the texts {' and '.join(map(repr, names))}; add {name!r}")
    return [cast("str", members[name]) for name in names]


def _check_image(data: str, media_type: str) -> None:
    if not _MEDIA_TYPE.fullmatch(media_type):
        raise ValueError("mediaType must be a MIME type; write one such as 'image/png'")
    try:
        binascii.a2b_base64(data, strict_mode=True)
    except ValueError:  # of which binascii's own error is one
        raise ValueError(
            "data must be standard base64; leave out line breaks, the URL-safe alphabet and 'data:'"
        ) from None
