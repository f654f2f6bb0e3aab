"""The Responses API of OpenAI."""

from collections.abc import Iterator, Sequence

from agenttool.adapters.function_calling.choice import as_sent, chosen_name
from agenttool.adapters.function_calling.content import INTERRUPTED, Answer, data_url
from agenttool.adapters.function_calling.dialect import OPENAI
from agenttool.adapters.function_calling.menu import Limits, Menu, ShownTool
from agenttool.adapters.function_calling.openai_chat import IMAGES, choices
from agenttool.adapters.function_calling.reply import CUT_OFF, CallReader, Reply, object_in, objects_at
from agenttool.adapters.function_calling.settling import Place, known_by, own_ids, pair
from agenttool.ports.output import Media
from agenttool.records import Json, JsonObject

LIMITS = Limits(dialect=OPENAI, max_tools=128, max_description=1024, has_search=True, search_name="tool_search")

_CALL, _RESULT = "function_call", "function_call_output"
_ONLY_IN_REPLIES = ("parsed_arguments", "created_by")


def request(menu: Menu) -> JsonObject:
    """Give the arguments of `responses.create` that are about tools."""
    tools: list[Json] = [_tool(each) for each in menu.shown.values()]
    if menu.has_deferred:
        tools.append({"type": "tool_search"})
    return {"tools": tools, **choices(menu, tool_choice(menu))} if tools else {}


def tool_choice(menu: Menu) -> Json:
    """Spell the choice.

    Raises:
        ConfigError: it names no tool that is sent, or several.
    """
    name = chosen_name(menu)
    return menu.wishes.tool_choice if name is None else {"type": "function", "name": name}


def read(reply: object, menu: Menu) -> Reply:
    """Read a response."""
    response = object_in(reply)
    items = objects_at(response, "output")
    reader = CallReader(menu, "openai", response, as_sent(tool_choice, menu))
    is_cut = response.get("status") == "incomplete"
    calls = [
        reader.read(
            each.get("name"),
            each.get("arguments"),
            each.get("call_id"),
            fault=CUT_OFF if each.get("status") == "incomplete" or (is_cut and each is items[-1]) else None,
        )
        for each in items
        if each.get("type") == _CALL
    ]
    ids = iter(calls)
    echo = [_echo(each, next(ids).call_id) if each.get("type") == _CALL else _repeated(each) for each in items]
    return Reply(echo=tuple(echo), calls=tuple(calls), found=tuple(_found(items)), is_final=not calls)


def write(answers: Sequence[Answer]) -> list[JsonObject]:
    """Give one item per result; a result with nothing but text is plain text."""
    return [{"type": _RESULT, "call_id": each.asked.call_id, "output": _output(each)} for each in answers]


def settle(items: Sequence[object]) -> list[object]:
    """Give a conversation in which every call has a result; those that had none were interrupted.

    A result without a call stays: the call may be in an earlier response, which the request refers to.
    """
    found = [object_in(each) for each in items]
    turns = _turns(found)
    answers = pair(_keys(found, turns, _CALL), _keys(found, turns, _RESULT))
    ends = {turn: place for place, turn in enumerate(turns)}
    places = [place for place, each in enumerate(found) if each.get("type") == _CALL]
    whole, missing = dict(enumerate(found)), dict[int, list[JsonObject]]()
    for place, call_id in zip(places, own_ids([found[each].get("call_id") for each in places]), strict=True):
        whole[place] = _echo(found[place], call_id)
        answer = answers.get((turns[place], place))
        if answer is None:
            missing.setdefault(ends[turns[place]], []).append(_interrupted(call_id))
        else:
            whole[answer[1]] = {**found[answer[1]], "call_id": call_id}
    settled: list[object] = []
    for place, item in enumerate(items):
        settled += [item if whole[place] == found[place] else whole[place], *missing.get(place, ())]
    return settled


def _keys(items: Sequence[JsonObject], turns: Sequence[int], kind: str) -> Iterator[tuple[Place, str]]:
    for place, item in enumerate(items):
        if item.get("type") == kind:
            yield (turns[place], place), known_by(item.get("call_id"))


def _turns(items: Sequence[JsonObject]) -> list[int]:
    """Number the turns: one ends where results end, or where anybody says something."""
    turns: list[int] = []
    turn, is_answered = 0, False
    for item in items:
        kind = item.get("type")
        is_said = kind not in (_CALL, _RESULT, "reasoning")
        turn += is_said or (is_answered and kind != _RESULT)
        is_answered = kind == _RESULT
        turns.append(turn)
    return turns


def _tool(shown: ShownTool) -> JsonObject:
    tool: JsonObject = {"type": "function", "name": shown.name, "description": shown.description}
    tool |= {"parameters": shown.schema, "strict": shown.is_strict}
    return {**tool, "defer_loading": True} if shown.tool.is_deferred else tool


def _echo(item: JsonObject, call_id: str) -> JsonObject:
    name, arguments = item.get("name"), item.get("arguments")
    return {
        **_repeated(item),
        "call_id": call_id,
        "name": name if isinstance(name, str) and name else "unknown",
        "arguments": arguments if isinstance(arguments, str) else "",
    }


def _repeated(item: JsonObject) -> JsonObject:
    return {key: value for key, value in item.items() if key not in _ONLY_IN_REPLIES}


def _found(items: Sequence[JsonObject]) -> list[str]:
    """List the functions that a search has loaded, those inside of namespaces included."""
    outputs = [tool for each in items if each.get("type") == "tool_search_output" for tool in objects_at(each, "tools")]
    inner = [tool for each in outputs for tool in objects_at(each, "tools")]
    names = [each.get("name") for each in (*outputs, *inner) if each.get("type") == "function"]
    return [name for name in names if isinstance(name, str)]


def _output(answer: Answer) -> Json:
    parts: list[Json] = [part for piece in answer.pieces for part in (_part(piece),) if part is not None]
    return parts if answer.media and parts else answer.text


def _part(piece: str | Media) -> JsonObject | None:
    if isinstance(piece, str):
        return {"type": "input_text", "text": piece}
    if piece.media_type in IMAGES:
        return {"type": "input_image", "image_url": data_url(piece), "detail": "auto"}
    if piece.media_type == "application/pdf":
        return {"type": "input_file", "filename": piece.name or "output.pdf", "file_data": data_url(piece)}
    return None


def _interrupted(call_id: Json) -> JsonObject:
    return {"type": _RESULT, "call_id": call_id, "output": INTERRUPTED}
