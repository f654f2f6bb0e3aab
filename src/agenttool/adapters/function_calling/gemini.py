"""The Gemini API, `generate_content`, of Google."""

from collections.abc import Mapping, Sequence
from typing import cast

from agenttool.adapters.function_calling.choice import as_sent, chosen_name
from agenttool.adapters.function_calling.content import INTERRUPTED, Answer
from agenttool.adapters.function_calling.gemini_schema import documented
from agenttool.adapters.function_calling.menu import Limits, Menu, ShownTool
from agenttool.adapters.function_calling.reply import CUT_OFF, AskedCall, CallReader, Reply, plain
from agenttool.adapters.function_calling.settling import Shape, known_by, settle_parts
from agenttool.ports.output import Media
from agenttool.records import Json, JsonObject

LIMITS = Limits(max_tools=128)

UNKNOWN = "unknown"
"""What a call without a name is called where it must be repeated."""

_SHOWN = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf"})
_CUT = ("MAX_TOKENS",)
_UNREADABLE = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL")


def request(menu: Menu) -> JsonObject:
    """Give the members of `config` that are about tools; calls are ours to run, not the SDK's."""
    tools: list[Json] = [_tool(each) for each in menu.shown.values()]
    if not tools:
        return {}
    config: JsonObject = {
        "tools": [{"function_declarations": tools}],
        "automatic_function_calling": {"disable": True},
    }
    choice = tool_choice(menu)
    return config if choice is None else {**config, "tool_config": {"function_calling_config": choice}}


def tool_choice(menu: Menu) -> JsonObject | None:
    """Spell the choice.

    Raises:
        ConfigError: it names no tool that is sent, or several.
    """
    match menu.wishes.tool_choice:
        case None:
            return None
        case "auto" | "none" as word:
            return {"mode": word.upper()}
        case "required":
            return {"mode": "ANY"}
        case _:
            return {"mode": "ANY", "allowed_function_names": [chosen_name(menu)]}


def read(reply: object, menu: Menu) -> Reply:
    """Read the first candidate of a response."""
    response = _object(reply)
    candidate = (_objects(response, "candidates") or [_object(None)])[0]
    content = _object(candidate.get("content"))
    parts = _objects(content, "parts")
    reason = _word(_member(candidate, "finish_reason"))
    reader = CallReader(menu, "gemini", response, as_sent(tool_choice, menu))
    asked = [_object(_member(part, "function_call")) for part in parts]
    calls = [
        reader.read(
            each.get("name"),
            each.get("args", {}),
            each.get("id"),
            fault=CUT_OFF if reason in _CUT and each is asked[-1] else None,
        )
        for each in asked
        if each
    ]
    if not parts and reason in _UNREADABLE:
        return Reply(echo=(_said_in_vain(candidate),), calls=(), is_final=False)
    ids = iter(calls)
    repeated: list[Json] = [_echo(part, next(ids)) if call else part for part, call in zip(parts, asked, strict=True)]
    echo: JsonObject = {**content, "role": "model", "parts": repeated}
    return Reply(echo=(echo,) if parts else (), calls=tuple(calls), is_final=not calls)


def write(answers: Sequence[Answer]) -> list[JsonObject]:
    """Put all results into one content, in the order of the calls."""
    return _as_content([_response(each) for each in answers])


def settle(contents: Sequence[object]) -> list[object]:
    """Give a conversation in which every call has a result; those that had none were interrupted."""
    return settle_parts(contents, _SHAPE)


def _parts(content: object) -> list[JsonObject]:
    return _objects(_object(content), "parts")


def _call_in(part: JsonObject) -> JsonObject:
    return _object(_member(part, "function_call"))


def _known_by(call: JsonObject) -> str | None:
    """Not every call has an id; one without is known by its name."""
    return (known_by(call["id"]) if call.get("id") else known_by(None, _name_in(call))) if call else None


def _loosely(part: JsonObject) -> str | None:
    """A result that came without an id, as the SDK makes them, is that of the next call of its name."""
    response = _object(_member(part, "function_response"))
    return known_by(_name_in(response or _call_in(part))) if not response.get("id") else None


def _name_in(call: JsonObject) -> str:
    """Give the name of a call or a result; one that is none would have the whole conversation refused."""
    name = call.get("name")
    return name if isinstance(name, str) and name else UNKNOWN


