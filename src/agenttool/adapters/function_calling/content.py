"""What a model reads of a result, as text and media; each provider then decides which media it can take."""

import base64
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from agenttool.adapters.function_calling.pictures import as_it_is
from agenttool.adapters.function_calling.reply import AskedCall
from agenttool.ports.output import Media
from agenttool.records import ContentClass, ContentItem, Digest, Ref, ToolResult

INTERRUPTED = (
    "canceled: the turn was interrupted before this call had a result\n"
    "Whether it took effect is not known: check before you repeat it."
)
NOTHING = "(no output)"
OCTETS = "application/octet-stream"
_MEDIA = frozenset({ContentClass.IMAGE, ContentClass.AUDIO, ContentClass.VIDEO, ContentClass.FILE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What goes back for one call: pieces in order, texts never empty; there is at least one."""

    asked: AskedCall
    pieces: tuple[str | Media, ...]
    is_error: bool = False

    @property
    def text(self) -> str:
        """All of its texts."""
        return "\n".join(piece for piece in self.pieces if isinstance(piece, str)) or NOTHING

    @property
    def media(self) -> tuple[Media, ...]:
        """All that is no text."""
        return tuple(piece for piece in self.pieces if isinstance(piece, Media))


def refs_in(results: Iterable[ToolResult], taken: Collection[object] | None = None) -> Iterator[Ref]:
    """Go through the refs of media that a model could be shown, if somebody fetched their bytes.

    Args:
        results: what is to be shown.
        taken: the kinds of media that the model takes; none if nobody said, and then all are left to its provider.
    """
    for result in results:
        for item in _read_by_model(result):
            is_shown = item.type in _MEDIA and (taken is None or item.type.value in taken)
            if is_shown and item.ref is not None and item.ref.digest is not None:
                yield item.ref


def answers_of(
    calls: Sequence[AskedCall], results: Sequence[ToolResult], payloads: Mapping[Digest, bytes]
) -> list[Answer]:
    """Pair every call with its result; a call without one was interrupted, and says so."""
    return [
        Answer(asked=asked, pieces=(INTERRUPTED,), is_error=True)
        if result is None
        else Answer(asked=asked, pieces=tuple(_pieces(result, payloads)), is_error=bool(result.is_error))
        for asked, result in zip_longest(calls, results[: len(calls)])
        if asked is not None
    ]


def base64_of(media: Media) -> str:
    """Spell bytes for a message."""
    return base64.b64encode(media.data).decode()


def data_url(media: Media) -> str:
    """Spell bytes as an address of themselves."""
    return f"data:{media.media_type or OCTETS};base64,{base64_of(media)}"


def _read_by_model(result: ToolResult) -> tuple[ContentItem, ...]:
    return (result.content if result.model_facing_content is None else result.model_facing_content) or ()


def _pieces(result: ToolResult, payloads: Mapping[Digest, bytes]) -> Iterator[str | Media]:
    is_empty = True
    for item in _read_by_model(result):
        media = _media(item, payloads)
        words = _pointer(item) if item.text is None and media is None else item.text
        if words:
            yield words
        if media is not None:
            yield as_it_is(media)
        is_empty = is_empty and not words and media is None
    if is_empty:
        yield NOTHING


def _media(item: ContentItem, payloads: Mapping[Digest, bytes]) -> Media | None:
    digest = None if item.ref is None or item.type not in _MEDIA else item.ref.digest
    data = None if digest is None else payloads.get(digest)
    if item.ref is None or not data:  # providers refuse media without a byte
        return None
    kind = item.media_type or item.ref.media_type or OCTETS
    return Media(data=data, media_type=kind.partition(";")[0].strip().lower(), name=item.name or item.ref.title)


def _pointer(item: ContentItem) -> str:
    """Name what an item without words points at."""
    ref = item.ref or Ref()
    said = (item.name or ref.title, item.uri or ref.uri or ref.id)
    return " ".join(each for each in (item.type.value, *said) if each)
