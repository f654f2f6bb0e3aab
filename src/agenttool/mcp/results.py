"""Results of calls as MCP results: content blocks, structured content, resource links and errors."""

import base64
from collections.abc import Awaitable, Callable
from typing import cast

import mcp_types as types

from agenttool.adapters.function_calling.call_output import BINARY, NO_OUTPUT
from agenttool.codec import json_bytes, to_json
from agenttool.records import (
    UNSET,
    ContentClass,
    ContentItem,
    JsonObject,
    Ref,
    ToolError,
    ToolResult,
)

Fetch = Callable[[Ref], Awaitable[bytes | None]]
"""Returns stored bytes; None if they are not there any more."""

MAX_INLINE_BYTES = 5_000_000
"""Larger media are links, which `resources/read` resolves."""

INVOCATION_KEY = "agenttool/invocation"
"""The member of `_meta` with the id of the call, as `agenttool show` takes it."""

ERROR_KEY = "agenttool/error"
"""The member of `_meta` with the class of an error, and with what must change before a retry."""

_INLINE = {ContentClass.IMAGE: types.ImageContent, ContentClass.AUDIO: types.AudioContent}
_LINKED = frozenset(
    {
        ContentClass.VIDEO,
        ContentClass.FILE,
        ContentClass.RESOURCE_LINK,
        ContentClass.ARTIFACT_REF,
        ContentClass.PERSISTED_OUTPUT_REF,
    }
)


async def call_result(result: ToolResult, fetch: Fetch, *, any_structure: bool) -> types.CallToolResult:
    """Return the MCP result of a call that has ended; a failed call is a result with `isError`.

    Args:
        result: the result of the call.
        fetch: reads stored media.
        any_structure: whether the revision takes structured content that is no object.
    """
    shown = result.content if result.model_facing_content is None else result.model_facing_content
    blocks = [await _block(item, fetch) for item in shown or ()]
    blocks += [_link(each) for each in result.content or () if each.type is ContentClass.PERSISTED_OUTPUT_REF]
    meta: JsonObject = {INVOCATION_KEY: result.invocation_id}
    if result.error is not None:
        meta[ERROR_KEY] = _error_members(result.error)
    structured = None if result.structured_content is UNSET else result.structured_content
    return types.CallToolResult(
        content=blocks or [types.TextContent(text=NO_OUTPUT)],
        structured_content=structured if any_structure or isinstance(structured, dict) else None,
        is_error=bool(result.is_error),
        _meta=cast("dict[str, object]", meta),
    )


def text_result(
    text: str, *, is_error: bool = False, structured: JsonObject | None = None, meta: JsonObject | None = None
) -> types.CallToolResult:
    """Return a result that is one text."""
    return types.CallToolResult(
        content=[types.TextContent(text=text)],
        structured_content=structured,
        is_error=is_error,
        _meta=cast("dict[str, object] | None", meta),
    )


async def _block(item: ContentItem, fetch: Fetch) -> types.ContentBlock:
    if item.type is ContentClass.EMBEDDED_RESOURCE:
        return await _embedded(item, fetch)
    if item.type in _INLINE:
        data = await _media(item, fetch)
        if data is not None:
            kind, media_type = _INLINE[item.type], _media_type(item)
            return kind(
                data=base64.b64encode(data).decode(),
                mime_type=media_type,
                annotations=_annotations(item),
                _meta=_block_meta(item),
            )
    if item.type in _LINKED and (item.uri or (item.ref is not None and item.ref.uri)):
        return _link(item)
    if item.text is None and item.data is not UNSET:
        return types.TextContent(text=json_bytes(item.data).decode())
    return types.TextContent(text=item.text or _caption(item), annotations=_annotations(item), _meta=_block_meta(item))


async def _embedded(item: ContentItem, fetch: Fetch) -> types.ContentBlock:
    uri = item.uri or (item.ref.uri if item.ref is not None else None) or "agenttool:embedded"
    if item.text is not None and item.ref is None:
        contents: types.TextResourceContents | types.BlobResourceContents = types.TextResourceContents(
            uri=uri, mime_type=item.media_type, text=item.text
        )
    else:
        data = await _media(item, fetch)
        if data is None:
            return _link(item)
        contents = types.BlobResourceContents(
            uri=uri, mime_type=_media_type(item), blob=base64.b64encode(data).decode()
        )
    return types.EmbeddedResource(resource=contents, annotations=_annotations(item), _meta=_block_meta(item))


async def _media(item: ContentItem, fetch: Fetch) -> bytes | None:
    ref = item.ref
    if ref is None or (ref.size_bytes or 0) > MAX_INLINE_BYTES:
        return None
    return await fetch(ref)


def _link(item: ContentItem) -> types.ResourceLink:
    """Return a link that `resources/read` resolves; one of a server stays as it was."""
    ref = item.ref or Ref()
    if isinstance(ref.native_ref, dict) and ref.native_ref.get("type") == "resource_link":
        return types.ResourceLink.model_validate(ref.native_ref)
    return types.ResourceLink(
        uri=item.uri or ref.uri or ref.id or "agenttool:unknown",
        name=item.name or ref.title or ("full output" if item.type is ContentClass.PERSISTED_OUTPUT_REF else "output"),
        mime_type=item.media_type or ref.media_type,
        size=ref.size_bytes,
        annotations=_annotations(item),
        _meta=_block_meta(item),
    )


def _media_type(item: ContentItem) -> str:
    return item.media_type or (item.ref.media_type if item.ref is not None else None) or BINARY


def _caption(item: ContentItem) -> str:
    ref = item.ref or Ref()
    parts = (item.type.value, item.name or ref.title, item.uri or ref.uri or ref.id)
    return " ".join(each for each in parts if each)


def _annotations(item: ContentItem) -> types.Annotations | None:
    given = item.annotations
    members = {name: value for name, value in given.items() if name != "_meta"} if isinstance(given, dict) else {}
    return types.Annotations.model_validate(members) if members else None


def _block_meta(item: ContentItem) -> dict[str, object] | None:
    """Return the `_meta` of a block that came from a server."""
    given = item.annotations.get("_meta") if isinstance(item.annotations, dict) else None
    return cast("dict[str, object]", given) if isinstance(given, dict) else None


def _error_members(error: ToolError) -> JsonObject:
    """Return the members of an error that a program acts on; the message is in the content."""
    whole = to_json(error)
    return {name: whole[name] for name in ("error_class", "error_code", "recoverability", "retry") if name in whole}
