"""The conversion of content blocks to content items and back, and of tool results and replies to output.

A reply about resources or prompts is the structured content of its output. The content has its texts and bytes, so
that a model reads them, and long ones are stored as files. In the reply, null replaces each of those; `reply_in`
restores it.
"""

import base64
import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import cast

import mcp_types as types
from pydantic import BaseModel, ValidationError

from agenttool.adapters.mcp.session import InvalidResult
from agenttool.codec import json_bytes, object_of, objects_in, parse_object
from agenttool.ports.output import Media, NativeError, NativeOutput
from agenttool.records import (
    UNSET,
    ContentClass,
    ContentItem,
    Json,
    JsonObject,
    McpMapping,
    Ref,
    ToolResult,
    UnsetType,
)

log = logging.getLogger("agenttool.mcp")

TOOL_ERROR = "mcp_tool_error"
"""The code of a failure that the tool reported in its result; a JSON-RPC error has the number of the error."""

Fetch = Callable[[Ref], Awaitable[bytes | None]]
"""Returns stored bytes; None if they are not there any more."""

MAX_INLINE_BYTES = 5_000_000
"""Larger media are links, which `resources/read` resolves."""

MAX_BLOCKS = 10_000
"""How many content blocks a result may have; the conversion of more would block other calls."""

INLINE_CHARS = 25_000
"""A reply with more characters of text has them as files."""

_SHORT_CHARS = 500
_MAY_HOLD_MEDIA = re.compile(r"base64,|[A-Za-z0-9+/_=\r\n-]{256}")
"""Text that an inlined result might not keep as it is: media in it are stored apart."""

_BODIES = ("text", "blob", "data")
_WITH_BODY = (
    ContentClass.EMBEDDED_RESOURCE,
    ContentClass.IMAGE,
    ContentClass.AUDIO,
    ContentClass.VIDEO,
    ContentClass.FILE,
)
_BINARY = "application/octet-stream"
_RESOURCE = "resource"
"""The member of an item's annotations with the `_meta` of its resource; `_meta` beside it is that of the block."""
_MEDIA = {"image": ContentClass.IMAGE, "audio": ContentClass.AUDIO}
_BLOCKS: dict[str, type[BaseModel]] = {
    "text": types.TextContent,
    "image": types.ImageContent,
    "audio": types.AudioContent,
    "resource_link": types.ResourceLink,
    "resource": types.EmbeddedResource,
}
_INLINE = {kind: name for name, kind in _MEDIA.items()}
_LINKED = frozenset(
    {
        ContentClass.VIDEO,
        ContentClass.FILE,
        ContentClass.RESOURCE_LINK,
        ContentClass.ARTIFACT_REF,
        ContentClass.PERSISTED_OUTPUT_REF,
    }
)


class TooManyBlocks(ValueError):
    """A result has more content blocks than are accepted."""


def content_item(block: JsonObject) -> ContentItem:
    """Return the item of one content block; a block of an unknown type stays as it is, as structured content."""
    kind = block.get("type")
    annotations: Json | UnsetType = {**object_of(block.get("annotations")), **_meta_in(block)} or UNSET
    text, data = block.get("text"), block.get("data")
    if kind == "text" and isinstance(text, str):
        return ContentItem(type=ContentClass.TEXT, text=text, annotations=annotations)
    if isinstance(kind, str) and kind in _MEDIA and isinstance(data, str):
        return ContentItem(type=_MEDIA[kind], data=data, media_type=_text(block, "mimeType"), annotations=annotations)
    if kind == "resource_link" and isinstance(block.get("uri"), str):
        return _link_item(block, annotations)
    resource = block.get("resource")
    if kind == "resource" and isinstance(resource, dict) and isinstance(resource.get("uri"), str):
        return resource_item(resource, annotations)
    return ContentItem(type=ContentClass.STRUCTURED_CONTENT, data=block)


def resource_item(resource: JsonObject, annotations: Json | UnsetType = UNSET) -> ContentItem:
    """Return the item of the contents of a resource: text, or bytes as base64."""
    blob, meta = resource.get("blob"), _meta_in(resource)
    if meta:
        annotations = {**object_of(annotations), _RESOURCE: meta}
    return ContentItem(
        type=ContentClass.EMBEDDED_RESOURCE,
        uri=_text(resource, "uri"),
        media_type=_text(resource, "mimeType"),
        text=_text(resource, "text"),
        data=blob if isinstance(blob, str) else UNSET,
        annotations=annotations,
    )


def _link_item(block: JsonObject, annotations: Json | UnsetType) -> ContentItem:
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
        annotations=annotations,
    )


def _text(members: JsonObject, name: str) -> str | None:
    value = members.get(name)
    return value if isinstance(value, str) else None


