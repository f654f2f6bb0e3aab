"""The Responses API of OpenAI."""

from collections.abc import Iterator, Sequence

from agenttool.adapters.function_calling.call_output import IMAGES, INTERRUPTED, PDF, CallOutput, data_url
from agenttool.adapters.function_calling.conversation_repair import Position, match_key, match_results, unique_ids
from agenttool.adapters.function_calling.model_reply import (
    CallReader,
    ModelReply,
    arguments_text,
    error_in,
    function_name_or_unknown,
    object_in,
    objects_at,
)
from agenttool.adapters.function_calling.openai_chat import choice_arguments
from agenttool.adapters.function_calling.strict_schema import OPENAI
from agenttool.adapters.function_calling.tool_payload import PayloadTool, ProviderLimits, ToolPayload, chosen_name
from agenttool.ports.output import Media
from agenttool.records import Json, JsonObject

API: str = "OpenAI Responses"
LIMITS = ProviderLimits(dialect=OPENAI, max_tools=128, max_description=1024, search_name="tool_search")

_CALL, _RESULT = "function_call", "function_call_output"
_ONLY_IN_REPLIES = ("parsed_arguments", "created_by")
_ENDED = ("response.completed", "response.incomplete")
_ENDED_STATUS = (None, "completed", "incomplete")


def request(payload: ToolPayload) -> JsonObject:
    """Return the arguments of `responses.create` that are about tools."""
    tools: list[Json] = [_tool(each) for each in payload.tools.values()]
    if payload.has_deferred:
        tools.append({"type": "tool_search"})
    return {"tools": tools, **choice_arguments(payload, _tool_choice(payload))} if tools else {}


def _tool_choice(payload: ToolPayload) -> Json:
    name = chosen_name(payload)
    return payload.options.tool_choice if name is None else {"type": "function", "name": name}


def recognizes(reply: JsonObject) -> bool:
    """Return whether this is a response."""
    return isinstance(reply.get("output"), list) and reply.get("object", "response") == "response"


def read(reply: object, payload: ToolPayload) -> ModelReply:
    """Read a response.

    Raises:
        ReplyError: it failed, was canceled, or has not ended.
    """
    response = object_in(reply)
    if response.get("status") not in _ENDED_STATUS:
        raise error_in(response, f"a response with the status {response['status']!r}")
    items = objects_at(response, "output")
    reader = CallReader(payload, "openai", response, _tool_choice)
    is_cut = response.get("status") == "incomplete"
    echo, calls = reader.read(items, _request_in, _echo, is_cut=is_cut)
    repeated = tuple(map(_repeat, echo))
    found = tuple(_found(items))
    return ModelReply(echo=repeated, calls=calls, text=_text(items), found=found, is_final=not calls, is_cut=is_cut)


def _text(items: Sequence[JsonObject]) -> str:
    parts = [part for item in items if item.get("type") == "message" for part in objects_at(item, "content")]
    return "".join(str(part.get("text") or part.get("refusal") or "") for part in parts)


class ResponseAssembler:
    """Assembles a response from its events. A call is complete when its item is done."""

    def __init__(self) -> None:
        self.is_finished, self.complete = False, 0
        self._response: JsonObject = {}
        self._items: dict[int, JsonObject] = {}

    def add(self, event: object) -> str:
        """Add an event; return its text."""
        event = object_in(event)
        kind = str(event.get("type"))
        if kind in ("error", "response.failed") or not kind.startswith("response."):
            if kind == "keepalive":
                return ""
            raise error_in(object_in(event.get("response")) or event)
        if kind == "response.output_item.done":
            place = event.get("output_index")
            self._items[place if isinstance(place, int) else len(self._items)] = object_in(event.get("item"))
            while self.complete in self._items:
                self.complete += 1
        response = object_in(event.get("response"))
        if response:
            self._response = response
        if kind in _ENDED:
            self.is_finished = True
            self._items = self._items or dict(enumerate(objects_at(response, "output")))
            self.complete = len(self._items)
        is_text = kind in ("response.output_text.delta", "response.refusal.delta")
        return str(event.get("delta") or "") if is_text else ""

    def reply(self) -> JsonObject:
        """Return the response so far, without items that are not done."""
        done = sorted(self._items.items())
        output: list[Json] = [item for place, item in done if self.is_finished or place < self.complete]
        status = self._response.get("status") if self.is_finished else None
        return {**self._response, "object": "response", "status": status, "output": output}


