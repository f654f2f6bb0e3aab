"""The Chat Completions API of OpenAI, which many other servers implement."""

from collections.abc import Mapping, Sequence

from agenttool.adapters.function_calling.call_output import (
    IMAGES,
    PDF,
    CallOutput,
    base64_of,
    data_url,
    labelled_media,
)
from agenttool.adapters.function_calling.model_reply import (
    ModelReply,
    arguments_object,
    arguments_text,
    error_in,
    function_name_or_unknown,
    index_in,
    is_blank,
    joined,
    object_in,
    objects_at,
    unassigned,
)
from agenttool.adapters.function_calling.provider_format import CallReader, ProviderFormat, match_key
from agenttool.adapters.function_calling.strict_schema import OPENAI
from agenttool.adapters.function_calling.tool_payload import PayloadTool, ProviderLimits, ToolPayload, chosen_name
from agenttool.errors import ReplyError
from agenttool.ports.output import Media
from agenttool.records import Json, JsonObject

_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_CUT = ("length", "content_filter", "refusal")
_CALLED = ("tool_calls", "function_call")
_CALL_TYPES = ("function", "custom", None)
_ONLY_IN_REPLIES = ("annotations", "parsed", "function_call", "audio", "tool_calls")


def _tool_choice(payload: ToolPayload) -> Json:
    name = chosen_name(payload)
    return payload.options.tool_choice if name is None else {"type": "function", "function": {"name": name}}


def _recognizes(reply: JsonObject) -> bool:
    """Return whether this is a completion, or the message of one."""
    if "choices" in reply:
        options = objects_at(reply, "choices")
        message = options[0].get("message") if options else None
        return isinstance(message, Mapping) and message.get("role", "assistant") == "assistant"
    is_written = "tool_calls" in reply or isinstance(reply.get("content"), str)
    return reply.get("role") == "assistant" and "type" not in reply and is_written


def _read(whole: JsonObject, reader: CallReader) -> ModelReply:
    """Read a completion, or the message of one.

    Raises:
        ReplyError: it has a call in the form before `tools`, or it ended with calls and has none.
    """
    options = objects_at(whole, "choices")
    message = object_in(options[0].get("message")) if options else whole
    if any(object_in(message.get("function_call")).values()):
        raise ReplyError(
            "received a `function_call`, the form of calls before `tools`; send `tools.request()` and no `functions`,"
            " or use a model or server that writes `tool_calls`"
        )
    reason = options[0].get("finish_reason") if options else None
    is_cut = reason in _CUT
    expected = reason if reason in _CALLED else None
    echo, calls = reader.read(objects_at(message, "tool_calls"), is_cut=is_cut, expected=expected)
    repeated: JsonObject = {key: value for key, value in message.items() if key not in _ONLY_IN_REPLIES}
    audio = object_in(message.get("audio")).get("id")
    repeated |= {"role": "assistant", "content": message.get("content")}
    if echo:
        repeated["tool_calls"] = [*echo]
    if audio:
        repeated["audio"] = {"id": audio}
    is_empty = not echo and not audio and repeated["content"] is None and repeated.get("refusal") is None
    text = _text(message.get("content")) or str(message.get("refusal") or "")
    messages = () if is_empty else (repeated,)
    return ModelReply(echo=messages, calls=calls, text=text, is_final=not calls, is_cut=is_cut)


def _parts(content: Json) -> list[JsonObject]:
    """Return content as a list of parts; some servers write a list instead of a text."""
    is_text = isinstance(content, str) and content
    return [{"type": "text", "text": content}] if is_text else objects_at({"parts": content}, "parts")


def _text(content: Json) -> str:
    return "".join(str(part.get("text") or "") for part in _parts(content))


