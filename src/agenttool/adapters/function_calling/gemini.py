"""The Gemini API, `generate_content`, of Google."""

from collections.abc import Sequence
from functools import partial
from typing import cast

from agenttool.adapters.function_calling.call_output import INTERRUPTED, CallOutput
from agenttool.adapters.function_calling.conversation_repair import MessageParts, match_key
from agenttool.adapters.function_calling.lenient_schema import gemini_schema
from agenttool.adapters.function_calling.model_reply import (
    CallReader,
    ModelReply,
    error_in,
    function_name_or_unknown,
    object_in,
    objects_at,
)
from agenttool.adapters.function_calling.tool_payload import ProviderLimits, ToolPayload, chosen_name
from agenttool.records import Json, JsonObject

API: str = "Gemini generate_content"
LIMITS = ProviderLimits(max_tools=128)

_ACCEPTED_MEDIA = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf"})
_WHOLE = ("", "STOP", "FINISH_REASON_UNSPECIFIED")
"""Any other reason is a limit or one of many filters."""
_IN_CHUNKS = ("candidates", "prompt_feedback", "usage_metadata", "response_id")
_UNREADABLE = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL")


_object, _objects = partial(object_in, as_json=False), partial(objects_at, as_json=False)
"""Read SDK objects with bytes as bytes, because the API wants them back."""


def request(payload: ToolPayload) -> JsonObject:
    """Return the members of `config` that are about tools; the SDK must not run calls by itself."""
    tools: list[Json] = [
        {"name": each.name, "description": each.description, "parameters_json_schema": gemini_schema(each.schema)}
        for each in payload.tools.values()
    ]
    if not tools:
        return {}
    config: JsonObject = {
        "tools": [{"function_declarations": tools}],
        "automatic_function_calling": {"disable": True},
    }
    choice = _tool_choice(payload)
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


def recognizes(reply: JsonObject) -> bool:
    """Return whether this is a response: it has a candidate, or says why there is none."""
    candidates = _objects(reply, "candidates")
    is_written = bool(candidates) and (
        "content" in candidates[0] or _member(candidates[0], "finish_reason") is not None
    )
    return is_written or bool(_block_reason(reply))


def read(reply: object, payload: ToolPayload) -> ModelReply:
    """Read the first candidate of a response.

    Raises:
        ReplyError: the prompt was blocked, so that there is no candidate.
    """
    response = _object(reply)
    if not _objects(response, "candidates"):
        raise error_in(response, f"no candidate, because the prompt was blocked: {_block_reason(response)}")
    candidate = (_objects(response, "candidates") or [_object(None)])[0]
    content = _object(candidate.get("content"))
    parts = _objects(content, "parts")
    reason = _finish_reason(candidate)
    reader = CallReader(payload, "gemini", response, _tool_choice)
    is_cut = reason not in (*_WHOLE, *_UNREADABLE)
    repeated, calls = reader.read(parts, _request_in, _echo, is_cut=is_cut)
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
        candidate = (_objects(event, "candidates") or [_object(None)])[0]
        self._candidate |= candidate
        parts = _objects(_object(candidate.get("content")), "parts")
        for part in parts:
            call = _call_in(part)
            if _member(call, "partial_args") or _member(call, "will_continue"):
                raise error_in(event, "arguments in pieces; leave stream_function_call_arguments off")
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


assembler = CandidateAssembler


def _finish_reason(candidate: JsonObject) -> str:
    return _word(_member(candidate, "finish_reason"))


def _block_reason(response: JsonObject) -> str:
    return _word(_member(_object(_member(response, "prompt_feedback")), "block_reason"))


def _word(value: Json) -> str:
    """Return a constant of the API, which the SDK has as the member of an enum."""
    return str(getattr(value, "value", value) or "")


def _request_in(part: JsonObject) -> tuple[Json, Json, Json] | None:
    call = _call_in(part)
    return (call.get("name"), call.get("args", {}), call.get("id")) if call else None


def write(outputs: Sequence[CallOutput]) -> list[JsonObject]:
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
    call_id = output.requested.call_id if output.requested.came_with_id else None
    return _response_part({"id": call_id, "name": output.requested.function_name}, response, media)


def _response_part(call: JsonObject, response: JsonObject, media: list[Json] | None = None) -> JsonObject:
    whole: JsonObject = {"id": call["id"]} if call.get("id") else {}
    whole |= {"name": _name_in(call), "response": response}
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
    whole |= {"name": _name_in(call), "args": arguments if isinstance(arguments, dict) else {}}
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
    head, *tail = key.split("_")
    return value.get(key, value.get(head + "".join(map(str.capitalize, tail))))


repair = MessageParts(
    parts=lambda content: _objects(_object(content), "parts"),
    call_key=lambda part: _key(_call_in(part)),
    result_key=lambda part: _key(_response_in(part)),
    id_of=lambda part: _call_in(part).get("id"),
    with_id=_echo,
    result_for=_result_for,
    interrupted=lambda part: _response_part(_call_in(part), {"error": INTERRUPTED}),
    holds_results=lambda content: _object(content).get("role") != "model",
    with_parts=lambda content, parts: {**_object(content), "parts": parts},
    result_messages=lambda parts: [{"role": "user", "parts": parts}],
    fallback_key=_fallback_key,
).repair
