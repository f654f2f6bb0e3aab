"""The Responses API of OpenAI."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import cast

from agenttool.adapters.function_calling.call_output import IMAGES, PDF, CallOutput, data_url
from agenttool.adapters.function_calling.model_reply import (
    ModelReply,
    arguments_object,
    arguments_text,
    error_in,
    function_name_or_unknown,
    index_in,
    object_in,
    objects_at,
    unassigned,
)
from agenttool.adapters.function_calling.provider_format import CallReader, ProviderFormat, match_key
from agenttool.adapters.function_calling.strict_schema import OPENAI
from agenttool.adapters.function_calling.tool_payload import PayloadTool, ProviderLimits, ToolPayload, chosen_name
from agenttool.ports.output import Media
from agenttool.records import Json, JsonObject

_CALL, _RESULT = "function_call", "function_call_output"
_ONLY_IN_REPLIES = ("parsed_arguments", "created_by")
_RUN_BY_PROVIDER = frozenset(
    {
        "additional_tools",
        "code_interpreter_call",
        "compaction",
        "file_search_call",
        "image_generation_call",
        "mcp_approval_response",
        "mcp_call",
        "mcp_list_tools",
        "message",
        "program",
        "reasoning",
        "web_search_call",
    }
)
_ENDED = ("response.completed", "response.incomplete")
_ARGUMENTS = "response.function_call_arguments."
_ENDED_STATUS = (None, "completed", "incomplete")


def _tool_choice(payload: ToolPayload) -> Json:
    name = chosen_name(payload)
    return payload.options.tool_choice if name is None else {"type": "function", "name": name}


def _recognizes(reply: JsonObject) -> bool:
    """Return whether this is a response."""
    return isinstance(reply.get("output"), list) and reply.get("object", "response") == "response"


def _read(response: JsonObject, reader: CallReader) -> ModelReply:
    """Read a response.

    Raises:
        ReplyError: it failed, was canceled, or has not ended, or it has an item that only the program can answer.
    """
    if response.get("status") not in _ENDED_STATUS:
        raise error_in(response, f"a response with the status {response['status']!r}")
    items = _distinct(objects_at(response, "output"))
    is_cut = response.get("status") == "incomplete"
    echo, calls = reader.read(items, is_cut=is_cut)
    repeated = tuple(map(_repeat, echo))
    found = tuple(_found(items))
    return ModelReply(echo=repeated, calls=calls, text=_text(items), found=found, is_final=not calls, is_cut=is_cut)


def _text(items: Sequence[JsonObject]) -> str:
    parts = [part for item in items if item.get("type") == "message" for part in objects_at(item, "content")]
    return "".join(str(part.get("text") or part.get("refusal") or "") for part in parts)


class ResponseAssembler:
    """Assembles a response from its events.

    A call is complete when its item is done and has arguments. Any other call is complete with the response. The items
    of the response replace those of the stream. They match by id, because their indexes and order may differ.
    """

    def __init__(self) -> None:
        self.is_finished, self.complete = False, 0
        self._response: JsonObject = {}
        self._items: dict[int, JsonObject] = {}
        self._added: set[Json] = set()
        self._argued: set[Json] = set()

    def add(self, event: object) -> str:
        """Add an event; return its text."""
        event = object_in(event)
        kind = str(event.get("type"))
        if kind in ("error", "response.failed") or not kind.startswith("response."):
            if kind == "keepalive":
                return ""
            raise error_in(object_in(event.get("response")) or event)
        if kind == "response.output_item.done":
            self._add_done(index_in(event, "output_index"), object_in(event.get("item")))
        elif kind == "response.output_item.added" and object_in(event.get("item")).get("type") == _CALL:
            self._added.add(index_in(event, "output_index"))
        elif kind.startswith(_ARGUMENTS) and str(event.get("arguments") or event.get("delta") or "").strip():
            self._argued.add(index_in(event, "output_index"))
        response = object_in(event.get("response"))
        if response:
            self._response = response
        if kind in _ENDED:
            self.is_finished = True
            self._add_output(objects_at(response, "output"))
        is_text = kind in ("response.output_text.delta", "response.refusal.delta")
        return str(event.get("delta") or "") if is_text else ""

    def _add_done(self, index: Json, item: JsonObject) -> None:
        place = _place_of(item, self._items, _ids)
        if place is not None:
            self._replace(place, item)
        else:
            new = max(self._items, default=-1) + 1
            self._items[index if isinstance(index, int) and index not in self._items else new] = item
        while self.complete in self._items and _is_complete(self._items[self.complete]):
            self.complete += 1

    def _replace(self, place: int, item: JsonObject) -> None:
        """Replace an item by a later form, unless that lacks arguments or repeats a call that may have started."""
        is_repeated = place < self.complete and _content(self._items[place]) == _content(item)
        if not _lacks_arguments(item) and not is_repeated:
            self._items[place] = item

    def _add_output(self, output: Sequence[JsonObject]) -> None:
        """Merge the items of the whole response by id; if the server changes ids, by content."""
        left, unmatched = dict(enumerate(output)), sorted(self._items)
        for key_of in (_ids, _identity, _content):
            for place in tuple(unmatched):
                same = _place_of(self._items[place], left, key_of)
                if same is not None:
                    self._replace(place, left.pop(same))
                    unmatched.remove(place)
        done = [(place, False, item) for place, item in self._items.items()]
        others = [(max(place, self.complete), True, item) for place, item in left.items()]
        ordered = sorted((*done, *others), key=itemgetter(0, 1))
        self._items = {place: item for place, (_, _, item) in enumerate(ordered)}

    def reply(self) -> JsonObject:
        """Return the response so far, without items that are not complete.

        Raises:
            ReplyError: the stream has sent a call or arguments that the response does not contain.
        """
        done = sorted(self._items.items())
        output = [item for place, item in done if self.is_finished or place < self.complete]
        status = self._response.get("status") if self.is_finished else None
        calls = [item for item in output if item.get("type") == _CALL]
        argued = [item for item in calls if not _lacks_arguments(item)]
        is_lost = len(self._added) > len(calls) or len(self._argued) > len(argued)
        if self.is_finished and is_lost and status != "incomplete":
            raise unassigned("arguments of a call that the complete response lacks")
        return {**self._response, "object": "response", "status": status, "output": [*output]}


def _place_of(item: JsonObject, items: Mapping[int, JsonObject], key_of: Callable[[JsonObject], object]) -> int | None:
    """Return the place of the first item with the same key; a key of None matches no item."""
    key = key_of(item)
    return next((place for place, each in items.items() if key is not None and key_of(each) == key), None)


def _distinct(items: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the items without repetitions, so that a call that a server lists twice runs once."""
    found: dict[int, JsonObject] = {}
    for item in items:
        if _place_of(item, found, lambda each: _identity(each) and (_identity(each), _content(each))) is None:
            found[len(found)] = item
    return [*found.values()]


