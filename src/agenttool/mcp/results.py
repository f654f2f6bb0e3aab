"""Results of calls as MCP results: content, structured content and errors; and stored output as a resource."""

import base64
from typing import cast

import mcp_types as types
from mcp.shared.exceptions import MCPError

from agenttool.adapters.function_calling.call_output import NO_OUTPUT
from agenttool.adapters.mcp.content import Fetch, content_block, link_block
from agenttool.codec import to_json
from agenttool.errors import StoreError
from agenttool.records import UNSET, ContentClass, JsonObject, ToolResult
from agenttool.results.payloads import media_type_of, readable_text
from agenttool.runtime import Runtime

INVOCATION_KEY = "agenttool/invocation"
"""The member of `_meta` with the id of the call, as `agenttool show` takes it."""

ERROR_KEY = "agenttool/error"
"""The member of `_meta` with the class of an error, and with what must change before a retry."""

MAX_READ_BYTES = 20_000_000
"""Larger output is read in parts, with the tool `read_result`."""

_ERROR_MEMBERS = ("error_class", "error_code", "recoverability", "retry")


async def call_result(result: ToolResult, fetch: Fetch, *, any_structure: bool) -> types.CallToolResult:
    """Return the MCP result of a call that has ended; a failed call is a result with `isError`.

    Args:
        result: the result of the call.
        fetch: reads stored media.
        any_structure: whether the revision takes structured content that is no object.
    """
    shown = result.content if result.model_facing_content is None else result.model_facing_content
    blocks = [await content_block(item, fetch) for item in shown or ()]
    blocks += [link_block(each) for each in result.content or () if each.type is ContentClass.PERSISTED_OUTPUT_REF]
    meta: JsonObject = {INVOCATION_KEY: result.invocation_id}
    if result.error is not None:
        members = to_json(result.error)
        meta[ERROR_KEY] = {name: members[name] for name in _ERROR_MEMBERS if name in members}
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


async def read_stored_output(runtime: Runtime, uri: str, actor: str | None) -> JsonObject | None:
    """Return stored output as the contents of a resource; None if the actor may not read it here.

    Raises:
        MCPError: it is too large, or the store cannot be read.
    """
    try:
        is_readable = await runtime.may_read(uri, actor_ref=actor)
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
