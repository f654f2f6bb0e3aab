"""The conversion of a result message to native output: content for the model, and display for people."""

import binascii
from typing import cast

from agenttool.adapters.rap.wire import ImageItem, Segment, TextItem, ToolResultMessage
from agenttool.ports.output import Media, NativeError, NativeOutput
from agenttool.records import UNSET, ContentItem, Json, text_item

ERROR_PREFIX = "Error: "
"""How the text of a failed call begins; the protocol has no other sign of failure."""


def output_of(message: ToolResultMessage) -> object:
    """Return the native output of a result: its `content`, or its `text` if it has no content."""
    items = message.content or ()
    texts = [item.text for item in items if isinstance(item, TextItem)]
    text = "\n".join(texts) if items else message.text or ""
    is_error = text.startswith(ERROR_PREFIX)
    segments = message.display_as or ()
    return NativeOutput(
        value=UNSET if items else text,
        content=tuple(map(_item, items)) or None,
        is_error=is_error,
        error=NativeError(message=text.removeprefix(ERROR_PREFIX)) if is_error else None,
        ui_facing_summary=summary_of(segments),
        ui_facing_rendering=[
            {"type": each.type, "content": cast("Json", each.content)} for each in segments if each.is_known
        ]
        or UNSET,
    )


def summary_of(segments: tuple[Segment, ...]) -> str | None:
    """Return the last text segment, which is the short text for people; None if there is none."""
    texts = [segment.content for segment in segments if segment.type == "text" and isinstance(segment.content, str)]
    return texts[-1] if texts else None


def _item(item: TextItem | ImageItem) -> ContentItem | Media:
    if isinstance(item, TextItem):
        return text_item(item.text)
    return Media(binascii.a2b_base64(item.data, strict_mode=True), item.media_type)
