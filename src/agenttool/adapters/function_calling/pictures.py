"""Images under the type that their bytes have: a provider refuses a whole request for one that belies its type."""

from dataclasses import replace

from agenttool.ports.output import Media

PDF = "application/pdf"
_PDF_WITHIN = 1024
"""Where a document may begin: some have a line of something else before it."""

# The four types that providers take; to tell them apart, no library is needed.
_FIRST_BYTES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
_WEBP = "image/webp"
_TAKEN = frozenset({*_FIRST_BYTES.values(), _WEBP})


def as_it_is(media: Media) -> Media | str:
    """Give an image under its true type, and words instead of one, or of a document, that no provider could read.

    Only the first bytes are looked at: an image that is broken further on is found out by the provider.
    """
    declared, data = media.media_type or "", media.data
    if declared == PDF:
        return media if b"%PDF-" in data[:_PDF_WITHIN] else _instead(media)
    if not declared.startswith("image/"):
        return media
    true = _type_of(data)
    if true is None:
        return _instead(media) if declared in _TAKEN else media
    return media if true == declared else replace(media, media_type=true)


def _type_of(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _WEBP
    return next((kind for first, kind in _FIRST_BYTES.items() if data.startswith(first)), None)


def _instead(media: Media) -> str:
    return f"(not shown: it was said to be {media.media_type}, and its bytes are something else)"
