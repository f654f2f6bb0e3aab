"""The payloads of a result as files, for `agenttool call --out`."""

import mimetypes
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

from agenttool.codec import json_bytes
from agenttool.errors import StoreError
from agenttool.records import ContentItem, Ref, ToolResult, UnsetType
from agenttool.results.payloads import JSON, OCTETS, PLAIN_TEXT

_SUFFIXES = {PLAIN_TEXT.partition(";")[0]: ".txt", OCTETS: ".bin", JSON: ".json", "image/jpeg": ".jpg"}


FetchPayload: TypeAlias = Callable[[Ref], Awaitable[bytes | None]]
"""Returns the stored bytes of a reference; none if they are not stored."""


class ResultPayload(NamedTuple):
    """The bytes of one content item of a result, and their media type."""

    data: bytes
    media_type: str

    @property
    def suffix(self) -> str:
        """The usual suffix of a file with this media type."""
        plain = self.media_type.partition(";")[0].strip().lower()
        return _SUFFIXES.get(plain) or mimetypes.guess_extension(plain) or ".bin"


async def read_payloads(fetch: FetchPayload, result: ToolResult) -> tuple[ResultPayload, ...]:
    """Return what a tool returned, item by item, each complete even if a model reads only a preview.

    Raises:
        StoreError: the bytes of an item are not stored, or cannot be read.
    """
    is_json = not isinstance(result.structured_content, UnsetType | str)
    found = [await _payload(fetch, item, JSON if is_json else PLAIN_TEXT) for item in result.content or ()]
    payloads = tuple(each for each in found if each is not None)
    if not payloads and not isinstance(result.structured_content, UnsetType):
        payloads = (ResultPayload(json_bytes(result.structured_content), JSON),)
    return payloads


async def _payload(fetch: FetchPayload, item: ContentItem, text_type: str) -> ResultPayload | None:
    if item.ref is not None:
        data = await fetch(item.ref)
        if data is None and item.text is None:
            place = item.ref.uri or item.ref.id
            raise StoreError(f"the result refers to {place!r}, which is not stored here; fetch it from its owner")
        if data is not None:
            return ResultPayload(data, item.media_type or item.ref.media_type or OCTETS)
    if item.text is not None:
        return ResultPayload(item.text.encode(), item.media_type or text_type)
    return None if isinstance(item.data, UnsetType) else ResultPayload(json_bytes(item.data), JSON)


def write_payloads(payloads: tuple[ResultPayload, ...], out: Path, name: str) -> list[tuple[Path, ResultPayload]]:
    """Write payloads to a file, to a folder, or, if there are several, to numbered files; return each with its path.

    Raises:
        StoreError: there are none, or a file cannot be written.
    """
    if not payloads:
        raise StoreError(f"nothing was written to {str(out)!r}: the tool returned no output")
    written = list(zip(_paths(payloads, out, name), payloads, strict=True))
    for path, payload in written:
        try:
            path.write_bytes(payload.data)
        except OSError as error:
            raise StoreError(f"cannot write {str(path)!r}: {error.strerror}; name another file with --out") from error
    return written


def _paths(payloads: tuple[ResultPayload, ...], out: Path, name: str) -> list[Path]:
    if out.is_dir():
        out /= name.rpartition(".")[2]
    elif len(payloads) == 1:
        return [out]
    numbers = [""] if len(payloads) == 1 else [f"-{number}" for number in range(1, len(payloads) + 1)]
    stem = out.name.removesuffix(out.suffix) if out.suffix else out.name
    return [out.with_name(f"{stem}{number}{each.suffix}") for number, each in zip(numbers, payloads, strict=True)]
