"""The Gemini API, `generate_content`, of Google."""

from collections.abc import Sequence
from functools import partial
from typing import cast

from agenttool.adapters.function_calling.call_output import CallOutput
from agenttool.adapters.function_calling.lenient_schema import gemini_schema
from agenttool.adapters.function_calling.model_reply import (
    ModelReply,
    arguments_object,
    error_in,
    function_name_or_unknown,
    object_in,
    objects_at,
)
from agenttool.adapters.function_calling.provider_format import CallReader, ProviderFormat, match_key
from agenttool.adapters.function_calling.tool_payload import (
    PayloadTool,
    ProviderLimits,
    ToolPayload,
    ToolRequestOptions,
    chosen_name,
)
from agenttool.records import Json, JsonObject

_ACCEPTED_MEDIA = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf"})
_WHOLE = ("", "STOP", "FINISH_REASON_UNSPECIFIED")
"""Any other reason is a limit or one of many filters."""
_IN_CHUNKS = ("candidates", "prompt_feedback", "usage_metadata", "response_id")
_NEEDS_NO_ANSWER = (
    "text",
    "thought",
    "thought_signature",
    "inline_data",
    "file_data",
    "executable_code",
    "code_execution_result",
    "tool_call",
    "tool_response",
    "function_response",
    "audio_transcription",
    "media_resolution",
    "part_metadata",
    "video_metadata",
)
"""The members of parts that need no answer, such as calls of tools that the provider runs, and their results."""
_UNREADABLE = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL")


_object, _objects = partial(object_in, as_json=False), partial(objects_at, as_json=False)
"""Read SDK objects with bytes as bytes, because the API wants them back."""


def _tool(sent: PayloadTool) -> JsonObject:
    return {"name": sent.name, "description": sent.description, "parameters_json_schema": gemini_schema(sent.schema)}


def _config(tools: list[Json], choice: Json, options: ToolRequestOptions) -> JsonObject:
    """Return the members of `config` that are about tools; the SDK must not run calls by itself."""
    config: JsonObject = {
        "tools": [{"function_declarations": tools}],
        "automatic_function_calling": {"disable": True},
    }
    return config if choice is None else {**config, "tool_config": {"function_calling_config": choice}}


def _tool_choice(payload: ToolPayload) -> JsonObject | None:
    match payload.options.tool_choice:
        case None:
            return None
        case "auto" | "none" as word:
            return {"mode": word.upper()}
        case "required":
            return {"mode": "ANY"}
        case _:
            return {"mode": "ANY", "allowed_function_names": [chosen_name(payload)]}


def _recognizes(reply: JsonObject) -> bool:
    """Return whether this is a response: it has a candidate, or says why there is none."""
    candidates = _objects(reply, "candidates")
    is_written = bool(candidates) and (
        "content" in candidates[0] or _member(candidates[0], "finish_reason") is not None
    )
    return is_written or bool(_block_reason(reply))


def _read(response: JsonObject, reader: CallReader) -> ModelReply:
    """Read the first candidate of a response.

    Raises:
        ReplyError: the prompt was blocked, so that there is no candidate, or a part is of an unknown kind.
    """
    candidate = _first_candidate(response)
    if not candidate:
        raise error_in(response, f"no candidate, because the prompt was blocked: {_block_reason(response)}")
    content = _object(candidate.get("content"))
    parts = _objects(content, "parts")
    reason = _finish_reason(candidate)
    is_cut = reason not in (*_WHOLE, *_UNREADABLE)
    repeated, calls = reader.read(parts, is_cut=is_cut)
    echo: JsonObject = {**content, "role": "model", "parts": [*repeated]}
    messages = (echo,) if parts else ()
    is_unreadable = not calls and reason in _UNREADABLE
    if is_unreadable:
        messages = (*messages, _unreadable(candidate))
    text = "".join(str(each.get("text") or "") for each in parts if not each.get("thought"))
    return ModelReply(echo=messages, calls=calls, text=text, is_final=not calls and not is_unreadable, is_cut=is_cut)


class CandidateAssembler:
    """Assembles a response from its chunks. A call is complete when the next part arrives, or with the reply."""

    def __init__(self) -> None:
        self.is_finished, self.complete = False, 0
        self._response: JsonObject = {}
        self._candidate: JsonObject = {}
        self._parts: list[JsonObject] = []

    def add(self, event: object) -> str:
        """Add a chunk; return its text."""
        event = _object(event)
        if not self._response and not any(_member(event, key) is not None for key in _IN_CHUNKS):
            raise error_in(event)
        self._response |= {key: value for key, value in event.items() if key != "candidates"}
        candidate = _first_candidate(event)
        self._candidate |= candidate
        parts = _objects(_object(candidate.get("content")), "parts")
        for part in parts:
            if not self._continues(part):
                self._parts.append(part)
        self.is_finished = bool(_finish_reason(self._candidate) or _block_reason(self._response))
        self.complete = len(self._parts) if self.is_finished else max(len(self._parts) - 1, 0)
        return "".join(str(each.get("text") or "") for each in parts if not each.get("thought"))

    def _continues(self, part: JsonObject) -> bool:
        """Join a text to the last part if that is one of the same kind; a signature belongs to its own part."""
        last = self._parts[-1] if self._parts else {}
        is_joined = "text" in last and {"text"} <= part.keys() <= {"text", "thought"}
        if is_joined and last.keys() <= {"text", "thought"} and last.get("thought") == part.get("thought"):
            self._parts[-1] = {**last, "text": f"{last['text']}{part['text']}"}
            return True
        return False

    def reply(self) -> JsonObject:
        """Return the response so far."""
        if not self._candidate:
            return self._response
        parts = [each for place, each in enumerate(self._parts) if place < self.complete or not _call_in(each)]
        content: JsonObject = {**_object(self._candidate.get("content")), "parts": [*parts]}
        return {**self._response, "candidates": [{**self._candidate, "content": content}]}


