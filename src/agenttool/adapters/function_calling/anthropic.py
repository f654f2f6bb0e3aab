"""The Messages API of Anthropic."""

import re
from collections.abc import Sequence

from agenttool.adapters.function_calling.call_output import (
    IMAGES,
    NO_OUTPUT,
    PDF,
    CallOutput,
    base64_of,
    labelled_media,
)
from agenttool.adapters.function_calling.model_reply import (
    ModelReply,
    arguments_object,
    error_in,
    function_name_or_unknown,
    index_in,
    joined,
    object_in,
    objects_at,
    unassigned,
)
from agenttool.adapters.function_calling.provider_format import CallReader, ProviderFormat, match_key
from agenttool.adapters.function_calling.strict_schema import ANTHROPIC, StrictBudget
from agenttool.adapters.function_calling.tool_payload import PayloadTool, ProviderLimits, ToolPayload, chosen_name
from agenttool.errors import ReplyError
from agenttool.ports.output import Media
from agenttool.records import Json, JsonObject

_SEARCH = "tool_search_tool_bm25"

_NEEDS_NO_ANSWER = frozenset(
    {
        "compaction",
        "container_upload",
        "fallback",
        "mcp_tool_listing",
        "mcp_tool_use",
        "redacted_thinking",
        "server_tool_use",
        "text",
        "thinking",
    }
)
_CUT = ("max_tokens", "model_context_window_exceeded", "refusal")

MAX_IMAGE_BYTES = 3_900_000
"""The API takes five megabytes of base64 per image."""


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


def _recognizes(reply: JsonObject) -> bool:
    """Return whether this is a message."""
    is_message = reply.get("type", "message") == "message" and reply.get("role", "assistant") == "assistant"
    return is_message and isinstance(reply.get("content"), list) and bool({"type", "role"} & reply.keys())


def _read(message: JsonObject, reader: CallReader) -> ModelReply:
    """Read a message.

    Raises:
        ReplyError: it has a block that only the program can answer, or it ended with calls and has none.
    """
    blocks = objects_at(message, "content")
    reason = message.get("stop_reason")
    is_cut = reason in _CUT
    echo, calls = reader.read(blocks, is_cut=is_cut, expected=reason if reason == "tool_use" else None)
    # Models write blank texts, and the API rejects a conversation with one.
    repeated: list[Json] = [each for each in echo if each.get("type") != "text" or str(each.get("text") or "").strip()]
    return ModelReply(
        echo=({"role": "assistant", "content": repeated},) if repeated else (),
        calls=calls,
        text="".join(str(each.get("text") or "") for each in blocks if each.get("type") == "text"),
        found=tuple(_found(blocks)),
        is_final=not calls and reason != "pause_turn",
        is_cut=is_cut,
    )


class MessageAssembler:
    """Assembles a message from its events.

    A call is complete when its block has stopped and another block or piece follows. Its stop alone does not prove
    this, because a token limit also stops a block. A call without arguments is complete at the end of the message.

    An index identifies a block from its start to its stop. Some servers give all blocks the same index.
    """

    def __init__(self) -> None:
        self.is_finished, self.complete = False, 0
        self._message: JsonObject = {}
        self._blocks: dict[int, JsonObject] = {}
        self._inputs: dict[int, str] = {}
        self._open: dict[Json, int] = {}
        self._stopped: set[int] = set()
        self._fault: ReplyError | None = None

    def add(self, event: object) -> str:
        """Add an event; return its text."""
        event = object_in(event)
        kind, text = event.get("type"), ""
        match kind:
            case "message_start":
                self._message = object_in(event.get("message"))
            case "content_block_start":
                self._count_stopped()
                self._start_block(index_in(event), object_in(event.get("content_block")))
            case "content_block_delta" if self._message or self._blocks:
                self._count_stopped()
                text = self._add_delta(self._index(event), object_in(event.get("delta")))
            case "content_block_stop" if self._message or self._blocks:
                self._stop_block(self._index(event))
            case "message_delta":
                self._message |= object_in(event.get("delta"))
            case _ if kind == "error" or not self._message:
                raise error_in(event)
            case _:  # new kinds of events, which the API may add at any time, and those of the SDK's helper
                pass
        self.is_finished = self._message.get("stop_reason") is not None and not self._open
        if self.is_finished:
            self._mark_cut()
        return text

    def _mark_cut(self) -> None:
        """Set a blank input in calls that a limit may have cut off before their first argument."""
        for place, block in self._blocks.items():
            is_open = place >= self.complete and self._message.get("stop_reason") in _CUT
            if is_open and self._lacks_input(place):
                block["input"] = ""

    def _index(self, event: JsonObject) -> Json:
        """Return the index of an event; one without an index belongs to the block that was opened last."""
        index = index_in(event)
        return index if index is not None else next(reversed(self._open), None)

    def _start_block(self, index: Json, block: JsonObject) -> None:
        if index in self._open:
            self._fault = unassigned(f"a block at the index {index!r} before the block there has stopped")
        new = max(self._blocks, default=-1) + 1
        place = index if isinstance(index, int) and index not in self._blocks else new
        self._open[index], self._blocks[place] = place, block

    def _lacks_input(self, place: int) -> bool:
        """Return whether a block is a call without arguments."""
        block, written = self._blocks[place], self._inputs.get(place, "")
        return block.get("type") == "tool_use" and not block.get("input") and not written.strip()

    def _count_stopped(self) -> None:
        while self.complete in self._stopped and not self._lacks_input(self.complete):
            self.complete += 1

    def _add_delta(self, index: Json, delta: JsonObject) -> str:
        place = self._open.get(index)
        if place is None:
            self._fault = unassigned(f"a piece of a block at the index {index!r}, where no block is open")
            return ""
        block = self._blocks[place]
        for key, value in delta.items():
            if key == "partial_json":
                self._inputs[place] = self._inputs.get(place, "") + str(value)
            elif key == "citation":
                block["citations"] = [*objects_at(block, "citations"), value]
            elif key != "type":
                block[key] = joined(block.get(key), value)
        return str(delta.get("text") or "") if delta.get("type") == "text_delta" else ""

    def _stop_block(self, index: Json) -> None:
        place = self._open.pop(index, None)
        if place is None:
            return
        self._stopped.add(place)
        written = self._inputs.get(place, "")
        if written.strip():
            parsed = arguments_object(written)  # None if it was cut off, or is wrong: the call then fails
            self._blocks[place]["input"] = written if parsed is None else parsed

    def reply(self) -> JsonObject:
        """Return the message so far, without calls that are not complete.

        Raises:
            ReplyError: a piece belongs to no block, or to more than one.
        """
        if self._fault is not None:
            raise self._fault
        blocks = [
            each
            for place, each in sorted(self._blocks.items())
            if self.is_finished or place < self.complete or each.get("type") in ("text", "thinking")
        ]
        reason = self._message.get("stop_reason") if self.is_finished else None
        ended: JsonObject = {"type": "message", "role": "assistant", "content": [*blocks], "stop_reason": reason}
        return {**self._message, **ended}