class CompletionAssembler:
    """Assembles a completion from its chunks. Calls are complete with the reply, because chunks may interleave them."""

    def __init__(self) -> None:
        self.is_finished, self.complete = False, 0
        self._whole: JsonObject = {}
        self._message: JsonObject = {}
        self._calls: list[tuple[Json, JsonObject]] = []
        self._places: dict[Json, int] = {}
        self._sharing: set[int] = set()
        self._fault: ReplyError | None = None
        self._reason: Json = None

    def add(self, event: object) -> str:
        """Add a chunk; return its text."""
        chunk = object_in(event)
        if chunk.get("type") == "chunk":  # an event of the SDK's stream helper, which adds events of its own
            chunk = object_in(chunk.get("chunk"))
        elif "type" in chunk and self._whole:
            return ""
        choice = next((each for each in objects_at(chunk, "choices") if not each.get("index")), object_in(None))
        if "choices" not in chunk:
            raise error_in(chunk)
        if choice.get("delta") is None and _recognizes(chunk) and not (self._message or self._calls):
            raise error_in(chunk, "a complete reply instead of its chunks; request no stream from this server")
        self._whole |= {key: value for key, value in chunk.items() if key not in ("choices", "object")}
        delta = object_in(choice.get("delta"))
        for key, value in delta.items():
            if key == "tool_calls":
                for call in objects_at(delta, key):
                    self._add_call(call)
            elif key == "content" and list in (type(value), type(self._message.get(key))):
                self._message[key] = [*_parts(self._message.get(key)), *_parts(value)]
            else:
                self._message[key] = joined(self._message.get(key), value, key)
        self._reason = choice.get("finish_reason") or self._reason
        self.is_finished = self._reason is not None
        self.complete = len(self._calls) if self.is_finished else 0
        return _text(delta.get("content")) or str(delta.get("refusal") or "")

    def _add_call(self, part: JsonObject) -> None:
        """Add a part of a call. The index identifies the call, because some servers send another id with each part.

        Other servers send all calls with the same index. So a part with a name and another id starts a new call.
        """
        index = index_in(part)
        part.pop("index", None)
        place = self._places.get(index)
        before = {} if place is None else self._calls[place][1]
        is_other_id = before.get("id") and part.get("id") and before["id"] != part["id"]
        if place is not None and is_other_id and _name_and_arguments(part)[0]:
            if arguments_object(_name_and_arguments(before)[1]) is None:
                self._fault = unassigned(f"a call at the index {index!r} before the call there is complete")
            self._sharing |= {place, len(self._calls)}
            place = None
        if place is None:
            place = self._places[index] = len(self._calls)
            self._calls.append((index, {}))
        self._calls[place] = index, object_in(joined(self._calls[place][1], part))

    def _check(self) -> None:
        """Check that no call lacks a piece: it has a name, and arguments if it shares its index.

        Raises:
            ReplyError: parts of the calls cannot be assigned.
        """
        if self._fault is not None:
            raise self._fault
        for place, (index, call) in enumerate(self._calls):
            name, arguments = _name_and_arguments(call)
            if not name:
                raise unassigned(f"a call without a name at the index {index!r}")
            if place in self._sharing and is_blank(arguments) and self._reason not in _CUT:
                raise unassigned(f"several calls at the index {index!r}, one of them without arguments")

    def reply(self) -> JsonObject:
        """Return the completion so far, without calls that are not complete.

        Raises:
            ReplyError: parts of the calls cannot be assigned.
        """
        self._check()
        message: JsonObject = {"role": "assistant", **self._message, "content": self._message.get("content") or None}
        if self.complete:
            ordered = sorted(self._calls, key=lambda each: each[0] if isinstance(each[0], int) else 0)
            message["tool_calls"] = [call for _, call in ordered]
        choice: JsonObject = {"index": 0, "message": message, "finish_reason": self._reason}
        return {**self._whole, "object": "chat.completion", "choices": [choice]}


def _write(outputs: Sequence[CallOutput]) -> list[JsonObject]:
    """Return one message per result, which holds only text, and a last one with all media."""
    messages: list[JsonObject] = [
        {"role": "tool", "tool_call_id": each.requested.call_id, "content": each.text} for each in outputs
    ]
    media = labelled_media(outputs, _part)
    return [*messages, {"role": "user", "content": media}] if media else messages


def _tool(sent: PayloadTool) -> JsonObject:
    function: JsonObject = {"name": sent.name, "description": sent.description, "parameters": sent.schema}
    return {"type": "function", "function": {**function, "strict": sent.is_strict}}


def _request_in(written: JsonObject) -> tuple[Json, Json, Json] | None:
    """Return the name, the arguments and the id of a call, written as a function or as a custom tool."""
    is_known = written.get("type", "function") in _CALL_TYPES
    return (*_name_and_arguments(written), written.get("id")) if is_known else None


def _name_and_arguments(written: JsonObject) -> tuple[Json, Json]:
    function, custom = object_in(written.get("function")), object_in(written.get("custom"))
    return function.get("name", custom.get("name")), function.get("arguments", custom.get("input", ""))


def _echo(written: JsonObject, call_id: str) -> JsonObject:
    request = _request_in(written)
    if request is None:
        return {**written, "id": call_id}
    name, arguments, _ = request
    form, text = ("custom", "input") if "custom" in written else ("function", "arguments")
    given = {key: value for key, value in object_in(written.get(form)).items() if key != "parsed_arguments"}
    given |= {"name": function_name_or_unknown(name), text: arguments_text(arguments)}
    return {**written, "id": call_id, "type": form, form: given}


def _part(media: Media) -> JsonObject | None:
    if media.media_type in IMAGES:
        return {"type": "image_url", "image_url": {"url": data_url(media)}}
    if media.media_type in _AUDIO:
        audio: JsonObject = {"data": base64_of(media), "format": _AUDIO[media.media_type]}
        return {"type": "input_audio", "input_audio": audio}
    if media.media_type == PDF:
        return {"type": "file", "file": {"filename": media.name or "output.pdf", "file_data": data_url(media)}}
    return None


FORMAT = ProviderFormat(
    api="OpenAI Chat Completions",
    provider="openai",
    limits=ProviderLimits(dialect=OPENAI, max_tools=128, max_description=1024),
    tool=_tool,
    tool_choice=_tool_choice,
    recognizes=_recognizes,
    read_document=_read,
    assembler=CompletionAssembler,
    write=_write,
    request_in=_request_in,
    echo=_echo,
    parts=lambda message: [message] if message.get("role") == "tool" else objects_at(message, "tool_calls"),
    parts_in="tool_calls",
    result_key=lambda part: match_key(part.get("tool_call_id")) if part.get("role") == "tool" else None,
    result_for=lambda result, call: {**result, "tool_call_id": call["id"]},
    has_result_messages=True,
)