def _mended(part: JsonObject, own_id: str) -> JsonObject:
    """Repeat a call so that the API takes it; one that came without an id has none."""
    call = _call_in(part)
    is_whole = call.get("id") in (None, own_id) and isinstance(call.get("args", {}), dict)
    is_whole = is_whole and call.get("name") == _name_in(call)
    return part if is_whole else _repeated(part, own_id if call.get("id") else None)


def _answering(part: JsonObject, call: JsonObject) -> JsonObject:
    response, call_id = _object(_member(part, "function_response")), _call_in(call).get("id")
    if response.get("id") == call_id and response.get("name") == _name_in(_call_in(call)):
        return part
    own = {} if call_id is None else {"id": call_id}
    return {"function_response": {**response, **own, "name": _name_in(_call_in(call))}}


def _tool(shown: ShownTool) -> JsonObject:
    return {
        "name": shown.name,
        "description": shown.description,
        "parameters_json_schema": documented(shown.schema),
    }


def _echo(part: JsonObject, asked: AskedCall) -> JsonObject:
    """Repeat a part so that the API takes it; but for an id that two calls share, nothing that fits is changed."""
    return _repeated(part, asked.call_id if asked.came_with_id else None)


def _repeated(part: JsonObject, call_id: str | None) -> JsonObject:
    call = _call_in(part)
    args: Json = call.get("args")
    whole = {key: value for key, value in call.items() if key != "id"}
    whole |= {"name": _name_in(call), "args": args if isinstance(args, dict) else {}}
    whole |= {} if call_id is None else {"id": call_id}
    others = {key: value for key, value in part.items() if key not in ("function_call", "functionCall")}
    return {**others, "function_call": whole}


def _response(answer: Answer) -> JsonObject:
    said: JsonObject = {"error" if answer.is_error else "output": answer.text}
    shown: list[Json] = [_blob(each) for each in answer.media if _is_shown(each)]
    call_id = answer.asked.call_id if answer.asked.came_with_id else None
    return _part_of({"id": call_id, "name": answer.asked.function_name}, said, shown)


def _blob(media: Media) -> JsonObject:
    return {"inline_data": {"mime_type": media.media_type, "data": cast("Json", media.data)}}


def _is_shown(media: Media) -> bool:
    return media.media_type in _SHOWN or (media.media_type or "").startswith(("audio/", "video/"))


def _part_of(call: JsonObject, said: JsonObject, shown: list[Json] | None = None) -> JsonObject:
    response: JsonObject = {"id": call["id"]} if call.get("id") else {}
    response |= {"name": _name_in(call), "response": said}
    if shown:
        response["parts"] = shown
    return {"function_response": response}


def _as_content(parts: list[Json]) -> list[JsonObject]:
    return [{"role": "user", "parts": parts}] if parts else []


def _said_in_vain(candidate: JsonObject) -> JsonObject:
    why = _member(candidate, "finish_message")
    told = f"The last function call could not be read{f': {why}' if isinstance(why, str) else ''}. Make it again."
    return {"role": "user", "parts": [{"text": told}]}


def _object(value: object) -> JsonObject:
    """Take an object in whatever form it comes, with its bytes as bytes: they must go back as they came."""
    found = plain(value, as_json=False)
    return dict(cast("Mapping[str, Json]", found)) if isinstance(found, Mapping) else {}


def _objects(value: JsonObject, key: str) -> list[JsonObject]:
    found = value.get(key)
    return [_object(each) for each in found] if isinstance(found, list) else []


def _member(value: JsonObject, key: str) -> Json:
    """Find a member under its name here or on the wire, where it is written in camel case."""
    head, *tail = key.split("_")
    return value.get(key, value.get(head + "".join(map(str.capitalize, tail))))


def _word(value: object) -> str:
    """Read a word that may have come as a member of an enum."""
    return str(getattr(value, "value", value) or "")


_SHAPE = Shape(
    parts=_parts,
    call=lambda part: _known_by(_call_in(part)),
    result=lambda part: _known_by(_object(_member(part, "function_response"))),
    id_of=lambda part: _call_in(part).get("id"),
    mended=_mended,
    answering=_answering,
    interrupted=lambda part: _part_of(_call_in(part), {"error": INTERRUPTED}),
    is_reply=lambda content: _object(content).get("role") != "model",
    rewritten=lambda content, parts: {**_object(content), "parts": parts},
    reply=lambda parts: {"role": "user", "parts": parts},
    loosely=_loosely,
)
