"""Content of one output: its items, and what a model reads of each."""

from math import inf
from typing import cast

from agenttool.codec import parse_value
from agenttool.codec.visible_text import visible_text
from agenttool.errors import RecordError
from agenttool.ports.output import Media, NativeOutput
from agenttool.records import UNSET, ContentClass, ContentItem, Json, replace, text_item
from agenttool.results.jsonable import encode, reject_bytes, to_jsonable, unicode_text
from agenttool.results.media import MediaExtractor, decode_media, describe
from agenttool.results.preview import PREVIEW_CHARS, ReadHint, preview
from agenttool.results.redaction import Redactor, Scrubber

_MEDIA = frozenset({ContentClass.IMAGE, ContentClass.AUDIO, ContentClass.VIDEO, ContentClass.FILE})
_HOLDS_MEDIA = _MEDIA | {ContentClass.EMBEDDED_RESOURCE}


Content = tuple[ContentItem, ...]


class ContentReader(MediaExtractor):
    """Reads one output: redacts sensitive fields, masks secrets and extracts media."""

    def __init__(
        self, scrubber: Scrubber | None = None, redactor: Redactor | None = None, inline_chars: float = inf
    ) -> None:
        """Take the scrubber of the call, and how many characters of a text file a model reads without a preview."""
        super().__init__(scrubber)
        self._redactor, self._inline_chars = redactor, inline_chars

    def structured(self, value: object) -> Json:
        """Return a value as plain JSON, before anything is removed from it."""
        return to_jsonable(value, self.add_bytes)

    def cleaned(self, value: Json) -> Json:
        """Return a JSON value without sensitive fields, secrets and media."""
        if self._redactor is not None:
            self.discard(self._redactor.find(value))
            value = self.note(value, self._redactor.redact(value))
        return self.value(value)

    def cleaned_text(self, text: str) -> str:
        """Return a text without sensitive fields, secrets and media; text that is JSON is redacted as a value."""
        if self._redactor is not None:
            value = json_in(text)
            redacted = self.note(value, self._redactor.redact(value))
            text = text if redacted is value else encode(redacted).decode()
        return self.text(unicode_text(text))

    def item(self, item: object) -> Content:
        """Return one entry of a tool's content as items; a text that is only media has none."""
        if isinstance(item, Media):
            return (self.add_media(item),)
        if isinstance(item, bytes | bytearray | memoryview):
            return (self.add_media(Media(bytes(cast("bytes", item)))),)
        if isinstance(item, ContentItem):
            return self._explicit(item)
        if isinstance(item, str):
            return self._text_items(item)
        return (text_item(encode(self.cleaned(self.structured(item))).decode()),)

    def _text_items(self, text: str) -> Content:
        cleaned = self.cleaned_text(text)
        return () if not cleaned or self.has(cleaned) else (text_item(cleaned),)

    def _explicit(self, item: ContentItem) -> Content:
        if item.type is ContentClass.TEXT and item.text and item.ref is None:
            return tuple(self._labelled(replace(item, text=each.text)) for each in self._text_items(item.text))
        item = replace(item, text=item.text if item.text is None else self.cleaned_text(item.text))
        if item.data is not UNSET:
            item = self._with_data(item)
        return (self._labelled(item),)

    def _labelled(self, item: ContentItem) -> ContentItem:
        """Check that the labels of an item are text, and mask secrets in them and in its ref."""
        labels = {
            label: self.text(unicode_text(given))
            for label in ("name", "uri", "media_type")
            if (given := getattr(item, label)) is not None
        }
        notes = item.annotations if item.annotations is UNSET else to_jsonable(item.annotations, reject_bytes)
        ref = None if item.ref is None else self.part(item.ref)
        return replace(item, annotations=notes if notes is UNSET else self.value(notes), ref=ref, **labels)

    def _with_data(self, item: ContentItem) -> ContentItem:
        """Replace media inside an item, as bytes or base64, by a ref; any other data stays a value."""
        carried: object = item.data
        media = None
        if item.type in _HOLDS_MEDIA and isinstance(carried, str):
            media = decode_media(carried, item.media_type, item.name)
        elif item.type in _HOLDS_MEDIA and isinstance(carried, bytes | bytearray | memoryview):
            media = Media(bytes(cast("bytes", carried)), item.media_type, item.name)
        if media is None:
            return replace(item, data=self.cleaned(self.structured(carried)))
        stored = self.add_media(media)
        return replace(item, data=UNSET, ref=stored.ref)

    def for_model(self, item: ContentItem) -> ContentItem:
        """Return what a model reads: data as text, a text file as text or a preview, media as a caption."""
        shown = self._for_model(item)
        text = shown.text and visible_text(shown.text)
        return shown if text is shown.text else replace(shown, text=text)

    def _for_model(self, item: ContentItem) -> ContentItem:
        if item.data is not UNSET and item.text is None:
            return text_item(encode(item.data).decode())
        if item.type not in _HOLDS_MEDIA or item.text is not None or item.ref is None:
            return item
        readable = self.readable(item)
        if not readable:
            return replace(item, text=describe(item))
        if len(readable) > self._inline_chars:
            shown = preview(readable, budget=PREVIEW_CHARS, hint=ReadHint(payload_id=item.ref.id or ""))
        else:
            shown = self.text(readable)
        return text_item(f"{describe(item)}\n{shown}")


def is_empty_text(item: ContentItem) -> bool:
    """Return whether an item is a text without characters, which a model is not shown."""
    return item.type is ContentClass.TEXT and item.text == "" and item.ref is None and item.data is UNSET


def json_in(text: str) -> Json:
    """Return the object or array that a text spells, else none."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return parse_value(text)
    except RecordError:
        return None


def is_content(value: object) -> bool:
    """Return whether an output is content and not a value: media, bytes, an item, or a list with media or items."""
    if isinstance(value, list | tuple):
        # A list can be long, and few types occur in it.
        return any(issubclass(kind, Media | ContentItem) for kind in set(map(type, cast("list[object]", value))))
    return isinstance(value, Media | ContentItem | bytes | bytearray | memoryview)


def content_entries(native: NativeOutput) -> list[object] | None:
    """Return the entries that an output states as content, in order; none if it has only a value."""
    value = native.value
    if isinstance(value, str) or is_content(value):
        is_list = isinstance(value, list | tuple)
        entries = list(cast("list[object]", value)) if is_list else [value] if value not in ("", b"") else []
    elif native.content is None:
        return None
    else:
        entries = []
    return [*entries, *(native.content or ())]
