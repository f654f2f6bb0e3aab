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
    error_in,
    function_name_or_unknown,
    object_in,
    objects_at,
)
from agenttool.adapters.function_calling.strict_schema import ANTHROPIC, StrictBudget
from agenttool.adapters.function_calling.tool_payload import PayloadTool, ProviderLimits, ToolPayload, chosen_name
from agenttool.codec import parse_object
from agenttool.errors import RecordError
from agenttool.ports.output import Media
from agenttool.records import Json, JsonObject

API: str = "Anthropic Messages"
SEARCH = "tool_search_tool_bm25"

# The API takes 20 strict tools, but also rejects a request whose strict schemas are too large together. That limit is
# not documented; seven small tools have exceeded it. So only small schemas are strict.
LIMITS = ProviderLimits(
    dialect=ANTHROPIC,
    max_tools=10_000,
    strict_budget=StrictBudget(tools=5, optionals=8, unions=4, size=2000),
    max_deferred=1000,
    reserved=frozenset({SEARCH}),
    search_name=SEARCH,
    property_names=re.compile(r"[a-zA-Z0-9_.-]{1,64}"),
)

_CUT = ("max_tokens", "model_context_window_exceeded", "refusal")

MAX_IMAGE_BYTES = 3_900_000
"""The API takes five megabytes of base64 per image."""


def request(payload: ToolPayload) -> JsonObject:
    """Return the arguments of `messages.create` that are about tools."""
    tools: list[Json] = [_tool(each) for each in payload.tools.values()]
    if payload.has_deferred:
        tools.insert(0, {"type": f"{SEARCH}_20251119", "name": SEARCH})
    if not tools:
        return {}
    choice = _tool_choice(payload)
    return {"tools": tools} if choice is None else {"tools": tools, "tool_choice": choice}


def _tool_choice(payload: ToolPayload) -> JsonObject | None:
    """Return the tool choice, which also carries whether calls may be parallel."""
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


def recognizes(reply: JsonObject) -> bool:
    """Return whether this is a message."""
    is_message = reply.get("type", "message") == "message" and reply.get("role", "assistant") == "assistant"
    return is_message and isinstance(reply.get("content"), list) and bool({"type", "role"} & reply.keys())


def read(reply: object, payload: ToolPayload) -> ModelReply:
    """Read a message."""
    message = object_in(reply)
    blocks = objects_at(message, "content")
    reader = CallReader(payload, "anthropic", message, _tool_choice)
    is_cut = message.get("stop_reason") in _CUT
    echo, calls = reader.read(blocks, _request_in, _echo, is_cut=is_cut)
    # Models write blank texts, and the API rejects a conversation with one.
    repeated: list[Json] = [each for each in echo if each.get("type") != "text" or str(each.get("text") or "").strip()]
    return ModelReply(
        echo=({"role": "assistant", "content": repeated},) if repeated else (),
        calls=calls,
        text="".join(str(each.get("text") or "") for each in blocks if each.get("type") == "text"),
        found=tuple(_found(blocks)),
        is_final=not calls and message.get("stop_reason") != "pause_turn",
        is_cut=is_cut,
    )


class MessageAssembler:
    """Assembles a message from its events.

    A call is complete when the next block starts, or with the message. That its block stopped does not suffice: a
    token limit also stops it.
    """

    def __init__(self) -> None:
        self.is_finished, self.complete = False, 0
        self._message: JsonObject = {}
        self._blocks: list[JsonObject] = []
        self._inputs: dict[int, str] = {}

    def add(self, event: object) -> str:
        """Add an event; return its text."""
        event = object_in(event)
        kind, text = event.get("type"), ""
        match kind:
            case "message_start":
                self._message = object_in(event.get("message"))
            case "content_block_start":
                self.complete = len(self._blocks)
                self._blocks.append(object_in(event.get("content_block")))
            case "content_block_delta" if self._blocks:
                text = self._add_delta(object_in(event.get("delta")))
            case "content_block_stop" if self._blocks:
                self._stop_block(len(self._blocks) - 1)
            case "message_delta":
                self._message |= object_in(event.get("delta"))
                self.is_finished = self._message.get("stop_reason") is not None
                self.complete = len(self._blocks)
            case _ if kind == "error" or not self._message:
                raise error_in(event)
            case _:  # new kinds of events, which the API may add at any time, and those of the SDK's helper
                pass
        return text

    def _add_delta(self, delta: JsonObject) -> str:
        block, place = self._blocks[-1], len(self._blocks) - 1
        for key, value in delta.items():
            if key == "partial_json":
                self._inputs[place] = self._inputs.get(place, "") + str(value)
            elif key == "citation":
                block["citations"] = [*objects_at(block, "citations"), value]
            elif key != "type" and isinstance(value, str):
                block[key] = str(block.get(key) or "") + value
        return str(delta.get("text") or "") if delta.get("type") == "text_delta" else ""

    def _stop_block(self, place: int) -> None:
        written = self._inputs.get(place, "")
        if written.strip():
            try:
                self._blocks[place]["input"] = parse_object(written.encode(), what="arguments")
            except (RecordError, UnicodeError):
                self._blocks[place]["input"] = written  # it was cut off, or the model made a mistake; a result says so

    def reply(self) -> JsonObject:
        """Return the message so far, without calls that are not complete."""
        blocks = [
            each
            for place, each in enumerate(self._blocks)
            if place < self.complete or each.get("type") in ("text", "thinking")
        ]
        return {**self._message, "type": "message", "role": "assistant", "content": [*blocks]}


assembler = MessageAssembler


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