assembler = ResponseAssembler


def _request_in(item: JsonObject) -> tuple[Json, Json, Json] | None:
    return (item.get("name"), item.get("arguments"), item.get("call_id")) if item.get("type") == _CALL else None


def write(outputs: Sequence[CallOutput]) -> list[JsonObject]:
    """Return one item per result; a result without media is plain text."""
    return [{"type": _RESULT, "call_id": each.requested.call_id, "output": _output(each)} for each in outputs]


def repair(items: Sequence[object]) -> list[object]:
    """Return a conversation in which every call has a result; a missing one is replaced by INTERRUPTED.

    A result without a call stays: the call may be in an earlier response that the request refers to.
    """
    found = [object_in(each) for each in items]
    turns = _turns(found)
    matches = match_results(_keyed(found, turns, _CALL), _keyed(found, turns, _RESULT))
    ends = {turn: place for place, turn in enumerate(turns)}
    places = [place for place, each in enumerate(found) if each.get("type") == _CALL]
    whole, missing = dict(enumerate(found)), dict[int, list[JsonObject]]()
    for place, call_id in zip(places, unique_ids([found[each].get("call_id") for each in places]), strict=True):
        whole[place] = _echo(found[place], call_id)
        result = matches.get((turns[place], place))
        if result is None:
            interrupted: JsonObject = {"type": _RESULT, "call_id": call_id, "output": INTERRUPTED}
            missing.setdefault(ends[turns[place]], []).append(interrupted)
        else:
            whole[result[1]] = {**found[result[1]], "call_id": call_id}
    repaired: list[object] = []
    for place, item in enumerate(items):
        repaired += [item if whole[place] == found[place] else whole[place], *missing.get(place, ())]
    return repaired


def _keyed(items: Sequence[JsonObject], turns: Sequence[int], item_type: str) -> Iterator[tuple[Position, str]]:
    for place, item in enumerate(items):
        if item.get("type") == item_type:
            yield (turns[place], place), match_key(item.get("call_id"))


def _turns(items: Sequence[JsonObject]) -> list[int]:
    """Number the turn of each item: a turn ends where its results end, and at every message."""
    turns: list[int] = []
    turn, is_answered = 0, False
    for item in items:
        item_type = item.get("type")
        is_message = item_type not in (_CALL, _RESULT, "reasoning")
        turn += is_message or (is_answered and item_type != _RESULT)
        is_answered = item_type == _RESULT
        turns.append(turn)
    return turns


def _tool(sent: PayloadTool) -> JsonObject:
    tool: JsonObject = {"type": "function", "name": sent.name, "description": sent.description}
    tool |= {"parameters": sent.schema, "strict": sent.is_strict}
    return {**tool, "defer_loading": True} if sent.tool.is_deferred else tool


def _echo(item: JsonObject, call_id: str) -> JsonObject:
    return {
        **_repeat(item),
        "call_id": call_id,
        "name": function_name_or_unknown(item.get("name")),
        "arguments": arguments_text(item.get("arguments")),
    }


def _repeat(item: JsonObject) -> JsonObject:
    return {key: value for key, value in item.items() if key not in _ONLY_IN_REPLIES}


def _found(items: Sequence[JsonObject]) -> list[str]:
    """Return the functions that a search has loaded, those in namespaces included."""
    outputs = [tool for each in items if each.get("type") == "tool_search_output" for tool in objects_at(each, "tools")]
    inner = [tool for each in outputs for tool in objects_at(each, "tools")]
    names = [each.get("name") for each in (*outputs, *inner) if each.get("type") == "function"]
    return [name for name in names if isinstance(name, str)]


def _output(output: CallOutput) -> Json:
    parts: list[Json] = [part for piece in output.pieces if (part := _part(piece)) is not None]
    return parts if output.media and parts else output.text


def _part(piece: str | Media) -> JsonObject | None:
    if isinstance(piece, str):
        return {"type": "input_text", "text": piece}
    if piece.media_type in IMAGES:
        return {"type": "input_image", "image_url": data_url(piece), "detail": "auto"}
    if piece.media_type == PDF:
        return {"type": "input_file", "filename": piece.name or "output.pdf", "file_data": data_url(piece)}
    return None