def _request_in(block: JsonObject) -> tuple[Json, Json, Json] | None:
    return (block.get("name"), block.get("input"), block.get("id")) if block.get("type") == "tool_use" else None


def _needs_no_answer(block: JsonObject) -> bool:
    kind = str(block.get("type"))
    return kind in _NEEDS_NO_ANSWER or kind.endswith("_tool_result")


def _write(outputs: Sequence[CallOutput]) -> list[JsonObject]:
    """Return one message with all results. The API takes only text in a failed result, so its media follow."""
    following = labelled_media((each for each in outputs if each.is_error), _block)
    results: list[Json] = [*map(_result, outputs), *following]
    return [{"role": "user", "content": results}] if results else []


def _blocks(message: JsonObject) -> list[JsonObject]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else objects_at(message, "content")


def _tool(sent: PayloadTool) -> JsonObject:
    tool: JsonObject = {"name": sent.name, "description": sent.description, "input_schema": sent.schema}
    if sent.is_strict:
        tool["strict"] = True
    if sent.tool.is_deferred:
        tool["defer_loading"] = True
    return tool


def _echo(block: JsonObject, call_id: str) -> JsonObject:
    """Repeat a call in a form that the API accepts, even if the model wrote it wrong."""
    return {
        **block,
        "id": call_id,
        "name": function_name_or_unknown(block.get("name")),
        "input": arguments_object(block.get("input")) or {},
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


FORMAT = ProviderFormat(
    api="Anthropic Messages",
    provider="anthropic",
    # The API takes 20 strict tools, but also rejects a request whose strict schemas are too large together. That
    # limit is not documented; seven small tools have exceeded it. So only small schemas are strict.
    limits=ProviderLimits(
        dialect=ANTHROPIC,
        max_tools=10_000,
        strict_budget=StrictBudget(tools=5, optionals=8, unions=4, size=2000),
        max_deferred=1000,
        reserved=frozenset({_SEARCH}),
        search_name=_SEARCH,
        property_names=re.compile(r"[a-zA-Z0-9_.-]{1,64}"),
    ),
    tool=_tool,
    search_tool={"type": f"{_SEARCH}_20251119", "name": _SEARCH},
    tool_choice=_tool_choice,
    arguments=lambda tools, choice, _: {"tools": tools} if choice is None else {"tools": tools, "tool_choice": choice},
    recognizes=_recognizes,
    read_document=_read,
    assembler=MessageAssembler,
    write=_write,
    request_in=_request_in,
    echo=_echo,
    needs_no_answer=_needs_no_answer,
    parts=_blocks,
    parts_in="content",
    result_key=lambda block: match_key(block.get("tool_use_id")) if block.get("type") == "tool_result" else None,
    result_for=lambda result, call: {**result, "tool_use_id": call["id"]},
)
