"""Media in outputs: data URLs, long base64 and bytes become stored payloads, so that no model reads them as text."""

import binascii
import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from agenttool.ports.output import Media
from agenttool.records import ContentClass, ContentItem, Json, JsonObject, Part, RedactionState
from agenttool.results.payloads import OCTETS, Payload, class_of, media_type_of, payload_of, readable_text, sniff
from agenttool.results.redaction import Scrubber, map_json, texts_of

_MEDIA_RELATION = "media_of_result"
_MIN_TEXT_CHARS = 64
_MIN_BASE64_CHARS = 512
_WINDOW = _MIN_BASE64_CHARS // 2
_WINDOW_OF_BASE64 = re.compile(rf"[A-Za-z0-9+/_\-\r\n=]{{{_WINDOW}}}")
# The lookbehind lets a match start only where a run starts; without it, many short runs would be read repeatedly.
_LONG_BASE64 = re.compile(
    r"(?<![A-Za-z0-9+/_\-])(?:"
    rf"[A-Za-z0-9+/]{{{_MIN_BASE64_CHARS},}}={{0,2}}"
    rf"|[A-Za-z0-9_\-]{{{_MIN_BASE64_CHARS},}}={{0,2}}"
    r"|(?:[A-Za-z0-9+/]{60,128}\r?\n){7,}[A-Za-z0-9+/]+={0,2})"
)
_SHORTEST_RUN = 1024
"""More characters than the shortest match of `_LONG_BASE64` has: seven lines and the begin of another."""

_PART = 32 * _SHORTEST_RUN
_LONG_STRING = re.compile(rb'"[^"]{%d}' % _MIN_BASE64_CHARS)
# A data URL is found from its middle, and its head is short, so that no text is read twice.
_BASE64 = ";base64,"
_MAX_URL_HEAD = 256
_URL_HEAD = re.compile(r"data:(?P<type>[A-Za-z0-9.+\-]+/[A-Za-z0-9.+\-]+)?(?:;[A-Za-z0-9.+\-]+=[^;,\s]*)*")
_URL_DATA = re.compile(r"[A-Za-z0-9+/_\-=%]{32,}")
# Random bytes use nearly all of the 64 characters; DNA, a hexadecimal dump or one long word does not.
_MIN_DISTINCT = 40
_SAMPLE = 4096
_UNQUOTED = 4
_SPELLINGS = (
    *(("\r", ""), ("\n", ""), ("-", "+"), ("_", "/")),
    *(("%0A", ""), ("%0a", ""), ("%0D", ""), ("%0d", ""), ("%2B", "+"), ("%2F", "/"), ("%3D", "=")),
)
_ARMOR = "-----"
_TYPE_NAMES = ("mimeType", "mime_type", "media_type", "mediaType", "content_type", "contentType")
_T = TypeVar("_T")
_P = TypeVar("_P", bound=Part)


class EmbeddedMedia(NamedTuple):
    """Media found inside a text: its place and its bytes."""

    start: int
    end: int
    data: bytes
    media_type: str | None


