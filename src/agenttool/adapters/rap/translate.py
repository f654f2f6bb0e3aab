"""A tool's result message to native output: what the model gets, and what people are shown, kept apart."""

import binascii
from typing import cast

from agenttool.adapters.rap.wire import ImageItem, Segment, TextItem, ToolResultMessage
from agenttool.ports.output import Media, NativeError, NativeOutput
from agenttool.records import UNSET, ContentItem, Json, UnsetType, text_item

ERROR = "Error: "
"""How the text of a failure begins: the protocol has no other sign."""


def output_of(message: ToolResultMessage) -> object:
    """Give what the model gets, complete whatever is displayed: `content`, and only without one the `text`."""
    text = _text_of(message)
    is_error = text.startswith(ERROR)
    shown = message.display_as or ()
    return NativeOutput(
        value=text if not message.content else UNSET,
        content=None if not message.content else tuple(map(_item, message.content)),
        is_error=is_error,
        error=NativeError(message=text.removeprefix(ERROR)) if is_error else None,
        ui_facing_summary=summary_of(shown),
        ui_facing_rendering=_rendering(shown),
    )


def summary_of(segments: tuple[Segment, ...]) -> str | None:
    """Give the short text for people, which is the last of its kind; none if there is none."""
    texts = [segment.content for segment in segments if segment.type == "text" and isinstance(segment.content, str)]
    return texts[-1] if texts else None


def _rendering(segments: tuple[Segment, ...]) -> Json | UnsetType:
    """Give the segments that can be rendered, the richest first; those of an unknown type are skipped."""
    known: list[Json] = [
        {"type": segment.type, "content": cast("Json", segment.content)} for segment in segments if segment.is_known
    ]
    return known or UNSET


def _item(item: TextItem | ImageItem) -> ContentItem | Media:
    if isinstance(item, TextItem):
        return text_item(item.text)
    return Media(binascii.a2b_base64(item.data, strict_mode=True), item.media_type)


def _text_of(message: ToolResultMessage) -> str:
    if message.content:
        texts = [item.text for item in message.content if isinstance(item, TextItem)]
        return "\n".join(texts)
    return message.text or ""
