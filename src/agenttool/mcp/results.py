"""Results of calls as MCP results: content, structured content and errors; and stored output as a resource."""

import base64
from collections.abc import Iterator

import mcp_types as types
from mcp.shared.exceptions import MCPError

from agenttool.adapters.function_calling.call_output import NO_OUTPUT
from agenttool.adapters.mcp.content import Fetch, content_block, link_block
from agenttool.codec import to_json
from agenttool.errors import StoreError
from agenttool.records import UNSET, ContentClass, ContentItem, JsonObject, McpMapping, ToolError, ToolResult
from agenttool.results.content import is_empty_text
from agenttool.results.payloads import media_type_of, readable_text
from agenttool.runtime import Runtime

INVOCATION_KEY = "agenttool/invocation"
"""The member of `_meta` with the id of the call, as `agenttool show` takes it."""

ERROR_KEY = "agenttool/error"
"""The member of `_meta` with the class of an error, and with what must change before a retry."""

MAX_READ_BYTES = 20_000_000
"""Larger output is read in parts, with the tool `read_result`."""

_PASSED_ON = frozenset(
    {
        ContentClass.TEXT,
        ContentClass.IMAGE,
        ContentClass.AUDIO,
        ContentClass.EMBEDDED_RESOURCE,
        ContentClass.RESOURCE_LINK,
    }
)
_ERROR_MEMBERS = ("error_class", "error_code", "recoverability", "retry")


async def call_result(result: ToolResult, fetch: Fetch, *, any_structure: bool) -> JsonObject:
    """Return the MCP result of a call that has ended; a failed call is a result with `isError`.

    Args:
        result: the result of the call.
        fetch: reads stored media.
        any_structure: whether the revision takes structured content that is no object.
    """
    blocks = [await content_block(item, fetch) for item in _delivered(result)]
    blocks += [link_block(each) for each in result.content or () if each.type is ContentClass.PERSISTED_OUTPUT_REF]
    native = next((each for each in result.external_mappings or () if isinstance(each, McpMapping)), None)
    if not blocks and native is None:
        blocks.append({"type": "text", "text": NO_OUTPUT})
    # The gateway names itself as the server.
    stated = ({} if native is None else native.meta or {}).items()
    meta: JsonObject = {name: value for name, value in stated if name != types.SERVER_INFO_META_KEY}
    meta[INVOCATION_KEY] = result.invocation_id
    if result.error is not None:
        members = to_json(result.error)
        meta[ERROR_KEY] = {name: members[name] for name in _ERROR_MEMBERS if name in members}
    reply: JsonObject = {"content": [*blocks], "isError": bool(result.is_error), "_meta": meta}
    structured = result.structured_content
    if isinstance(structured, dict) or (any_structure and structured is not UNSET and structured is not None):
        reply["structuredContent"] = structured
    return reply


def server_error(error: ToolError | None) -> types.ErrorData | None:
    """Return the JSON-RPC error with which an MCP server ended a call; None for any other error."""
    native = None if error is None else error.native_error_ref
    if not isinstance(native, dict) or not {"jsonrpc_request_id", "code"} <= native.keys():
        return None
    return types.ErrorData.model_validate({name: native.get(name) for name in ("code", "message", "data")})


def _delivered(result: ToolResult) -> Iterator[ContentItem]:
    """Yield the items that a client gets.

    Items of the kinds that MCP has are those of the tool. Their text is not escaped, so that a client can write back
    what it read. Other kinds, and stored output, are as a model reads them.
    """
    own, shown = result.content or (), None if result.empty_result else result.model_facing_content
    for_model = iter(own if shown is None else shown)
    is_paired = shown is None or len(shown) == sum(not is_empty_text(each) for each in own)
    if not is_paired and not any(each.type is ContentClass.PERSISTED_OUTPUT_REF for each in own):
        yield from for_model
        return
    for each in own:
        model = each if is_empty_text(each) else next(for_model, each)
        is_preview = each.type is ContentClass.PERSISTED_OUTPUT_REF
        yield model if is_preview or (is_paired and each.type not in _PASSED_ON) else each


def text_result(text: str, *, structured: JsonObject | None = None) -> JsonObject:
    """Return a result with one text; without structured content, it is an error."""
    reply: JsonObject = {"content": [{"type": "text", "text": text}], "isError": structured is None}
    return reply if structured is None else {**reply, "structuredContent": structured}


async def read_stored_output(runtime: Runtime, uri: str, actor: str | None) -> JsonObject | None:
    """Return stored output as the contents of a resource; None if the actor may not read it here.

    Raises:
        MCPError: it is too large, or the store cannot be read.
    """
    try:
        is_readable = await runtime.calls.may_read(uri, actor_ref=actor)
        data = await runtime.journal.payload(uri, length=MAX_READ_BYTES + 1) if is_readable else None
    except StoreError as error:
        raise MCPError(types.INTERNAL_ERROR, f"the stored output cannot be read: {error}") from error
    if data is None:
        return None
    if len(data) > MAX_READ_BYTES:
        message = f"the output is larger than {MAX_READ_BYTES} bytes; read it in parts with the tool read_result"
        raise MCPError(types.INVALID_PARAMS, message, {"uri": uri})
    text = readable_text(data)
    contents: JsonObject = {"uri": uri, "mimeType": media_type_of(data)}
    contents |= {"blob": base64.b64encode(data).decode()} if text is None else {"text": text}
    return {"contents": [contents]}
