"""Payloads: bytes that are stored beside a result, their media types, and the refs that name them by digest."""

import re

from agenttool.codec import digest_of_bytes
from agenttool.records import (
    PAYLOAD_SCHEME,
    ContentClass,
    ContentItem,
    Json,
    Part,
    RedactionState,
    Ref,
    Timestamp,
    ToolResult,
    replace,
)

JSON = "application/json"
OCTETS = "application/octet-stream"
PLAIN_TEXT = "text/plain; charset=utf-8"

_RUNTIME_ACCESS: Json = {"scope": "runtime"}
_FIRST_BYTES: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"\x00\x00\x01\x00", "image/x-icon"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
    (b"\x1aE\xdf\xa3", "video/webm"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
_BOXES = {b"avif": "image/avif", b"heic": "image/heic", b"M4A ": "audio/mp4", b"qt  ": "video/quicktime"}
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
_AMBIGUOUS = (b"BM", b"\xff\xfb", b"\xff\xf3")
_BY_FAMILY = {"image": ContentClass.IMAGE, "audio": ContentClass.AUDIO, "video": ContentClass.VIDEO}

_MEDIA_TYPE = re.compile(r"[!#$&^.+*\w-]{1,127}/[!#$&^.+*\w-]{1,127}(?:[ \t]*;[ -~]{0,500})?", re.ASCII)


class Payload(Part, frozen=True, kw_only=True):
    """Bytes to store, and the ref under which the result names them."""

    data: bytes
    ref: Ref


def payload_of(
    data: bytes,
    *,
    media_type: str,
    relation: str,
    title: str | None = None,
    redaction_state: RedactionState = RedactionState.NONE,
) -> Payload:
    """Return the bytes with a ref that holds all facts a reader needs before fetching them (AT-REF-03)."""
    digest = digest_of_bytes(data)
    ref = Ref(
        id=PAYLOAD_SCHEME + digest,
        uri=PAYLOAD_SCHEME + digest,
        media_type=valid_media_type(media_type) or OCTETS,
        digest=digest,
        size_bytes=len(data),
        access=_RUNTIME_ACCESS,
        relation=relation,
        redaction_state=redaction_state,
        title=title,
    )
    return Payload(data=data, ref=ref)


def expire_payload(result: ToolResult, payload: str, *, expires_at: Timestamp) -> ToolResult:
    """Set the expiry of every ref to one payload id; no ref is removed from its list (AT-REF-07)."""

    def marked(ref: Ref) -> Ref:
        return replace(ref, expires_at=expires_at) if ref.id == payload else ref

    def items(content: tuple[ContentItem, ...] | None) -> tuple[ContentItem, ...] | None:
        return content and tuple(replace(item, ref=marked(item.ref)) if item.ref else item for item in content)

    return replace(
        result,
        content=items(result.content),
        model_facing_content=items(result.model_facing_content),
        resource_refs=result.resource_refs and tuple(map(marked, result.resource_refs)),
        artifact_refs=result.artifact_refs and tuple(map(marked, result.artifact_refs)),
    )


def sniff(data: bytes) -> str | None:
    """Return the media type that the first bytes identify, or none."""
    if data[:4] == b"RIFF":
        return _RIFF.get(data[8:12])
    if data[4:8] == b"ftyp":
        return _BOXES.get(data[8:12], "video/mp4")
    found = next((entry for entry in _FIRST_BYTES if data.startswith(entry[0])), None)
    if found is None or (found[0] in _AMBIGUOUS and readable_text(data[:64]) is not None):
        return None
    return found[1]


def valid_media_type(declared: str | None) -> str | None:
    """Return a media type that can be sent in a header; none for any other text, such as one with a newline."""
    return declared if declared and _MEDIA_TYPE.fullmatch(declared) else None


def media_type_of(data: bytes, declared: str | None = None) -> str:
    """Return the declared media type if it is valid, else the sniffed one, else plain text or octets."""
    return valid_media_type(declared) or sniff(data) or (OCTETS if readable_text(data) is None else PLAIN_TEXT)


def class_of(media_type: str) -> ContentClass:
    """Return the content class of a media type: image, audio, video, or file for any other."""
    return _BY_FAMILY.get(media_type.partition("/")[0].strip().lower(), ContentClass.FILE)


def readable_text(data: bytes) -> str | None:
    """Return bytes as text if they are UTF-8 without control characters, else none."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if _CONTROL.search(text) else text
