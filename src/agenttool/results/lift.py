"""Media out of text: data URLs and long base64 become stored bytes, so that nobody counts or sends them as words."""

import base64
import binascii
import re
from typing import TypeVar

from agenttool.ports.output import Media
from agenttool.records import ContentClass, ContentItem, Json, Part, RedactionState
from agenttool.results.media import OCTETS, class_of, media_type_of, readable_text, sniff
from agenttool.results.refs import Payload, payload_of
from agenttool.results.scrub import Scrubber

MEDIA_RELATION = "media_of_result"

LIFT_FROM = 64
"""Text shorter than this is never looked through: no media worth the name fits in it."""

_RUN = 512
_WINDOW = _RUN // 2
_WINDOW_OF_BASE64 = re.compile(rf"[A-Za-z0-9+/_\-\r\n=]{{{_WINDOW}}}")
# It must begin where a run begins, or a text full of runs that are a little too short would be read again and again.
_LONG_BASE64 = re.compile(
    r"(?<![A-Za-z0-9+/_\-])(?:"
    rf"[A-Za-z0-9+/]{{{_RUN},}}={{0,2}}"
    rf"|[A-Za-z0-9_\-]{{{_RUN},}}={{0,2}}"
    r"|(?:[A-Za-z0-9+/]{60,128}\r?\n){7,}[A-Za-z0-9+/]+={0,2})"
)
_LONG_STRING = re.compile(rb'"[^"]{%d}' % _RUN)
_DATA_URL = re.compile(
    r"data:(?P<type>[A-Za-z0-9.+\-]+/[A-Za-z0-9.+\-]+)?(?:;[A-Za-z0-9.+\-]+=[^;,\s]*)*;base64,(?P<data>[A-Za-z0-9+/_\-=%]{32,})"
)
# Random bytes use nearly all of the 64 letters; a sequence of bases, a hexadecimal dump or one long word does not.
_MIN_DISTINCT = 40
_ARMOR = "-----"
_T = TypeVar("_T")
_P = TypeVar("_P", bound=Part)
_TYPE_NAMES = ("mimeType", "mime_type", "media_type", "mediaType", "content_type", "contentType")


class Placed(Part, frozen=True, kw_only=True):
    """One run of media that was found in a text: where, and its bytes."""

    start: int
    end: int
    data: bytes
    media_type: str | None


class Lifter:
    """Collects the media of one output. What it gives back is text without them, and without the call's secrets."""

    def __init__(self, scrubber: Scrubber | None = None) -> None:
        """Take what masks the secrets of the call, if it has any."""
        self._scrubber = scrubber
        self._payloads: dict[str, Payload] = {}
        self._items: dict[str, ContentItem] = {}
        self.has_scrubbed = False

    @property
    def payloads(self) -> tuple[Payload, ...]:
        """What must be stored, each once, in the order it was found."""
        return tuple(self._payloads.values())

    @property
    def items(self) -> tuple[ContentItem, ...]:
        """One item for each payload that was found inside text or a value."""
        return tuple(self._items.values())

    def media(self, media: Media) -> ContentItem:
        """Make the item of explicit media; its bytes become a payload."""
        payload = self._keep(media.data, media.media_type, media.name)
        return _item_of(payload, media.name)

    def binary(self, data: bytes, media_type: str | None = None, name: str | None = None) -> str:
        """Put bytes aside and give the id that stands for them."""
        payload = self._keep(data, media_type, name)
        found = payload.ref.id or ""
        self._items.setdefault(found, _item_of(payload, name))
        return found

    def forget(self, value: Json) -> None:
        """Take back the media that a sensitive value refers to: it must not be stored either."""
        if isinstance(value, str):
            self._payloads.pop(value, None)
            self._items.pop(value, None)
        elif isinstance(value, dict | list):
            for inner in value.values() if isinstance(value, dict) else value:
                self.forget(inner)

    def text(self, text: str, media_type: str | None = None) -> str:
        """Give a text with its media put aside and its secrets masked."""
        found = find_media(text, media_type)
        if not found:
            return self._scrubbed(text)
        if is_all_media(text, found):
            return self.binary(found[0].data, found[0].media_type)
        pieces: list[str] = []
        at = 0
        for each in found:
            stored = self.binary(each.data, each.media_type)
            kind = media_type_of(each.data, each.media_type)
            pieces += [self._scrubbed(text[at : each.start]), f"[{kind}, {len(each.data)} bytes, {stored}]"]
            at = each.end
        return "".join([*pieces, self._scrubbed(text[at:])])

    def value(self, value: Json, media_type: str | None = None) -> Json:
        """Do the same for every text in a plain JSON value; what has neither media nor secrets is shared."""
        if isinstance(value, str):
            return self.text(value, media_type)
        if isinstance(value, list):
            items = [self.value(item, media_type) for item in value]
            return items if any(new is not item for new, item in zip(items, value, strict=True)) else value
        if isinstance(value, dict):
            hint = next((each for name in _TYPE_NAMES if isinstance(each := value.get(name), str)), None)
            members = [(self._scrubbed(key), self.value(item, hint)) for key, item in value.items()]
            pairs = zip(members, value.items(), strict=True)
            is_clean = all(new[0] is old[0] and new[1] is old[1] for new, old in pairs)
            return value if is_clean else dict(members)
        return value if self._scrubber is None else self._note(value, self._scrubber.value(value))

    def part(self, part: _P) -> _P:
        """Mask the secrets of the call in a part that a tool filled in."""
        return part if self._scrubber is None else self._note(part, self._scrubber.part(part))

    def readable(self, item: ContentItem) -> str | None:
        """Give the text of a file that is text, so that a model need not fetch it."""
        payload = self._payloads.get(item.ref.id or "") if item.ref is not None else None
        if payload is None or class_of(item.media_type or "") is not ContentClass.FILE:
            return None
        return None if sniff(payload.data) is not None else readable_text(payload.data)  # a PDF may be all letters

    def _scrubbed(self, text: str) -> str:
        return text if self._scrubber is None else self._note(text, self._scrubber.text(text))

    def _note(self, before: _T, after: _T) -> _T:
        self.has_scrubbed = self.has_scrubbed or after is not before
        return after

    def _keep(self, data: bytes, media_type: str | None, name: str | None) -> Payload:
        masked = data if self._scrubber is None else self._scrubber.data(data)
        title = name if name is None else self._scrubbed(name)
        state = RedactionState.NONE if self._note(data, masked) is data else RedactionState.PARTIAL
        payload = payload_of(
            masked,
            media_type=media_type_of(masked, media_type),
            relation=MEDIA_RELATION,
            title=title,
            redaction_state=state,
        )
        return self._payloads.setdefault(payload.ref.id or "", payload)


