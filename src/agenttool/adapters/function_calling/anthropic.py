"""The Messages API of Anthropic."""

import re
from collections.abc import Sequence

from agenttool.adapters.function_calling.choice import as_sent, chosen_name
from agenttool.adapters.function_calling.content import INTERRUPTED, NOTHING, Answer, base64_of
from agenttool.adapters.function_calling.dialect import ANTHROPIC
from agenttool.adapters.function_calling.menu import Limits, Menu, ShownTool
from agenttool.adapters.function_calling.reply import (
    CUT_OFF,
    CallReader,
    Reply,
    object_in,
    objects_at,
)
from agenttool.adapters.function_calling.settling import Shape, known_by, settle_parts
from agenttool.ports.output import Media
from agenttool.records import Json, JsonObject

SEARCH = "tool_search_tool_bm25"

LIMITS = Limits(
    dialect=ANTHROPIC,
    max_tools=10_000,
    max_strict_tools=20,
    max_optionals=24,
    max_unions=16,
    has_search=True,
    max_deferred=1000,
    reserved=frozenset({SEARCH}),
    search_name=SEARCH,
    property_names=re.compile(r"[a-zA-Z0-9_.-]{1,64}"),
)

MAX_IMAGE_BYTES = 3_900_000
"""Five megabytes is the most that an image may have once it is spelled in base64."""

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def request(menu: Menu) -> JsonObject:
    """Give the arguments of `messages.create` that are about tools."""
    tools: list[Json] = [_tool(each) for each in menu.shown.values()]
    if menu.has_deferred:
        tools.insert(0, {"type": f"{SEARCH}_20251119", "name": SEARCH})
    if not tools:
        return {}
    choice = tool_choice(menu)
    return {"tools": tools} if choice is None else {"tools": tools, "tool_choice": choice}


def tool_choice(menu: Menu) -> JsonObject | None:
    """Spell the choice; here it is also what says that calls come one at a time.

    Raises:
        ConfigError: it names no tool that is sent, or several.
    """
    wish, is_serial = menu.wishes.tool_choice, menu.wishes.parallel_tool_calls is False
    if wish is None and not is_serial:
        return None
    serial: JsonObject = {"disable_parallel_tool_use": True} if is_serial else {}
    match wish:
        case "none":
            return {"type": "none"}
        case "auto" | None:
            return {"type": "auto"} | serial
        case "required":
            return {"type": "any"} | serial
        case _:
            return {"type": "tool", "name": chosen_name(menu)} | serial


def read(reply: object, menu: Menu) -> Reply:
    """Read a message."""
    message = object_in(reply)
    blocks = objects_at(message, "content")
    reader = CallReader(menu, "anthropic", message, as_sent(tool_choice, menu))
    is_cut = message.get("stop_reason") in ("max_tokens", "model_context_window_exceeded")
    last = blocks[-1] if blocks else None
    calls = [
        reader.read(
            each.get("name"), each.get("input"), each.get("id"), fault=CUT_OFF if is_cut and each is last else None
        )
        for each in blocks
        if each.get("type") == "tool_use"
    ]
    ids = iter(calls)
    echo = [
        _echo(each, next(ids).call_id) if each.get("type") == "tool_use" else each for each in blocks if _says(each)
    ]
    return Reply(
        echo=({"role": "assistant", "content": [*echo]},) if echo else (),
        calls=tuple(calls),
        found=tuple(_found(blocks)),
        is_final=not calls and message.get("stop_reason") != "pause_turn",
    )


def write(answers: Sequence[Answer]) -> list[JsonObject]:
    """Put all results into one message, as the API wants them: of failures it takes text only, so media follow."""
    apart: list[Json] = []
    for answer in answers:
        shown = [block for media in answer.media for block in (_block(media),) if block is not None]
        if answer.is_error and shown:
            apart.append({"type": "text", "text": f"Output of call {answer.asked.call_id}:"})
            apart.extend(shown)
    return _as_message([*map(_result, answers), *apart])


def settle(messages: Sequence[object]) -> list[object]:
    """Give a conversation in which every call has a result; those that had none were interrupted."""
    return settle_parts(messages, _SHAPE)


def _blocks(message: object) -> list[JsonObject]:
    found = object_in(message)
    said = found.get("content")
    return [{"type": "text", "text": said}] if isinstance(said, str) else objects_at(found, "content")


def _as_message(results: list[Json]) -> list[JsonObject]:
    return [{"role": "user", "content": results}] if results else []


def _tool(shown: ShownTool) -> JsonObject:
    tool: JsonObject = {"name": shown.name, "description": shown.description, "input_schema": shown.schema}
    if shown.is_strict:
        tool["strict"] = True
    if shown.tool.is_deferred:
        tool["defer_loading"] = True
    return tool


def _echo(block: JsonObject, call_id: str) -> JsonObject:
    """Repeat a call so that the API takes it, whatever the model made of it."""
    written = block.get("input")
    name = block.get("name")
    return {
        **block,
        "id": call_id,
        "name": name if isinstance(name, str) and name else "unknown",
        "input": written if isinstance(written, dict) else {},
    }


def _says(block: JsonObject) -> bool:
    """Tell whether a block can be repeated: models write blank texts, and the API refuses whatever has one for good."""
    return block.get("type") != "text" or bool(str(block.get("text") or "").strip())


def _found(blocks: Sequence[JsonObject]) -> list[str]:
    results = (object_in(each.get("content")) for each in blocks if each.get("type") == "tool_search_tool_result")
    names = (each.get("tool_name") for result in results for each in objects_at(result, "tool_references"))
    return [name for name in names if isinstance(name, str)]


def _result(answer: Answer) -> JsonObject:
    inside = [piece for piece in answer.pieces if isinstance(piece, str) or not answer.is_error]
    result: JsonObject = {
        "type": "tool_result",
        "tool_use_id": answer.asked.call_id,
        "content": [each for piece in inside for each in (_block(piece),) if each is not None]
        or [{"type": "text", "text": answer.text.strip() or NOTHING}],
    }
    return result | ({"is_error": True} if answer.is_error else {})


def _block(piece: str | Media) -> JsonObject | None:
    if isinstance(piece, str):
        return {"type": "text", "text": piece} if piece.strip() else None
    source: JsonObject = {"type": "base64", "media_type": piece.media_type, "data": base64_of(piece)}
    if piece.media_type in _IMAGES and len(piece.data) <= MAX_IMAGE_BYTES:
        return {"type": "image", "source": source}
    if piece.media_type == "application/pdf":
        return {"type": "document", "source": source, "title": piece.name or "output.pdf"}
    return None


_SHAPE = Shape(
    parts=_blocks,
    call=lambda block: known_by(block.get("id")) if block.get("type") == "tool_use" else None,
    result=lambda block: known_by(block.get("tool_use_id")) if block.get("type") == "tool_result" else None,
    id_of=lambda block: block.get("id"),
    mended=_echo,
    answering=lambda result, call: {**result, "tool_use_id": call["id"]},
    interrupted=lambda call: {
        "type": "tool_result",
        "tool_use_id": call["id"],
        "content": INTERRUPTED,
        "is_error": True,
    },
    is_reply=lambda message: object_in(message).get("role") == "user",
    rewritten=lambda message, blocks: {**object_in(message), "content": blocks},
    reply=lambda results: {"role": "user", "content": results},
)
