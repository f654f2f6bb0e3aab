"""What bytes are: their media type by their first bytes, and the content class of a media type."""

from agenttool.records import ContentClass

OCTETS = "application/octet-stream"
PLAIN_TEXT = "text/plain; charset=utf-8"

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
_AMBIGUOUS = (b"BM", b"\xff\xfb", b"\xff\xf3")
_BY_FAMILY = {"image": ContentClass.IMAGE, "audio": ContentClass.AUDIO, "video": ContentClass.VIDEO}


def sniff(data: bytes) -> str | None:
    """Name the media type that the first bytes give away; none if they say nothing."""
    if data[:4] == b"RIFF":
        return _RIFF.get(data[8:12])
    if data[4:8] == b"ftyp":
        return _BOXES.get(data[8:12], "video/mp4")
    found = next((entry for entry in _FIRST_BYTES if data.startswith(entry[0])), None)
    if found is None or (found[0] in _AMBIGUOUS and readable_text(data[:64]) is not None):
        return None
    return found[1]


def media_type_of(data: bytes, declared: str | None = None) -> str:
    """Settle on a media type: the declared one, what the bytes give away, text, or just bytes."""
    return declared or sniff(data) or (OCTETS if readable_text(data) is None else PLAIN_TEXT)


def class_of(media_type: str) -> ContentClass:
    """Give the content class of a media type; whatever is no image, sound or film is a file."""
    return _BY_FAMILY.get(media_type.partition("/")[0].strip().lower(), ContentClass.FILE)


def readable_text(data: bytes) -> str | None:
    """Give bytes as text if they are text that people could read."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() or not any(_is_control(each) for each in text) else None


def _is_control(character: str) -> bool:
    return (character < " " and character not in "\t\n\r\f\x1b") or character == "\x7f"
