"""The conversion of MCP content blocks and tool results to native output, without loss."""

from typing import cast

from agenttool.ports.output import NativeError, NativeOutput
from agenttool.records import UNSET, ContentClass, ContentItem, Json, JsonObject, McpMapping, Ref, UnsetType

TOOL_ERROR = "mcp_tool_error"
"""The code of a failure that the tool reported in its result; a JSON-RPC error has the number of the error."""

_MEDIA = {"image": ContentClass.IMAGE, "audio": ContentClass.AUDIO}


def content_item(block: JsonObject) -> ContentItem:
    """Return the item of one content block; a block of an unknown type stays as it is, as structured content."""
    kind, notes = block.get("type"), _notes(block)
    text, data = block.get("text"), block.get("data")
    if kind == "text" and isinstance(text, str):
        return ContentItem(type=ContentClass.TEXT, text=text, annotations=notes)
    if isinstance(kind, str) and kind in _MEDIA and isinstance(data, str):
        return ContentItem(type=_MEDIA[kind], data=data, media_type=_text(block, "mimeType"), annotations=notes)
    if kind == "resource_link" and isinstance(block.get("uri"), str):
        return _link(block, notes)
    resource = block.get("resource")
    if kind == "resource" and isinstance(resource, dict) and isinstance(resource.get("uri"), str):
        return resource_item(resource, notes)
    return ContentItem(type=ContentClass.STRUCTURED_CONTENT, data=block)


def resource_item(resource: JsonObject, notes: Json | UnsetType = UNSET) -> ContentItem:
    """Return the item of the contents of a resource: text, or bytes as base64."""
    blob = resource.get("blob")
    own = _notes(resource)
    return ContentItem(
        type=ContentClass.EMBEDDED_RESOURCE,
        uri=_text(resource, "uri"),
        media_type=_text(resource, "mimeType"),
        text=_text(resource, "text"),
        data=blob if isinstance(blob, str) else UNSET,
        annotations={**_object(notes), **_object(own)} if own is not UNSET else notes,
    )


def _link(block: JsonObject, notes: Json | UnsetType) -> ContentItem:
    uri, media_type, size = _text(block, "uri"), _text(block, "mimeType"), block.get("size")
    ref = Ref(
        uri=uri,
        media_type=media_type,
        size_bytes=size if isinstance(size, int) and not isinstance(size, bool) else None,
        title=_text(block, "title"),
        native_ref=block,
    )
    return ContentItem(
        type=ContentClass.RESOURCE_LINK,
        uri=uri,
        name=_text(block, "name"),
        text=_text(block, "description"),
        media_type=media_type,
        ref=ref,
        annotations=notes,
    )


def _notes(block: JsonObject) -> Json | UnsetType:
    """Return the annotations of a block, with its `_meta`; unset if it has neither."""
    meta = block.get("_meta")
    notes = {**_object(block.get("annotations")), **({"_meta": meta} if isinstance(meta, dict) else {})}
    return notes or UNSET


def _object(value: Json | UnsetType) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _text(members: JsonObject, name: str) -> str | None:
    value = members.get(name)
    return value if isinstance(value, str) else None


def output_of(result: JsonObject, mapping: McpMapping) -> NativeOutput:
    """Return the native output of a tool result; `mapping` has the ids of the call.

    Raises:
        ValueError: the result is not valid; says why.
    """
    blocks = result.get("content", [])
    if not isinstance(blocks, list) or not all(isinstance(each, dict) for each in blocks):
        raise ValueError("its content is not a list of objects")
    items = tuple(content_item(cast("JsonObject", each)) for each in blocks)
    structured: Json | UnsetType = result.get("structuredContent", UNSET)
    is_error = result.get("isError") is True
    error = None
    if is_error:
        texts = [item.text for item in items if item.type is ContentClass.TEXT and item.text]
        error = NativeError(
            message="\n".join(texts) or "the tool reported an error without a text",
            error_code=TOOL_ERROR,
            native_error_ref={"isError": True, "jsonrpc_request_id": mapping.jsonrpc_request_id},
        )
    return NativeOutput(
        content=items or (None if structured is not UNSET else ()),
        structured_content=structured,
        is_error=is_error,
        error=error,
        external_mappings=(mapping,),
    )