def _first_candidate(response: JsonObject) -> JsonObject:
    """Return the candidate with the index 0 among those of a response or chunk; an empty object if there is none."""
    return next((each for each in _objects(response, "candidates") if not each.get("index")), _object(None))


def _needs_no_answer(part: JsonObject) -> bool:
    known = {spelled for key in _NEEDS_NO_ANSWER for spelled in (key, _camel_case(key))}
    return all(value is None or key in known for key, value in part.items())


def _finish_reason(candidate: JsonObject) -> str:
    return _word(_member(candidate, "finish_reason"))


def _block_reason(response: JsonObject) -> str:
    return _word(_member(_object(_member(response, "prompt_feedback")), "block_reason"))


def _word(value: Json) -> str:
    """Return a constant of the API, which the SDK has as the member of an enum."""
    return str(getattr(value, "value", value) or "")


def _request_in(part: JsonObject) -> tuple[Json, Json, Json] | None:
    """Return the name, the arguments and the id of a call.

    Raises:
        ReplyError: its arguments arrive in pieces.
    """
    call = _call_in(part)
    if _member(call, "partial_args") or _member(call, "will_continue"):
        raise error_in(part, "arguments in pieces; leave stream_function_call_arguments off")
    return (call.get("name"), call.get("args", {}), call.get("id")) if call else None


def _write(outputs: Sequence[CallOutput]) -> list[JsonObject]:
    """Return one content with all results, in the order of the calls."""
    parts: list[Json] = [_response(each) for each in outputs]
    return [{"role": "user", "parts": parts}] if parts else []


def _response(output: CallOutput) -> JsonObject:
    response: JsonObject = {"error" if output.is_error else "output": output.text}
    media: list[Json] = [
        {"inline_data": {"mime_type": each.media_type, "data": cast("Json", each.data)}}
        for each in output.media
        if each.media_type in _ACCEPTED_MEDIA or (each.media_type or "").startswith(("audio/", "video/"))
    ]
    requested = output.requested
    whole: JsonObject = {"id": requested.call_id} if requested.came_with_id else {}
    whole |= {"name": function_name_or_unknown(requested.function_name), "response": response}
    if media:
        whole["parts"] = media
    return {"function_response": whole}


def _unreadable(candidate: JsonObject) -> JsonObject:
    reason = _member(candidate, "finish_message")
    detail = f": {reason}" if isinstance(reason, str) else ""
    return {"role": "user", "parts": [{"text": f"The last function call could not be read{detail}. Make it again."}]}


def _call_in(part: JsonObject) -> JsonObject:
    return _object(_member(part, "function_call"))


def _response_in(part: JsonObject) -> JsonObject:
    return _object(_member(part, "function_response"))


def _name_in(call: JsonObject) -> str:
    return function_name_or_unknown(call.get("name"))


def _key(call: JsonObject) -> str | None:
    """Return the match key of a call or a result: its id, or its name if it has none."""
    return (match_key(call["id"]) if call.get("id") else match_key(None, _name_in(call))) if call else None


def _fallback_key(part: JsonObject) -> str | None:
    """Match a result without an id, as the SDK makes them, with the next call of its name."""
    response = _response_in(part)
    return match_key(_name_in(response or _call_in(part))) if not response.get("id") else None


def _echo(part: JsonObject, call_id: str) -> JsonObject:
    """Repeat a call in a form that the API accepts; one that came without an id has none."""
    call = _call_in(part)
    arguments: Json = call.get("args", {})
    if call.get("id") in (None, call_id) and isinstance(arguments, dict) and call.get("name") == _name_in(call):
        return part
    whole = {key: value for key, value in call.items() if key != "id"}
    whole |= {"name": _name_in(call), "args": arguments_object(arguments) or {}}
    whole |= {"id": call_id} if call.get("id") else {}
    others = {key: value for key, value in part.items() if key not in ("function_call", "functionCall")}
    return {**others, "function_call": whole}


def _result_for(part: JsonObject, call: JsonObject) -> JsonObject:
    response, call_id = _response_in(part), _call_in(call).get("id")
    if response.get("id") == call_id and response.get("name") == _name_in(_call_in(call)):
        return part
    own = {} if call_id is None else {"id": call_id}
    return {"function_response": {**response, **own, "name": _name_in(_call_in(call))}}


def _member(value: JsonObject, key: str) -> Json:
    """Return a member under its name in the SDK or in the API, which uses camel case."""
    return value.get(key, value.get(_camel_case(key)))


def _camel_case(key: str) -> str:
    head, *tail = key.split("_")
    return head + "".join(map(str.capitalize, tail))


FORMAT = ProviderFormat(
    api="Gemini generate_content",
    provider="gemini",
    limits=ProviderLimits(max_tools=128),
    tool=_tool,
    tool_choice=_tool_choice,
    arguments=_config,
    recognizes=_recognizes,
    read_document=_read,
    assembler=CandidateAssembler,
    write=_write,
    request_in=_request_in,
    echo=_echo,
    needs_no_answer=_needs_no_answer,
    as_json=False,
    parts=lambda content: _objects(content, "parts"),
    parts_in="parts",
    reply_role="model",
    result_key=lambda part: _key(_response_in(part)),
    result_for=_result_for,
    call_key=lambda part: _key(_call_in(part)),
    fallback_key=_fallback_key,
)