def output_of(result: JsonObject, mapping: McpMapping) -> NativeOutput:
    """Return the native output of a tool result; `mapping` has the ids of the call.

    Raises:
        TooManyBlocks: the result is too large.
        ValueError: the result is not valid; the message has the reason.
    """
    blocks = result.get("content", [])
    if isinstance(blocks, list) and len(blocks) > MAX_BLOCKS:
        raise TooManyBlocks(f"its content has {len(blocks)} blocks; at most {MAX_BLOCKS} are accepted")
    if not isinstance(blocks, list) or not all(isinstance(each, dict) for each in blocks):
        raise ValueError("its content is not a list of objects")
    items = tuple(map(content_item, objects_in(blocks)))
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


async def content_block(item: ContentItem, fetch: Fetch) -> JsonObject:
    """Return the content block of an item; `fetch` reads stored media."""
    ref = item.ref or Ref()
    uri, media_type = item.uri or ref.uri, item.media_type or ref.media_type
    if item.type is ContentClass.EMBEDDED_RESOURCE:
        return await _embedded(item, uri or "agenttool:embedded", fetch)
    if item.type in _INLINE and (data := await _encoded(item, fetch)) is not None:
        return _block(_INLINE[item.type], item, data=data, mimeType=media_type or _BINARY)
    if item.type in _LINKED and uri:
        return link_block(item)
    if item.text is None and item.data is not UNSET:
        return {"type": "text", "text": json_bytes(item.data).decode()}
    caption = (item.type.value, item.name or ref.title, uri or ref.id)
    return _block("text", item, text=" ".join(filter(None, caption)) if item.text is None else item.text)


async def _embedded(item: ContentItem, uri: str, fetch: Fetch) -> JsonObject:
    is_text = item.text is not None and item.ref is None
    name, body = ("text", item.text) if is_text else ("blob", await _encoded(item, fetch))
    if body is None:
        return link_block(item)
    meta = _meta_in(object_of(item.annotations).get(_RESOURCE))
    return _block("resource", item, resource=_given({"uri": uri, "mimeType": item.media_type, name: body, **meta}))


def _block(kind: str, item: ContentItem, **members: Json) -> JsonObject:
    """Return a content block with the valid annotations of an item, and with the `_meta` that a server sent."""
    notes = object_of(item.annotations)
    hints = {name: value for name, value in notes.items() if name not in ("_meta", _RESOURCE)}
    annotations = without_invalid(types.Annotations, hints) if hints else None
    return _given({"type": kind, **members, "annotations": annotations, **_meta_in(notes)})


def _meta_in(notes: Json) -> JsonObject:
    meta = object_of(notes).get("_meta")
    return {"_meta": meta} if isinstance(meta, dict) else {}


def _given(members: JsonObject) -> JsonObject:
    return {name: value for name, value in members.items() if value is not None}


async def _encoded(item: ContentItem, fetch: Fetch) -> str | None:
    """Return the bytes of an item as base64, or its data as the server sent it; None for a link."""
    ref = item.ref
    if ref is None:
        return item.data if isinstance(item.data, str) else None
    data = None if (ref.size_bytes or 0) > MAX_INLINE_BYTES else await fetch(ref)
    return None if data is None else base64.b64encode(data).decode()


def link_block(item: ContentItem) -> JsonObject:
    """Return a link that `resources/read` resolves; one of a server stays as it was."""
    ref = item.ref or Ref()
    name = item.name or ref.title or ("full output" if item.type is ContentClass.PERSISTED_OUTPUT_REF else "output")
    if isinstance(ref.native_ref, dict) and ref.native_ref.get("type") == "resource_link":
        return {"name": name, **without_invalid(types.ResourceLink, ref.native_ref)}
    uri = item.uri or ref.uri or ref.id or "agenttool:unknown"
    return _block(
        "resource_link", item, uri=uri, name=name, mimeType=item.media_type or ref.media_type, size=ref.size_bytes
    )


def without_invalid(model: type[BaseModel], members: JsonObject) -> JsonObject:
    """Return an object of a server without the members whose values the protocol does not allow, and log their names.

    Other servers and clients ignore such a member. The SDK rejects the whole message.
    """
    try:
        model.model_validate(members)
    except ValidationError as error:
        places = [each["loc"] for each in error.errors() if each["type"] != "missing"]
        names = sorted({".".join(str(part) for part in place if not isinstance(part, int)) for place in places})
        log.info("clients do not see members of a server's %s that are not valid: %s", model.__name__, names)
        for place in places:
            members = object_of(_without(members, place))
    return members


def _without(value: Json, place: tuple[int | str, ...]) -> Json:
    """Return a value without the member at a place of Pydantic, which may contain names of classes beside members."""
    part, rest = place[0], place[1:]
    if isinstance(value, list) and isinstance(part, int) and part < len(value) and isinstance(value[part], dict):
        return [*value[:part], _without(value[part], rest), *value[part + 1 :]]
    if not isinstance(value, dict):
        return value
    if part not in value:
        return _without(value, rest) if rest else value
    part, inner = str(part), value[str(part)]
    is_inside = isinstance(inner, dict) or (isinstance(inner, list) and any(isinstance(each, dict) for each in inner))
    if rest and is_inside:
        return {**value, part: _without(inner, rest)}
    return {key: each for key, each in value.items() if key != part}