def describe(item: ContentItem) -> str:
    """Say what an item of media is, for a reader who cannot see it."""
    ref = item.ref
    if ref is None:
        return item.uri or item.name or str(item.type)
    name = f"{item.name!r}, " if item.name else ""
    return f"[{item.type}: {name}{ref.media_type}, {ref.size_bytes} bytes, {ref.id}]"


def find_media(text: str, media_type: str | None = None) -> list[Placed]:
    """Find data URLs and long base64 in a text, in order and without overlaps."""
    if len(text) < LIFT_FROM:
        return []
    found = _data_urls(text) if "base64," in text else []
    if len(text) >= _RUN and _may_hold_base64(text):
        found += _bare_base64(text, media_type, found)
    return sorted(found, key=lambda each: each.start)


def is_all_media(text: str, found: list[Placed]) -> bool:
    """Tell whether a text is one run of media and nothing else."""
    return len(found) == 1 and not (text[: found[0].start] + text[found[0].end :]).strip()


def media_in(coded: str, media_type: str | None, name: str | None) -> Media | None:
    """Read what a protocol says is media: base64, or a data URL with it; none if it is neither."""
    head, is_url, rest = coded.partition(";base64,")
    data = _decoded(rest if is_url else coded)
    named = head.removeprefix("data:").partition(";")[0] if is_url else None
    return None if data is None else Media(data, media_type or named or None, name)


def may_hold_media(written: bytes) -> bool:
    """Tell whether JSON, as written, has a text that should be looked through; it costs next to nothing."""
    return len(written) >= LIFT_FROM and (b"base64," in written or _LONG_STRING.search(written) is not None)


def _may_hold_base64(text: str) -> bool:
    """Tell, by looking at few places only, whether a run long enough can be there: it would fill one window."""
    match = _WINDOW_OF_BASE64.match
    return any(match(text, at) for at in range(0, len(text) - _WINDOW + 1, _WINDOW))


def _data_urls(text: str) -> list[Placed]:
    found: list[Placed] = []
    for match in _DATA_URL.finditer(text):
        data = _decoded(match["data"])
        if data is not None:
            found.append(Placed(start=match.start(), end=match.end(), data=data, media_type=match["type"]))
    return found


def _bare_base64(text: str, media_type: str | None, taken: list[Placed]) -> list[Placed]:
    found: list[Placed] = []
    for match in _LONG_BASE64.finditer(text):
        inside = any(each.start < match.end() and match.start() < each.end for each in taken)
        armored = text[: match.start()].rstrip("\r\n").endswith(_ARMOR)
        data = None if inside or armored else _decoded(match[0])
        if data is None:
            continue
        known = sniff(data)
        if known is not None or len(set(match[0])) >= _MIN_DISTINCT:
            kind = known or media_type or media_type_of(data)
            found.append(Placed(start=match.start(), end=match.end(), data=data, media_type=kind))
    return found


def _decoded(coded: str) -> bytes | None:
    plain = re.sub(r"[\r\n]|%0[AaDd]", "", coded).replace("%2B", "+").replace("%2F", "/").replace("%3D", "=")
    plain = plain.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except binascii.Error:
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
