"""The Chat Completions API of OpenAI, which many other servers implement."""

from collections.abc import Mapping, Sequence

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
    error_in,
    function_name_or_unknown,
    object_in,
    objects_at,
)
from agenttool.adapters.function_calling.strict_schema import OPENAI
from agenttool.adapters.function_calling.tool_payload import PayloadTool, ProviderLimits, ToolPayload, chosen_name
from agenttool.ports.output import Media
from agenttool.records import Json, JsonObject

API: str = "OpenAI Chat Completions"
LIMITS = ProviderLimits(dialect=OPENAI, max_tools=128, max_description=1024)

_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_CUT = ("length", "content_filter", "refusal")
_ONLY_IN_REPLIES = ("annotations", "parsed", "function_call", "audio", "tool_calls")


def request(payload: ToolPayload) -> JsonObject:
    """Return the arguments of `chat.completions.create` that are about tools."""
    tools: list[Json] = [_tool(each) for each in payload.tools.values()]
    return {"tools": tools, **choice_arguments(payload, _tool_choice(payload))} if tools else {}


def choice_arguments(payload: ToolPayload, choice: Json) -> JsonObject:
    """Return the tool choice and whether calls may be parallel, as far as the options set them."""
    arguments: JsonObject = {} if choice is None else {"tool_choice": choice}
    parallel = payload.options.parallel_tool_calls
    return arguments if parallel is None else {**arguments, "parallel_tool_calls": parallel}


def _tool_choice(payload: ToolPayload) -> Json:
    name = chosen_name(payload)
    return payload.options.tool_choice if name is None else {"type": "function", "function": {"name": name}}


def recognizes(reply: JsonObject) -> bool:
    """Return whether this is a completion, or the message of one."""
    if "choices" in reply:
        options = objects_at(reply, "choices")
        message = options[0].get("message") if options else None
        return isinstance(message, Mapping) and message.get("role", "assistant") == "assistant"
    is_written = "tool_calls" in reply or isinstance(reply.get("content"), str)
    return reply.get("role") == "assistant" and "type" not in reply and is_written


def read(reply: object, payload: ToolPayload) -> ModelReply:
    """Read a completion, or the message of one."""
    whole = object_in(reply)
    options = objects_at(whole, "choices")
    message = object_in(options[0].get("message")) if options else whole
    reader = CallReader(payload, "openai", whole, _tool_choice)
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
    text = str(message.get("content") or message.get("refusal") or "")
    messages = () if is_empty else (repeated,)
    return ModelReply(echo=messages, calls=calls, text=text, is_final=not calls, is_cut=is_cut)


class CompletionAssembler:
    """Assembles a completion from its chunks. A call is complete when the next one starts, or with the reply."""

    def __init__(self) -> None:
        self.is_finished, self.complete = False, 0
        self._whole: JsonObject = {}
        self._message: JsonObject = {}
        self._calls: list[JsonObject] = []
        self._places: dict[Json, int] = {}
        self._reason: Json = None

    def add(self, event: object) -> str:
        """Add a chunk; return its text."""
        chunk = object_in(event)
        if chunk.get("type") == "chunk":  # an event of the SDK's stream helper, which adds events of its own
            chunk = object_in(chunk.get("chunk"))
        elif "type" in chunk and self._whole:
            return ""
        if "choices" not in chunk:
            raise error_in(chunk)
        self._whole |= {key: value for key, value in chunk.items() if key not in ("choices", "object")}
        choice = next((each for each in objects_at(chunk, "choices") if not each.get("index")), object_in(None))
        delta = object_in(choice.get("delta"))
        for key, value in delta.items():
            if key == "tool_calls":
                for call in objects_at(delta, key):
                    self._add_call(call)
            elif isinstance(value, str) and key != "role":
                self._message[key] = str(self._message.get(key) or "") + value
            elif isinstance(value, Mapping):
                self._message[key] = {**object_in(self._message.get(key)), **value}
        self._reason = choice.get("finish_reason") or self._reason
        self.is_finished = self._reason is not None
        self.complete = len(self._calls) if self.is_finished else max(len(self._calls) - 1, 0)
        return str(delta.get("content") or delta.get("refusal") or "")

    def _add_call(self, part: JsonObject) -> None:
        """Add a part of a call. Some servers give every call the index 0, so a new id starts a call, too."""
        place = self._places.get(part.get("index"))
        if place is None or (part.get("id") and part["id"] != self._calls[place].get("id")):
            place = self._places[part.get("index")] = len(self._calls)
            self._calls.append({"id": part.get("id"), "type": "function", "function": {"arguments": ""}})
        function, given = object_in(self._calls[place]["function"]), object_in(part.get("function"))
        name, arguments = function.get("name") or given.get("name"), given.get("arguments")
        if isinstance(arguments, str):
            arguments = str(function["arguments"]) + arguments
        function |= {"name": name, "arguments": function["arguments"] if arguments is None else arguments}
        self._calls[place] = {**self._calls[place], "function": function}

    def reply(self) -> JsonObject:
        """Return the completion so far, without the call that is not complete."""
        message: JsonObject = {"role": "assistant", **self._message, "content": self._message.get("content") or None}
        message |= {"tool_calls": [*self._calls[: self.complete]]} if self.complete else {}
        choice: JsonObject = {"index": 0, "message": message, "finish_reason": self._reason}
        return {**self._whole, "object": "chat.completion", "choices": [choice]}


assembler = CompletionAssembler


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