def valid_reply(reply: JsonObject, model: type[BaseModel]) -> JsonObject:
    """Return a reply about a resource or a prompt without members that the protocol does not allow."""
    messages = reply.get("messages")
    if isinstance(messages, list):
        reply = {**reply, "messages": [_valid_message(each) if isinstance(each, dict) else each for each in messages]}
    return without_invalid(model, reply)


def _valid_message(message: JsonObject) -> JsonObject:
    block = object_of(message.get("content"))
    model = _BLOCKS.get(_text(block, "type") or "")
    return message if model is None else {**message, "content": without_invalid(model, block)}


def contents_output(reply: JsonObject, mapping: McpMapping) -> NativeOutput:
    """Return the reply to `resources/read` as output.

    Raises:
        InvalidResult: it has no contents.
    """
    return _output(reply, "contents", lambda entry: (entry, resource_item(entry)), mapping)


def messages_output(reply: JsonObject, mapping: McpMapping) -> NativeOutput:
    """Return the reply to `prompts/get` as output.

    Raises:
        InvalidResult: it has no messages.
    """
    return _output(reply, "messages", lambda entry: (block := _block_in(entry), content_item(block)), mapping)


def _output(
    reply: JsonObject, member: str, read: Callable[[JsonObject], tuple[JsonObject, ContentItem]], mapping: McpMapping
) -> NativeOutput:
    found = reply.get(member)
    if not isinstance(found, list):
        raise InvalidResult(f"it has no {member!r}")
    entries = objects_in(found)
    parts = [(entry, *read(entry)) for entry in entries]
    chars = sum(len(str(holder["text"])) for holder, name in map(_body_of, entries) if name == "text")
    items: list[ContentItem | Media] = []
    rest: list[JsonObject] = []
    for entry, block, item in parts:
        holder, name = _body_of(entry)
        text = str(holder["text"]) if name == "text" else ""
        is_long = (chars > INLINE_CHARS and len(text) > _SHORT_CHARS) or _MAY_HOLD_MEDIA.search(text) is not None
        items.append(Media(text.encode(), item.media_type, item.uri) if is_long else item)
        stays = name is None or (block.get("type") == "text" and not is_long)  # the text of a message needs its role
        rest.append(entry if stays else _with_body(entry, cast("str", name), None))
    return NativeOutput(content=tuple(items), structured_content={**reply, member: rest}, external_mappings=(mapping,))


def _block_in(entry: JsonObject) -> JsonObject:
    """Return the content block of a message; an entry of a resource is one itself."""
    block = entry.get("content")
    return block if isinstance(block, dict) else entry


def _body_of(entry: JsonObject) -> tuple[JsonObject, str | None]:
    """Return the object that has the text or the bytes of an entry, and the name of the member; None if it has none."""
    block = _block_in(entry)
    resource = block.get("resource")
    holder = resource if isinstance(resource, dict) else block
    return holder, next((each for each in _BODIES if isinstance(holder.get(each), str)), None)


def _with_body(entry: JsonObject, name: str, body: str | None) -> JsonObject:
    """Return an entry with another text or other bytes."""
    for outer in ("content", "resource"):
        inner = entry.get(outer)
        if isinstance(inner, dict):
            return {**entry, outer: _with_body(inner, name, body)}
    return {**entry, name: body}


async def reply_in(result: ToolResult, fetch: Fetch) -> JsonObject | None:
    """Return the reply of the server in the result of a call; None if the result has none. `fetch` reads stored output.

    Raises:
        ConnectionError: a part of it is not stored any more.
    """
    structured = result.structured_content
    for item in result.content or ():
        if structured is UNSET and item.type is ContentClass.PERSISTED_OUTPUT_REF and item.ref is not None:
            document = parse_object(await fetch(item.ref) or b"{}")
            structured = document.get("structured_content", document)
    if not isinstance(structured, dict):
        return None
    bodies = (
        each
        for each in result.content or ()
        if each.type in _WITH_BODY and (each.text, each.ref, each.data) != (None, None, UNSET)
    )
    reply = {**structured}
    for member in ("contents", "messages"):
        if isinstance(reply.get(member), list):
            reply[member] = [await _restored(each, bodies, fetch) for each in objects_in(reply[member])]
    return reply


async def _restored(entry: JsonObject, bodies: Iterator[ContentItem], fetch: Fetch) -> JsonObject:
    holder, _ = _body_of(entry)
    name = next((each for each in _BODIES if each in holder and holder[each] is None), None)
    if name is None:
        return entry
    item = next(bodies, None)
    if item is None:
        raise ConnectionError("the result does not have what the server sent")
    if item.ref is None:
        return _with_body(entry, name, item.text if item.text is not None else str(item.data))
    data = await fetch(item.ref)
    if data is None:
        raise ConnectionError("what the server sent is not stored any more; read it again")
    text = data.decode(errors="replace") if name == "text" else base64.b64encode(data).decode()
    return _with_body(entry, name, text)
