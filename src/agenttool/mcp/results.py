"""Results of calls as MCP results: content, structured content and errors."""

from typing import cast

import mcp_types as types

from agenttool.adapters.function_calling.call_output import NO_OUTPUT
from agenttool.adapters.mcp.content import Fetch, content_block, link_block
from agenttool.codec import to_json
from agenttool.records import UNSET, ContentClass, JsonObject, ToolResult

INVOCATION_KEY = "agenttool/invocation"
"""The member of `_meta` with the id of the call, as `agenttool show` takes it."""

ERROR_KEY = "agenttool/error"
"""The member of `_meta` with the class of an error, and with what must change before a retry."""

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
