"""The Chat Completions API of OpenAI, which many other servers implement."""

from collections.abc import Sequence

from agenttool.adapters.function_calling.call_output import (
    IMAGES,
    INTERRUPTED,
    PDF,
    CallOutput,
    base64_of,
    data_url,
    labelled_media,
)
from agenttool.adapters.function_calling.conversation_repair import MessageParts, match_key
from agenttool.adapters.function_calling.model_reply import (
    CallReader,
    ModelReply,
    arguments_text,
    function_name_or_unknown,
    object_in,
    objects_at,
)
from agenttool.adapters.function_calling.strict_schema import OPENAI
from agenttool.adapters.function_calling.tool_payload import PayloadTool, ProviderLimits, ToolPayload, chosen_name
from agenttool.ports.output import Media
from agenttool.records import Json, JsonObject

LIMITS = ProviderLimits(dialect=OPENAI, max_tools=128, max_description=1024)

_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_CUT = ("length", "content_filter")
_ONLY_IN_REPLIES = ("annotations", "parsed", "function_call", "audio", "tool_calls")


def request(payload: ToolPayload) -> JsonObject:
    """Return the arguments of `chat.completions.create` that are about tools."""
    tools: list[Json] = [_tool(each) for each in payload.tools.values()]
    return {"tools": tools, **choice_arguments(payload, tool_choice(payload))} if tools else {}


def choice_arguments(payload: ToolPayload, choice: Json) -> JsonObject:
    """Return the tool choice and whether calls may be parallel, as far as the options set them."""
    arguments: JsonObject = {} if choice is None else {"tool_choice": choice}
    parallel = payload.options.parallel_tool_calls
    return arguments if parallel is None else {**arguments, "parallel_tool_calls": parallel}


def tool_choice(payload: ToolPayload) -> Json:
    """Return the tool choice.

    Raises:
        ConfigError: it names no tool that is sent, or several.
    """
    name = chosen_name(payload)
    return payload.options.tool_choice if name is None else {"type": "function", "function": {"name": name}}


def read(reply: object, payload: ToolPayload) -> ModelReply:
    """Read a completion, or the message of one."""
    whole = object_in(reply)
    options = objects_at(whole, "choices")
    message = object_in(options[0].get("message")) if options else whole
    reader = CallReader(payload, "openai", whole, tool_choice)
    is_cut = bool(options) and options[0].get("finish_reason") in _CUT
    echo, calls = reader.read(objects_at(message, "tool_calls"), _request_in, _echo, is_cut=is_cut)
    repeated: JsonObject = {key: value for key, value in message.items() if key not in _ONLY_IN_REPLIES}
    audio = object_in(message.get("audio")).get("id")
    repeated |= {"role": "assistant", "content": message.get("content")}
    if echo:
        repeated["tool_calls"] = [*echo]
    if audio:
        repeated["audio"] = {"id": audio}
    is_empty = not echo and not audio and repeated["content"] is None and repeated.get("refusal") is None
    return ModelReply(echo=() if is_empty else (repeated,), calls=calls, is_final=not calls)


def write(outputs: Sequence[CallOutput]) -> list[JsonObject]:
    """Return one message per result, which holds only text, and a last one with all media."""
    messages: list[JsonObject] = [
        {"role": "tool", "tool_call_id": each.requested.call_id, "content": each.text} for each in outputs
    ]
    media = labelled_media(outputs, _part)
    return [*messages, {"role": "user", "content": media}] if media else messages


def _tool(sent: PayloadTool) -> JsonObject:
    function: JsonObject = {"name": sent.name, "description": sent.description, "parameters": sent.schema}
    return {"type": "function", "function": {**function, "strict": sent.is_strict}}


def _request_in(written: JsonObject) -> tuple[Json, Json, Json]:
    """Return the name, the arguments and the id of a call, written as a function or as a custom tool."""
    function, custom = object_in(written.get("function")), object_in(written.get("custom"))
    arguments = function.get("arguments", custom.get("input", ""))
    return function.get("name", custom.get("name")), arguments, written.get("id")


def _echo(written: JsonObject, call_id: str) -> JsonObject:
    name, arguments, _ = _request_in(written)
    function: JsonObject = {"name": function_name_or_unknown(name), "arguments": arguments_text(arguments)}
    return {"id": call_id, "type": "function", "function": function}


def _part(media: Media) -> JsonObject | None:
    if media.media_type in IMAGES:
        return {"type": "image_url", "image_url": {"url": data_url(media)}}
    if media.media_type in _AUDIO:
        audio: JsonObject = {"data": base64_of(media), "format": _AUDIO[media.media_type]}
        return {"type": "input_audio", "input_audio": audio}
    if media.media_type == PDF:
        return {"type": "file", "file": {"filename": media.name or "output.pdf", "file_data": data_url(media)}}
    return None


def _calls_or_result(message: object) -> list[JsonObject]:
    found = object_in(message)
    return [found] if found.get("role") == "tool" else objects_at(found, "tool_calls")


def _is_result(part: JsonObject) -> bool:
    return part.get("role") == "tool"


repair = MessageParts(
    parts=_calls_or_result,
    call_key=lambda part: None if _is_result(part) else match_key(part.get("id")),
    result_key=lambda part: match_key(part.get("tool_call_id")) if _is_result(part) else None,
    id_of=lambda call: call.get("id"),
    with_id=_echo,
    result_for=lambda result, call: {**result, "tool_call_id": call["id"]},
    interrupted=lambda call: {"role": "tool", "tool_call_id": call["id"], "content": INTERRUPTED},
    holds_results=lambda _: False,
    with_parts=lambda message, calls: {**object_in(message), "tool_calls": calls},
    result_messages=lambda results: [object_in(each) for each in results],
).repair