class MediaExtractor:
    """Collects the media of one output; the texts that it returns hold neither media nor secrets of the call."""

    def __init__(self, scrubber: Scrubber | None = None) -> None:
        """Use the scrubber of the call, if it has one."""
        self._scrubber = self._text_scrubber = scrubber
        self._payloads: dict[str, Payload] = {}
        self._items: dict[str, ContentItem] = {}
        self.has_masked = False

    @property
    def payloads(self) -> tuple[Payload, ...]:
        """The payloads to store, each once, in the order in which they were found."""
        return tuple(self._payloads.values())

    @property
    def items(self) -> tuple[ContentItem, ...]:
        """One item for each payload that was found inside a text or a value."""
        return tuple(self._items.values())

    def add_media(self, media: Media) -> ContentItem:
        """Add explicit media and return its item."""
        payload = self._add(media.data, media.media_type, media.name)
        return _item_of(payload, media.name)

    def add_bytes(self, data: bytes, media_type: str | None = None, name: str | None = None) -> str:
        """Add bytes and return the payload id that replaces them."""
        payload = self._add(data, media_type, name)
        payload_id = payload.ref.id or ""
        self._items.setdefault(payload_id, _item_of(payload, name))
        return payload_id

    def has(self, text: str) -> bool:
        """Return whether a text is the id of a payload: what `text` returns if there is nothing beside the media."""
        return text in self._payloads

    def discard(self, value: Json) -> None:
        """Remove the payloads that a sensitive value refers to; they must not be stored."""
        for text in texts_of(value):
            self._payloads.pop(text, None)
            self._items.pop(text, None)

    def text(self, text: str, media_type: str | None = None) -> str:
        """Return a text with its media replaced by payload ids and its secrets masked."""
        found = find_media(text, media_type)
        if not found:
            return self._scrubbed(text)
        if len(found) == 1 and not (text[: found[0].start] + text[found[0].end :]).strip():
            return self.add_bytes(found[0].data, found[0].media_type)
        pieces: list[str] = []
        at = 0
        for each in found:
            payload_id = self.add_bytes(each.data, each.media_type)
            kind = media_type_of(each.data, each.media_type)
            pieces += [self._scrubbed(text[at : each.start]), f"[{kind}, {len(each.data)} bytes, {payload_id}]"]
            at = each.end
        return "".join([*pieces, self._scrubbed(text[at:])])

    def value(self, value: Json) -> Json:
        """Apply `text` to every text in a JSON value; return the same object if nothing changes."""
        # The bytes of media are searched for every secret, also for one that does not occur in the texts.
        self._text_scrubber = None if self._scrubber is None else self._scrubber.within(value)
        try:
            return map_json(value, self._leaf, self._scrubbed)
        finally:
            self._text_scrubber = self._scrubber

    def _leaf(self, leaf: Json, inside: JsonObject | None) -> Json:
        if isinstance(leaf, str):
            hints = (inside.get(name) for name in _TYPE_NAMES) if inside else ()
            return self.text(leaf, next((each for each in hints if isinstance(each, str)), None))
        return leaf if self._text_scrubber is None else self.note(leaf, self._text_scrubber.leaf(leaf))

    def part(self, part: _P) -> _P:
        """Mask the secrets of the call in a record that a tool filled in."""
        return part if self._scrubber is None else self.note(part, self._scrubber.part(part))

    def readable(self, item: ContentItem) -> str | None:
        """Return the text of a file that is text, so that a model need not fetch it."""
        payload = self._payloads.get(item.ref.id or "") if item.ref is not None else None
        if payload is None or class_of(item.media_type or "") is not ContentClass.FILE:
            return None
        return None if sniff(payload.data) is not None else readable_text(payload.data)  # a PDF may be all letters

    def _scrubbed(self, text: str) -> str:
        return text if self._text_scrubber is None else self.note(text, self._text_scrubber.text(text))

    def note(self, before: _T, after: _T) -> _T:
        """Return the second value; record whether it is another than the first, because something was masked."""
        self.has_masked = self.has_masked or after is not before
        return after

    def _add(self, data: bytes, media_type: str | None, name: str | None) -> Payload:
        masked = data if self._scrubber is None else self._scrubber.data(data)
        title = name if name is None else self._scrubbed(name)
        state = RedactionState.NONE if self.note(data, masked) is data else RedactionState.PARTIAL
        payload = payload_of(
            masked,
            media_type=media_type_of(masked, media_type),
            relation=_MEDIA_RELATION,
            title=title,
            redaction_state=state,
        )
        self._payloads.setdefault(payload.ref.id or "", payload)
        return payload  # equal bytes are stored once, and each item has its own media type and title


def describe(item: ContentItem) -> str:
    """Return a caption of media for a reader who cannot see it."""
    ref = item.ref
    if ref is None:
        return item.uri or item.name or str(item.type)
    name = f"{item.name!r}, " if item.name else ""
    return f"[{item.type}: {name}{ref.media_type}, {ref.size_bytes} bytes, {ref.id}]"


def find_media(text: str, media_type: str | None = None) -> list[EmbeddedMedia]:
    """Find data URLs and long base64 in a text, in order and without overlaps."""
    if len(text) < _MIN_TEXT_CHARS:
        return []
    found = _data_urls(text) if "base64," in text else []
    if len(text) >= _MIN_BASE64_CHARS:
        found += _bare_base64(text, media_type, found)
    return sorted(found, key=lambda each: each.start)


