"""The text and media of a result as a model reads them; each provider format decides which media it takes."""

import base64
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from agenttool.adapters.function_calling.model_reply import RequestedCall
from agenttool.ports.output import Media
from agenttool.records import ContentClass, ContentItem, Digest, Json, JsonObject, Ref, ToolResult

INTERRUPTED = (
    "canceled: the turn was interrupted before this call had a result\n"
    "Whether it took effect is not known: check before you repeat it."
)
NO_OUTPUT = "(no output)"
BINARY = "application/octet-stream"
PDF = "application/pdf"
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The image types that providers take; their first bytes distinguish them."""

_MEDIA = frozenset({ContentClass.IMAGE, ContentClass.AUDIO, ContentClass.VIDEO, ContentClass.FILE})
_PDF_WITHIN = 1024
"""How far from the start the header of a PDF document may be."""

_FIRST_BYTES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutput:
    """What goes back for one call: at least one piece, in order, without empty texts."""

    requested: RequestedCall
    pieces: tuple[str | Media, ...]
    is_error: bool = False

    @property
    def text(self) -> str:
        """All texts, joined by line breaks."""
        return "\n".join(piece for piece in self.pieces if isinstance(piece, str)) or NO_OUTPUT

    @property
    def media(self) -> tuple[Media, ...]:
        """All pieces that are no text."""
        return tuple(piece for piece in self.pieces if isinstance(piece, Media))


def media_refs(results: Iterable[ToolResult], accepted: Collection[object] | None = None) -> Iterator[Ref]:
    """Yield the refs of media that a model could be shown once their bytes are fetched.

    Args:
        results: the results to show.
        accepted: the kinds of media that the model takes; None if that is unknown, for all kinds.
    """
    for result in results:
        for item in _model_content(result):
            is_shown = item.type in _MEDIA and (accepted is None or item.type.value in accepted)
            if is_shown and item.ref is not None and item.ref.digest is not None:
                yield item.ref


def outputs_of(
    calls: Sequence[RequestedCall], results: Sequence[ToolResult], payloads: Mapping[Digest, bytes]
) -> list[CallOutput]:
    """Pair every call with its result; a call without one gets the text that it was interrupted."""
    return [
        CallOutput(requested=requested, pieces=(INTERRUPTED,), is_error=True)
        if result is None
        else CallOutput(requested=requested, pieces=tuple(_pieces(result, payloads)), is_error=bool(result.is_error))
        for requested, result in zip_longest(calls, results[: len(calls)])
        if requested is not None
    ]


def model_text(result: ToolResult) -> str:
    """Return what a model reads of a result if it is shown no media."""
    return "\n".join(piece for piece in _pieces(result, {}) if isinstance(piece, str))


def labelled_media(outputs: Iterable[CallOutput], part_of: Callable[[Media], JsonObject | None]) -> list[Json]:
    """Return the media that a provider takes as parts of one message, after a text that names their call."""
    parts: list[Json] = []
    for output in outputs:
        taken = [part for media in output.media if (part := part_of(media)) is not None]
        if taken:
            parts.append({"type": "text", "text": f"Output of call {output.requested.call_id}:"})
            parts += taken
    return parts


def base64_of(media: Media) -> str:
    """Encode the bytes of media for a message."""
    return base64.b64encode(media.data).decode()


def data_url(media: Media) -> str:
    """Encode media as a data URL."""
    return f"data:{media.media_type or BINARY};base64,{base64_of(media)}"


def _model_content(result: ToolResult) -> tuple[ContentItem, ...]:
    return (result.content if result.model_facing_content is None else result.model_facing_content) or ()


def _pieces(result: ToolResult, payloads: Mapping[Digest, bytes]) -> Iterator[str | Media]:
    is_empty = True
    for item in _model_content(result):
        media = _media(item, payloads)
        text = _caption(item) if item.text is None and media is None else item.text
        if text:
            yield text
        if media is not None:
            yield _with_true_type(media)
        is_empty = is_empty and not text and media is None
    if is_empty:
        yield NO_OUTPUT


def _media(item: ContentItem, payloads: Mapping[Digest, bytes]) -> Media | None:
    digest = None if item.ref is None or item.type not in _MEDIA else item.ref.digest
    data = None if digest is None else payloads.get(digest)
    if item.ref is None or not data:  # providers reject empty media
        return None
    media_type = item.media_type or item.ref.media_type or BINARY
    return Media(data=data, media_type=media_type.partition(";")[0].strip().lower(), name=item.name or item.ref.title)


def _caption(item: ContentItem) -> str:
    """Name what an item without text points at."""
    ref = item.ref or Ref()
    parts = (item.name or ref.title, item.uri or ref.uri or ref.id)
    return " ".join(each for each in (item.type.value, *parts) if each)


def _with_true_type(media: Media) -> Media | str:
    """Return an image under the type of its first bytes; text instead of media that no provider could read.

    A provider rejects a whole request for one image of another type than declared.
    """
    declared, data = media.media_type or "", media.data
    if declared == PDF:
        return media if b"%PDF-" in data[:_PDF_WITHIN] else _not_shown(media)
    if not declared.startswith("image/"):
        return media
    detected = next((media_type for first, media_type in _FIRST_BYTES.items() if data.startswith(first)), None)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        detected = "image/webp"
    if detected is None:
        return _not_shown(media) if declared in IMAGES else media
    return media if detected == declared else replace(media, media_type=detected)


def _not_shown(media: Media) -> str:
    return f"(not shown: declared as {media.media_type}, but its bytes are something else)"
