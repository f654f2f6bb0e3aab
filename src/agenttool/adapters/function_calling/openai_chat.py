"""The Chat Completions API of OpenAI, which many other servers speak, too."""

from collections.abc import Sequence

from agenttool.adapters.function_calling.choice import as_sent, chosen_name
from agenttool.adapters.function_calling.content import INTERRUPTED, Answer, base64_of, data_url
from agenttool.adapters.function_calling.dialect import OPENAI
from agenttool.adapters.function_calling.menu import Limits, Menu, ShownTool
from agenttool.adapters.function_calling.reply import CUT_OFF, CallReader, Reply, object_in, objects_at
from agenttool.adapters.function_calling.settling import known_by, own_ids, pair
from agenttool.ports.output import Media
from agenttool.records import Json, JsonObject

LIMITS = Limits(dialect=OPENAI, max_tools=128, max_description=1024)

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_CUT = ("length", "content_filter")
_ONLY_IN_REPLIES = ("annotations", "parsed", "function_call", "audio", "tool_calls")


def request(menu: Menu) -> JsonObject:
    """Give the arguments of `chat.completions.create` that are about tools."""
    tools: list[Json] = [_tool(each) for each in menu.shown.values()]
    return {"tools": tools, **choices(menu, tool_choice(menu))} if tools else {}


def choices(menu: Menu, choice: Json) -> JsonObject:
    """Give what a request says about its tools, if it says anything."""
    said: JsonObject = {} if choice is None else {"tool_choice": choice}
    parallel = menu.wishes.parallel_tool_calls
    return said if parallel is None else {**said, "parallel_tool_calls": parallel}


def tool_choice(menu: Menu) -> Json:
    """Spell the choice.

    Raises:
        ConfigError: it names no tool that is sent, or several.
    """
    name = chosen_name(menu)
    return menu.wishes.tool_choice if name is None else {"type": "function", "function": {"name": name}}


def read(reply: object, menu: Menu) -> Reply:
    """Read a completion, or the message of one."""
    whole = object_in(reply)
    options = objects_at(whole, "choices")
    message = object_in(options[0].get("message")) if options else whole
    reader = CallReader(menu, "openai", whole, as_sent(tool_choice, menu))
    written = objects_at(message, "tool_calls")
    is_cut = bool(options) and options[0].get("finish_reason") in _CUT
    calls = [
        reader.read(*_asked(each), each.get("id"), fault=CUT_OFF if is_cut and each is written[-1] else None)
        for each in written
    ]
    echo: list[Json] = [_echo(each, asked.call_id) for each, asked in zip(written, calls, strict=True)]
    said: JsonObject = {key: value for key, value in message.items() if key not in _ONLY_IN_REPLIES}
    audio = object_in(message.get("audio")).get("id")
    said |= {"role": "assistant", "content": message.get("content")}
    if echo:
        said["tool_calls"] = echo
    if audio:
        said["audio"] = {"id": audio}
    is_silent = not echo and not audio and said["content"] is None and said.get("refusal") is None
    return Reply(echo=() if is_silent else (said,), calls=tuple(calls), is_final=not calls)


def write(answers: Sequence[Answer]) -> list[JsonObject]:
    """Give one message per result, and a last one with what these cannot hold: anything but text."""
    messages: list[JsonObject] = [
        {"role": "tool", "tool_call_id": each.asked.call_id, "content": each.text} for each in answers
    ]
    shown: list[Json] = []
    for answer in answers:
        parts = [part for media in answer.media for part in (_part(media),) if part is not None]
        if parts:
            shown.append({"type": "text", "text": f"Output of call {answer.asked.call_id}:"})
            shown.extend(parts)
    return [*messages, {"role": "user", "content": shown}] if shown else messages


def settle(messages: Sequence[object]) -> list[object]:
    """Give a conversation in which every call has a result; those that had none were interrupted.

    Results come right after their calls, where the API wants them; one without a call goes.
    """
    found = [object_in(each) for each in messages]
    asked = [objects_at(each, "tool_calls") for each in found]
    answers = pair(
        (((turn, at), known_by(call.get("id"))) for turn, each in enumerate(asked) for at, call in enumerate(each)),
        (
            ((turn, 0), known_by(each.get("tool_call_id")))
            for turn, each in enumerate(found)
            if each.get("role") == "tool"
        ),
    )
    unused = iter(own_ids([call.get("id") for each in asked for call in each]))
    settled: list[object] = []
    for turn, message in enumerate(messages):
        if found[turn].get("role") == "tool":
            continue
        ids = [next(unused) for _ in asked[turn]]
        echo: list[Json] = [_echo(call, call_id) for call, call_id in zip(asked[turn], ids, strict=True)]
        others = {key: value for key, value in found[turn].items() if key != "tool_calls"}
        is_whole = echo == found[turn].get("tool_calls", [])
        settled.append(message if is_whole else {**others, "tool_calls": echo} if echo else others)
        for place, call_id in enumerate(ids):
            answer = answers.get((turn, place))
            settled.append(_interrupted(call_id) if answer is None else {**found[answer[0]], "tool_call_id": call_id})
    return settled


def _tool(shown: ShownTool) -> JsonObject:
    function: JsonObject = {"name": shown.name, "description": shown.description, "parameters": shown.schema}
    return {"type": "function", "function": {**function, "strict": shown.is_strict}}


def _asked(written: JsonObject) -> tuple[Json, Json]:
    """Give the name and the arguments of a call, of whichever type the model took it to be."""
    function, custom = object_in(written.get("function")), object_in(written.get("custom"))
    return function.get("name", custom.get("name")), function.get("arguments", custom.get("input", ""))


def _echo(written: JsonObject, call_id: str) -> JsonObject:
    name, arguments = _asked(written)
    function: JsonObject = {
        "name": name if isinstance(name, str) and name else "unknown",
        "arguments": arguments if isinstance(arguments, str) else "",
    }
    return {"id": call_id, "type": "function", "function": function}


def _part(media: Media) -> JsonObject | None:
    if media.media_type in IMAGES:
        return {"type": "image_url", "image_url": {"url": data_url(media)}}
    if media.media_type in _SOUNDS:
        sound: JsonObject = {"data": base64_of(media), "format": _SOUNDS[media.media_type]}
        return {"type": "input_audio", "input_audio": sound}
    if media.media_type == "application/pdf":
        return {"type": "file", "file": {"filename": media.name or "output.pdf", "file_data": data_url(media)}}
    return None


def _interrupted(call_id: Json) -> JsonObject:
    return {"role": "tool", "tool_call_id": call_id, "content": INTERRUPTED}