def _ids(item: JsonObject) -> str | None:
    return _identity(item) and match_key(item.get("type"), item.get("id"), item.get("call_id"))


def _identity(item: JsonObject) -> str | None:
    own = item.get("call_id") or item.get("id")
    return match_key(item.get("type"), own) if own else None


def _content(item: JsonObject) -> JsonObject:
    """Return an item without the members that may differ between its forms in a stream."""
    content = {key: value for key, value in item.items() if key not in ("id", "call_id", "status")}
    if item.get("type") == "message":
        content["content"] = _text([item])
    parsed = arguments_object(item.get("arguments"))
    return content if parsed is None else {**content, "arguments": parsed}


def _lacks_arguments(item: JsonObject) -> bool:
    return item.get("type") == _CALL and not arguments_text(item.get("arguments")).strip()


def _is_complete(item: JsonObject) -> bool:
    """Return whether an item that is done is complete; a call needs arguments and an id."""
    is_ended = item.get("status") in (None, "completed") and _identity(item) is not None
    return item.get("type") != _CALL or (is_ended and not _lacks_arguments(item))


def _request_in(item: JsonObject) -> tuple[Json, Json, Json] | None:
    return (item.get("name"), item.get("arguments"), item.get("call_id")) if item.get("type") == _CALL else None


def _needs_no_answer(item: JsonObject) -> bool:
    """Return whether an item belongs to no tool, or to one that the provider has run."""
    match item.get("type"):
        case "tool_search_call":
            return item.get("execution") != "client"
        case "shell_call":
            return object_in(item.get("environment")).get("type") == "container_reference"
        case kind:
            return str(kind) in _RUN_BY_PROVIDER or str(kind).endswith("_output")


def _write(outputs: Sequence[CallOutput]) -> list[JsonObject]:
    """Return one item per result; a result without media is plain text."""
    return [{"type": _RESULT, "call_id": each.requested.call_id, "output": _output(each)} for each in outputs]


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


class ResponsesFormat(ProviderFormat):
    """The format of a conversation without messages: its items are repaired in turns."""

    def repair(self, messages: Sequence[object], /) -> list[object]:
        """Return a conversation in which every call has a result; see `ProviderFormat.repair`.

        A result without a call stays: the call may be in an earlier response that the request refers to.
        """
        found = [object_in(each) for each in messages]
        given = {id(part): item for part, item in zip(found, messages, strict=True)}
        grouped = groupby(zip(_turns(found), found, strict=True), itemgetter(0))
        turns = [{"role": self.reply_role, self.parts_in: [part for _, part in turn]} for _, turn in grouped]
        repaired = cast("list[dict[str, list[JsonObject]]]", super().repair(turns))
        return [given.get(id(part), part) for turn in repaired for part in turn[self.parts_in]]


FORMAT = ResponsesFormat(
    api="OpenAI Responses",
    provider="openai",
    limits=ProviderLimits(dialect=OPENAI, max_tools=128, max_description=1024, search_name="tool_search"),
    tool=_tool,
    search_tool={"type": "tool_search"},
    tool_choice=_tool_choice,
    recognizes=_recognizes,
    read_document=_read,
    assembler=ResponseAssembler,
    write=_write,
    request_in=_request_in,
    echo=_echo,
    needs_no_answer=_needs_no_answer,
    parts=lambda turn: cast("list[JsonObject]", turn["items"]),
    parts_in="items",
    result_key=lambda item: match_key(item.get("call_id")) if item.get("type") == _RESULT else None,
    result_for=lambda result, call: {**result, "call_id": call["call_id"]},
    drops_unmatched=False,
)
