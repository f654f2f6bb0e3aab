"""Replies of models as each provider writes them, for testing an agent loop without a model."""

from collections.abc import Sequence
from dataclasses import dataclass

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
