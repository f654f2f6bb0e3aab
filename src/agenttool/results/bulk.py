"""The part of a result that may be too much for a model: its words, apart from the refs that stay with it."""

from agenttool.codec import to_json
from agenttool.records import UNSET, ContentClass, ContentItem, Json, Part, ToolResult, UnsetType
from agenttool.results.content import spelled_json
from agenttool.results.plain import encode
from agenttool.results.preview import PreviewKind, kind_of

JSON = "application/json"
PLAIN_TEXT = "text/plain; charset=utf-8"

_MAX_KEPT_CHARS = 500
_MAX_PARSED_CHARS = 20_000_000


class Bulk(Part, frozen=True, kw_only=True):
    """The words of a result as one text, what they are, and the items that are kept beside a preview of them."""

    text: str
    media_type: str
    kind: PreviewKind
    value: Json | UnsetType
    size_bytes: int
    kept: tuple[ContentItem, ...]
    kept_for_model: tuple[ContentItem, ...]


def bulk_of(result: ToolResult) -> Bulk:
    """Take the words of a result together: JSON if it is one value, plain text if it is text, both as one document."""
    for_model = result.model_facing_content or ()
    words = [item for item in for_model if not _is_light(item)]
    structured = result.structured_content
    texts = [item.text or "" for item in words]
    spelled = "" if structured is UNSET else encode(structured).decode()
    first = words[0] if len(words) == 1 else None
    value: Json | UnsetType = UNSET
    if structured is not UNSET and (not words or texts == [spelled]):
        text, media_type, value = spelled, JSON, structured
    elif structured is UNSET or texts == [structured]:
        text, media_type = "\n".join(texts), (first.media_type if first else None) or PLAIN_TEXT
        value = _value_in(text)
    else:
        document: Json = {"content": [to_json(item) for item in words], "structured_content": structured}
        text, media_type, value = encode(document).decode(), JSON, document
    return Bulk(
        text=text,
        media_type=media_type,
        kind=kind_of(text, content_class=first.type if first else ContentClass.TEXT, media_type=media_type),
        value=value,
        size_bytes=len(text.encode()),
        kept=tuple(item for item in result.content or () if _is_light(item)),
        kept_for_model=tuple(item for item in for_model if _is_light(item)),
    )


def _is_light(item: ContentItem) -> bool:
    """Tell whether an item is a pointer with a caption at most."""
    has_pointer = item.ref is not None or item.uri is not None
    return has_pointer and item.data is UNSET and len(item.text or "") <= _MAX_KEPT_CHARS


def _value_in(text: str) -> Json | UnsetType:
    value = spelled_json(text) if len(text) <= _MAX_PARSED_CHARS else None
    return UNSET if value is None else value
