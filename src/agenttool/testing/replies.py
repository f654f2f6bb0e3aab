"""Replies of models as each provider writes them, for testing an agent loop without a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from agenttool.codec import json_bytes
from agenttool.errors import ConfigError
from agenttool.records import Json, JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """A call that a model asks for; arguments as text are passed on as they are, be they JSON or not."""

    name: str
    arguments: JsonObject | str
    call_id: str | None = None


def reply(provider: str, *calls: ModelCall, text: str = "", cut_off: bool = False) -> JsonObject:
    """Write the reply of a model in the JSON of its provider.

    Raises:
        ConfigError: there is no such format.
    """
    match provider:
        case "openai":
            return _completion(calls, text, cut_off=cut_off)
        case "openai_responses":
            return _response(calls, text, cut_off=cut_off)
        case "anthropic":
            return _message(calls, text, cut_off=cut_off)
        case "gemini":
            return _content(calls, text, cut_off=cut_off)
        case _:
            raise ConfigError(f"no format is called {provider!r}; use one that `tools_for` takes")


def stream(provider: str, *calls: ModelCall, text: str = "", cut_off: bool = False) -> list[JsonObject]:
    """Write the events of a stream in the JSON of its provider, with texts and arguments in several pieces.

    Raises:
        ConfigError: there is no such format.
    """
    whole = reply(provider, *calls, text=text, cut_off=cut_off)
    match provider:
        case "openai":
            return _chunks(whole, calls, text)
        case "openai_responses":
            return _response_events(whole)
        case "anthropic":
            return _message_events(whole)
        case _:
            return _contents(whole)


def _pieces(text: str) -> list[str]:
    """Cut a text into two pieces; an empty one has none."""
    middle = len(text) // 2 or 1
    return [piece for piece in (text[:middle], text[middle:]) if piece]


def _chunks(whole: JsonObject, calls: Sequence[ModelCall], text: str) -> list[JsonObject]:
    deltas: list[JsonObject] = [{"role": "assistant", "content": ""}]
    deltas.extend({"content": piece} for piece in _pieces(text))
    for place, each in enumerate(calls):
        start: JsonObject = {"name": each.name, "arguments": ""}
        deltas.append({"tool_calls": [{"index": place, "id": each.call_id, "type": "function", "function": start}]})
        pieces = _pieces(_spelled(each))
        deltas.extend({"tool_calls": [{"index": place, "function": {"arguments": piece}}]} for piece in pieces)
    base: JsonObject = {**whole, "object": "chat.completion.chunk"}
    reason = _objects(whole, "choices")[0]["finish_reason"]
    choices: list[JsonObject] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": reason})
    return [{**base, "choices": [choice]} for choice in choices]


def _response_events(whole: JsonObject) -> list[JsonObject]:
    empty: JsonObject = {**whole, "status": "in_progress", "output": []}
    events: list[JsonObject] = [{"type": "response.created", "response": empty}]
    for place, item in enumerate(_objects(whole, "output")):
        is_call = item["type"] == "function_call"
        at: JsonObject = {"output_index": place, "item_id": item["id"]}
        bare: JsonObject = {**item, "status": "in_progress", **({"arguments": ""} if is_call else {"content": []})}
        events.append({"type": "response.output_item.added", "output_index": place, "item": bare})
        if is_call:
            kind, written = "response.function_call_arguments", str(item["arguments"])
            events += [{"type": f"{kind}.delta", **at, "delta": piece} for piece in _pieces(written)]
            events.append({"type": f"{kind}.done", **at, "name": item["name"], "arguments": written})
        else:
            at |= {"content_index": 0, "logprobs": []}
            written = str(_objects(item, "content")[0]["text"])
            part: JsonObject = {"type": "output_text", "text": "", "annotations": []}
            events.append({"type": "response.content_part.added", **at, "part": part})
            events += [{"type": "response.output_text.delta", **at, "delta": piece} for piece in _pieces(written)]
            events.append({"type": "response.output_text.done", **at, "text": written})
        events.append({"type": "response.output_item.done", "output_index": place, "item": item})
    events.append({"type": f"response.{whole['status']}", "response": whole})
    return [{**each, "sequence_number": place} for place, each in enumerate(events)]


def _message_events(whole: JsonObject) -> list[JsonObject]:
    empty: JsonObject = {**whole, "content": [], "stop_reason": None}
    events: list[JsonObject] = [{"type": "message_start", "message": empty}, {"type": "ping"}]
    for place, block in enumerate(_objects(whole, "content")):
        deltas: list[JsonObject]
        if block["type"] == "text":
            bare: JsonObject = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(str(block["text"]))]
        else:
            bare, given = {**block, "input": {}}, block["input"]
            written = given if isinstance(given, str) else json_bytes(given).decode() if given else ""
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *_pieces(written))]
        events.append({"type": "content_block_start", "index": place, "content_block": bare})
        events.extend({"type": "content_block_delta", "index": place, "delta": delta} for delta in deltas)
        events.append({"type": "content_block_stop", "index": place})
    end: JsonObject = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}})
    return [*events, {"type": "message_stop"}]


def _contents(whole: JsonObject) -> list[JsonObject]:
    (candidate,) = _objects(whole, "candidates")
    parts: list[JsonObject] = []
    for part in _objects(cast("JsonObject", candidate["content"]), "parts"):
        pieces = _pieces(str(part["text"])) if "text" in part else ()
        parts.extend({"text": piece} for piece in pieces)
        parts.extend(() if "text" in part else (part,))
    contents: list[JsonObject] = [{"content": {"role": "model", "parts": [part]}, "index": 0} for part in parts]
    contents.append({**candidate, "content": {"role": "model", "parts": []}})
    return [{"candidates": [content], "responseId": "response_1"} for content in contents]


def _objects(value: JsonObject, key: str) -> list[JsonObject]:
    return cast("list[JsonObject]", value[key])


def _completion(calls: Sequence[ModelCall], text: str, *, cut_off: bool) -> JsonObject:
    asked: list[Json] = [
        {"id": each.call_id, "type": "function", "function": {"name": each.name, "arguments": _spelled(each)}}
        for each in calls
    ]
    message: JsonObject = {"role": "assistant", "content": text or None, "refusal": None}
    message |= {"tool_calls": asked} if asked else {}
    reason = "length" if cut_off else "tool_calls" if asked else "stop"
    choice: JsonObject = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "scripted", "choices": [choice]}


def _response(calls: Sequence[ModelCall], text: str, *, cut_off: bool) -> JsonObject:
    said: JsonObject = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    output: list[Json] = [said] if text else []
    for place, each in enumerate(calls):
        item: JsonObject = {"id": f"fc_{place}", "type": "function_call", "call_id": each.call_id, "name": each.name}
        is_whole = not cut_off or each is not calls[-1]
        output.append({**item, "arguments": _spelled(each), "status": "completed" if is_whole else "incomplete"})
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 0,
        "model": "scripted",
        "status": "incomplete" if cut_off else "completed",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _message(calls: Sequence[ModelCall], text: str, *, cut_off: bool) -> JsonObject:
    blocks: list[Json] = [{"type": "text", "text": text}] if text else []
    blocks.extend(
        {"type": "tool_use", "id": each.call_id, "name": each.name, "input": each.arguments} for each in calls
    )
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": blocks,
        "stop_reason": "max_tokens" if cut_off else "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _content(calls: Sequence[ModelCall], text: str, *, cut_off: bool) -> JsonObject:
    parts: list[Json] = [{"text": text}] if text else []
    for each in calls:
        call: JsonObject = {"name": each.name, "args": each.arguments}
        parts.append({"functionCall": call if each.call_id is None else {**call, "id": each.call_id}})
    content: JsonObject = {"role": "model", "parts": parts}
    return {"candidates": [{"content": content, "finishReason": "MAX_TOKENS" if cut_off else "STOP", "index": 0}]}


def _spelled(asked: ModelCall) -> str:
    return asked.arguments if isinstance(asked.arguments, str) else json_bytes(asked.arguments).decode()
