"""The content of one output: its items, and what a model reads of them."""

from dataclasses import dataclass
from typing import cast

from agenttool.codec import parse_value
from agenttool.errors import RecordError
from agenttool.ports.output import Media, NativeOutput
from agenttool.records import UNSET, ContentClass, ContentItem, Json, replace, text_item
from agenttool.results.lift import Lifter, describe, find_media, is_all_media, media_in
from agenttool.results.plain import NO_MEDIA, encode, to_plain, unicode_text
from agenttool.results.redaction import Redactor

_MEDIA = frozenset({ContentClass.IMAGE, ContentClass.AUDIO, ContentClass.VIDEO, ContentClass.FILE})
_HOLDS_MEDIA = _MEDIA | {ContentClass.EMBEDDED_RESOURCE}


@dataclass(slots=True, kw_only=True)
class Reader:
    """Reads one output: what is sensitive is taken out, what is media is put aside."""

    lifter: Lifter
    redactor: Redactor | None
    has_redacted: bool = False

    def structured(self, value: object) -> Json:
        """Give a value as plain JSON, exactly as the tool meant it; nothing is taken out yet."""
        return to_plain(value, self.lifter)

    def cleaned(self, value: Json) -> Json:
        """Take out of a plain value what must not be seen, and put its media aside."""
        if self.redactor is not None:
            self.lifter.forget(self.redactor.find(value))
            redacted = self.redactor.redact(value)
            self.has_redacted = self.has_redacted or redacted is not value
            value = redacted
        return self.lifter.value(value)

    def text(self, text: str) -> str:
        """Do the same for a text; one that spells a JSON value is treated as that value."""
        if self.redactor is not None:
            text = self._redacted_text(text, self.redactor)
        return self.lifter.text(unicode_text(text))

    def _redacted_text(self, text: str, redactor: Redactor) -> str:
        value = spelled_json(text)
        redacted = redactor.redact(value)
        if redacted is value:
            return text
        self.has_redacted = True
        return encode(redacted).decode()

    def item(self, item: object) -> tuple[ContentItem, ...]:
        """Give one thing that a tool put into its content as items; text that was nothing but media gives none."""
        if isinstance(item, Media):
            return (self.lifter.media(item),)
        if isinstance(item, bytes | bytearray | memoryview):
            return (self.lifter.media(Media(bytes(cast("bytes", item)))),)
        if isinstance(item, ContentItem):
            return self._explicit(item)
        if isinstance(item, str):
            return self._text_items(item)
        return (text_item(encode(self.cleaned(self.structured(item))).decode()),)

    def _text_items(self, text: str) -> tuple[ContentItem, ...]:
        cleaned = self.text(text)
        return () if not cleaned or is_all_media(text, find_media(text)) else (text_item(cleaned),)

    def _explicit(self, item: ContentItem) -> tuple[ContentItem, ...]:
        if item.type in _HOLDS_MEDIA and item.data is not UNSET:
            return (self._labelled(self._inline_media(item)),)
        if item.type is ContentClass.TEXT and item.text is not None and item.ref is None:
            return tuple(self._labelled(replace(item, text=each.text)) for each in self._text_items(item.text))
        text = item.text if item.text is None else self.text(item.text)
        data = item.data if item.data is UNSET else self.cleaned(self.structured(item.data))
        return (self._labelled(replace(item, text=text, data=data)),)

    def _labelled(self, item: ContentItem) -> ContentItem:
        """Hold the labels of an item to being text, and mask secrets in them and in its ref."""
        labels = {
            label: self.lifter.text(unicode_text(said))
            for label in ("name", "uri", "media_type")
            if (said := getattr(item, label)) is not None
        }
        notes = item.annotations if item.annotations is UNSET else to_plain(item.annotations, NO_MEDIA)
        ref = None if item.ref is None else self.lifter.part(item.ref)
        return replace(item, annotations=notes if notes is UNSET else self.lifter.value(notes), ref=ref, **labels)

    def _inline_media(self, item: ContentItem) -> ContentItem:
        """Turn media that came inside of its item, as bytes or as base64, into a ref; anything else stays a value."""
        carried: object = item.data
        if isinstance(carried, str):
            media = media_in(carried, item.media_type, item.name)
        elif isinstance(carried, bytes | bytearray | memoryview):
            media = Media(bytes(cast("bytes", carried)), item.media_type, item.name)
        else:
            media = None
        if media is None:
            return replace(item, data=self.cleaned(self.structured(carried)))
        lifted = self.lifter.media(media)
        return replace(item, data=UNSET, ref=lifted.ref, media_type=lifted.media_type)

    def for_model(self, item: ContentItem) -> ContentItem:
        """Give what a model reads of an item: data as text, a file that is text as its text, media with a caption."""
        if item.data is not UNSET and item.text is None:
            return text_item(encode(item.data).decode())
        if item.type not in _HOLDS_MEDIA or item.text is not None or item.ref is None:
            return item
        readable = self.lifter.readable(item)
        if readable:
            return text_item(f"{describe(item)}\n{self.lifter.text(readable)}")
        return replace(item, text=describe(item))


def spelled_json(text: str) -> Json:
    """Give the object or array that a text spells, or nothing."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return parse_value(text)
    except RecordError:
        return None


def is_content(value: object) -> bool:
    """Tell whether a tool returned content rather than a value: media, bytes, an item, or a list with one of them."""
    kinds = (Media, ContentItem, bytes, bytearray, memoryview)
    if isinstance(value, list | tuple):
        return any(isinstance(item, Media | ContentItem) for item in cast("list[object]", value))
    return isinstance(value, kinds)


def is_listed(value: object) -> bool:
    """Tell whether a tool returned a list with content among its items."""
    return isinstance(value, list | tuple) and is_content(cast("object", value))


def given_items(native: NativeOutput) -> list[object] | None:
    """List what an output itself states as content, in order; none if it has only a value to tell."""
    value = native.value
    if isinstance(value, str) or is_content(value):
        is_list = isinstance(value, list | tuple)
        given = list(cast("list[object]", value)) if is_list else [value] if value not in ("", b"") else []
    elif native.content is None:
        return None
    else:
        given = []
    return [*given, *(native.content or ())]