def decode_media(coded: str, media_type: str | None, name: str | None) -> Media | None:
    """Decode base64 or a data URL that a protocol declares as media; none if it is neither."""
    head, is_url, rest = coded.partition(";base64,")
    data = _decoded(rest if is_url else coded)
    named = head.removeprefix("data:").partition(";")[0] if is_url else None
    return None if data is None else Media(data, media_type or named or None, name)


def may_hold_media(written: bytes) -> bool:
    """Return whether encoded JSON has a text that `find_media` must search; cheap enough for every call."""
    return len(written) >= _MIN_TEXT_CHARS and (b"base64," in written or _LONG_STRING.search(written) is not None)


def _long_runs(text: str) -> Iterator[re.Match[str]]:
    """Yield long runs of base64; each search reads a part of the text, so that other threads run in between."""
    for start, end in _regions_of_base64(text):
        at = start
        while at < end:
            stop = min(at + _PART, end)
            begun = _LONG_BASE64.search(text, at, stop)
            found = None if begun is None else _LONG_BASE64.match(text, begun.start(), end)
            if found is not None:
                yield found
                at = found.end()
            else:
                at = end if stop == end else stop - _SHORTEST_RUN


def _regions_of_base64(text: str) -> Iterator[tuple[int, int]]:
    """Yield where long runs are possible: such a run fills at least one window, and reaches into those beside it."""
    match = _WINDOW_OF_BASE64.match
    start = None
    for at in range(0, len(text) + 1, _WINDOW):
        if match(text, at):
            start = at if start is None else start
        elif start is not None:
            yield max(start - _WINDOW, 0), at + _WINDOW
            start = None


def _data_urls(text: str) -> list[EmbeddedMedia]:
    found: list[EmbeddedMedia] = []
    at = text.find(_BASE64)
    while at >= 0:
        start = text.rfind("data:", max(at - _MAX_URL_HEAD, 0), at)
        head = _URL_HEAD.fullmatch(text, start, at) if start >= 0 else None
        coded = _URL_DATA.match(text, at + len(_BASE64)) if head is not None else None
        data = None if coded is None else _decoded(coded[0])
        if head is not None and coded is not None and data is not None:
            found.append(EmbeddedMedia(start=start, end=coded.end(), data=data, media_type=head["type"]))
        at = text.find(_BASE64, at + 1 if coded is None else coded.end())
    return found


def _bare_base64(text: str, media_type: str | None, data_urls: list[EmbeddedMedia]) -> list[EmbeddedMedia]:
    found: list[EmbeddedMedia] = []
    starts = [each.start for each in data_urls]
    for match in _long_runs(text):
        before = bisect_left(starts, match.end())
        inside = before > 0 and match.start() < data_urls[before - 1].end
        armored = text[max(match.start() - 2 * len(_ARMOR), 0) : match.start()].rstrip("\r\n").endswith(_ARMOR)
        data = None if inside or armored else _decoded(match[0])
        if data is None:
            continue
        known, sample = sniff(data), match[0][:: len(match[0]) // _SAMPLE + 1]
        if known is not None or len(set(sample)) >= _MIN_DISTINCT:
            kind = known or media_type or media_type_of(data)
            found.append(EmbeddedMedia(start=match.start(), end=match.end(), data=data, media_type=kind))
    return found


def _decoded(coded: str) -> bytes | None:
    for written, meant in _SPELLINGS if "%" in coded else _SPELLINGS[:_UNQUOTED]:
        coded = coded.replace(written, meant)
    plain = coded.rstrip("=")
    try:
        return binascii.a2b_base64(plain + "=" * (-len(plain) % 4), strict_mode=True)
    except ValueError:
        return None


def _item_of(payload: Payload, name: str | None) -> ContentItem:
    media_type = payload.ref.media_type or OCTETS
    return ContentItem(
        type=class_of(media_type),
        ref=payload.ref,
        name=payload.ref.title if name else None,
        media_type=media_type,
        redaction_state=payload.ref.redaction_state,
    )
