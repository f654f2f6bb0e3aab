"""The Messages API of Anthropic."""

import re
from collections.abc import Sequence

from agenttool.adapters.function_calling.call_output import (
    IMAGES,
    INTERRUPTED,
    NO_OUTPUT,
    PDF,
    CallOutput,
    base64_of,
    labelled_media,
)
from agenttool.adapters.function_calling.conversation_repair import MessageParts, match_key
from agenttool.adapters.function_calling.model_reply import (
    CallReader,
    ModelReply,
    function_name_or_unknown,
    object_in,
    objects_at,
)
from agenttool.adapters.function_calling.strict_schema import ANTHROPIC
from agenttool.adapters.function_calling.tool_payload import PayloadTool, ProviderLimits, ToolPayload, chosen_name
from agenttool.ports.output import Media
from agenttool.records import Json, JsonObject

SEARCH = "tool_search_tool_bm25"

LIMITS = ProviderLimits(
    dialect=ANTHROPIC,
    max_tools=10_000,
    max_strict_tools=20,
    max_optionals=24,
    max_unions=16,
    max_deferred=1000,
    reserved=frozenset({SEARCH}),
    search_name=SEARCH,
    property_names=re.compile(r"[a-zA-Z0-9_.-]{1,64}"),
)

MAX_IMAGE_BYTES = 3_900_000
"""The API takes five megabytes of base64 per image."""


def request(payload: ToolPayload) -> JsonObject:
    """Return the arguments of `messages.create` that are about tools."""
    tools: list[Json] = [_tool(each) for each in payload.tools.values()]
    if payload.has_deferred:
        tools.insert(0, {"type": f"{SEARCH}_20251119", "name": SEARCH})
    if not tools:
        return {}
    choice = tool_choice(payload)
    return {"tools": tools} if choice is None else {"tools": tools, "tool_choice": choice}


def tool_choice(payload: ToolPayload) -> JsonObject | None:
    """Return the tool choice, which also carries whether calls may be parallel.

    Raises:
        ConfigError: it names no tool that is sent, or several.
    """
    choice, is_serial = payload.options.tool_choice, payload.options.parallel_tool_calls is False
    if choice is None and not is_serial:
        return None
    serial: JsonObject = {"disable_parallel_tool_use": True} if is_serial else {}
    match choice:
        case "none":
            return {"type": "none"}
        case "auto" | None:
            return {"type": "auto"} | serial
        case "required":
            return {"type": "any"} | serial
        case _:
            return {"type": "tool", "name": chosen_name(payload)} | serial


def read(reply: object, payload: ToolPayload) -> ModelReply:
    """Read a message."""
    message = object_in(reply)
    blocks = objects_at(message, "content")
    reader = CallReader(payload, "anthropic", message, tool_choice)
    is_cut = message.get("stop_reason") in ("max_tokens", "model_context_window_exceeded")
    echo, calls = reader.read(blocks, _request_in, _echo, is_cut=is_cut)
    # Models write blank texts, and the API rejects a conversation with one.
    repeated: list[Json] = [each for each in echo if each.get("type") != "text" or str(each.get("text") or "").strip()]
    return ModelReply(
        echo=({"role": "assistant", "content": repeated},) if repeated else (),
        calls=calls,
        found=tuple(_found(blocks)),
        is_final=not calls and message.get("stop_reason") != "pause_turn",
    )


def _request_in(block: JsonObject) -> tuple[Json, Json, Json] | None:
    return (block.get("name"), block.get("input"), block.get("id")) if block.get("type") == "tool_use" else None


def write(outputs: Sequence[CallOutput]) -> list[JsonObject]:
    """Return one message with all results. The API takes only text in a failed result, so its media follow."""
    following = labelled_media((each for each in outputs if each.is_error), _block)
    results: list[Json] = [*map(_result, outputs), *following]
    return [{"role": "user", "content": results}] if results else []


def _blocks(message: object) -> list[JsonObject]:
    found = object_in(message)
    content = found.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else objects_at(found, "content")


def _tool(sent: PayloadTool) -> JsonObject:
    tool: JsonObject = {"name": sent.name, "description": sent.description, "input_schema": sent.schema}
    if sent.is_strict:
        tool["strict"] = True
    if sent.tool.is_deferred:
        tool["defer_loading"] = True
    return tool


def _echo(block: JsonObject, call_id: str) -> JsonObject:
    """Repeat a call in a form that the API accepts, even if the model wrote it wrong."""
    arguments = block.get("input")
    return {
        **block,
        "id": call_id,
        "name": function_name_or_unknown(block.get("name")),
        "input": arguments if isinstance(arguments, dict) else {},
    }


def _found(blocks: Sequence[JsonObject]) -> list[str]:
    results = (object_in(each.get("content")) for each in blocks if each.get("type") == "tool_search_tool_result")
    names = (each.get("tool_name") for result in results for each in objects_at(result, "tool_references"))
    return [name for name in names if isinstance(name, str)]


def _result(output: CallOutput) -> JsonObject:
    inside = [piece for piece in output.pieces if isinstance(piece, str) or not output.is_error]
    result: JsonObject = {
        "type": "tool_result",
        "tool_use_id": output.requested.call_id,
        "content": [block for piece in inside if (block := _block(piece)) is not None]
        or [{"type": "text", "text": output.text.strip() or NO_OUTPUT}],
    }
    return result | ({"is_error": True} if output.is_error else {})


def _block(piece: str | Media) -> JsonObject | None:
    if isinstance(piece, str):
        return {"type": "text", "text": piece} if piece.strip() else None
    source: JsonObject = {"type": "base64", "media_type": piece.media_type, "data": base64_of(piece)}
    if piece.media_type in IMAGES and len(piece.data) <= MAX_IMAGE_BYTES:
        return {"type": "image", "source": source}
    if piece.media_type == PDF:
        return {"type": "document", "source": source, "title": piece.name or "output.pdf"}
    return None


repair = MessageParts(
    parts=_blocks,
    call_key=lambda block: match_key(block.get("id")) if block.get("type") == "tool_use" else None,
    result_key=lambda block: match_key(block.get("tool_use_id")) if block.get("type") == "tool_result" else None,
    id_of=lambda block: block.get("id"),
    with_id=_echo,
    result_for=lambda result, call: {**result, "tool_use_id": call["id"]},
    interrupted=lambda call: {
        "type": "tool_result",
        "tool_use_id": call["id"],
        "content": INTERRUPTED,
        "is_error": True,
    },
    holds_results=lambda message: object_in(message).get("role") == "user",
    with_parts=lambda message, blocks: {**object_in(message), "content": blocks},
    result_messages=lambda results: [{"role": "user", "content": results}],
).repair
