"""Replies about resources and prompts as output of tools, and back.

The structured content of such an output is the reply of the server. The content has its texts and bytes, so that a
model reads them, and long ones are stored as files. In the reply, null replaces each of those; `reply_in` restores it.
"""

import base64
import re
from collections.abc import Callable, Iterator
from typing import cast

from agenttool.adapters.mcp.content import Fetch, content_item, resource_item
from agenttool.adapters.mcp.session import InvalidResult
from agenttool.codec import parse_object
from agenttool.ports.output import Media, NativeOutput
from agenttool.records import UNSET, ContentClass, ContentItem, JsonObject, McpMapping, ToolResult

INLINE_CHARS = 25_000
"""A reply with more characters of text has them as files."""

_SHORT_CHARS = 500
_MAY_HOLD_MEDIA = re.compile(r"base64,|[A-Za-z0-9+/_=\r\n-]{256}")
"""Text that an inlined result might not keep as it is: media in it are stored apart."""

_BODIES = ("text", "blob", "data")
_KINDS = (
    ContentClass.EMBEDDED_RESOURCE,
    ContentClass.IMAGE,
    ContentClass.AUDIO,
    ContentClass.VIDEO,
    ContentClass.FILE,
)


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
    entries = [cast("JsonObject", each) for each in found if isinstance(each, dict)]
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
    bodies = (each for each in result.content or () if each.type in _KINDS and _has_body(each))
    reply = {**structured}
    for member in ("contents", "messages"):
        entries = reply.get(member)
        if isinstance(entries, list):
            objects = [cast("JsonObject", each) for each in entries if isinstance(each, dict)]
            reply[member] = [await _restored(each, bodies, fetch) for each in objects]
    return reply


def _has_body(item: ContentItem) -> bool:
    return item.text is not None or item.ref is not None or item.data is not UNSET


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
