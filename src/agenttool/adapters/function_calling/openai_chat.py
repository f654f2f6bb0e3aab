"""The Chat Completions API of OpenAI, which many other servers speak, too."""

from collections.abc import Sequence

from agenttool.adapters.function_calling.content import INTERRUPTED, Answer, base64_of, data_url
from agenttool.adapters.function_calling.dialect import OPENAI
from agenttool.adapters.function_calling.menu import Limits, Menu, ShownTool
from agenttool.adapters.function_calling.reply import CallReader, Reply, name_of_choice, object_in, objects_at
from agenttool.errors import ConfigError
from agenttool.ports.output import Media
from agenttool.records import UNSET, Json, JsonObject

LIMITS = Limits(dialect=OPENAI, max_tools=128, max_description=1024)

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
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
        ConfigError: it names a tool that is not sent.
    """
    name = chosen_name(menu)
    return menu.wishes.tool_choice if name is None else {"type": "function", "function": {"name": name}}


def chosen_name(menu: Menu) -> str | None:
    """Give the name of the tool that must be called; none if the choice is one of the words, or nothing.

    Raises:
        ConfigError: it names a tool that is not sent.
    """
    wish = menu.wishes.tool_choice
    if wish in (None, "auto", "none", "required"):
        return None
    name = name_of_choice(menu, wish)
    if name is None:
        raise ConfigError(f"tool_choice names {wish!r}, which is not sent; name a tool of the surface")
    return name


def read(reply: object, menu: Menu) -> Reply:
    """Read a completion, or the message of one."""
    whole = object_in(reply)
    options = objects_at(whole, "choices")
    message = object_in(options[0].get("message")) if options else whole
    sent = tool_choice(menu)
    reader = CallReader(menu, "openai", whole, UNSET if sent is None else sent)
    written = objects_at(message, "tool_calls")
    calls = [reader.read(*_asked(each), each.get("id")) for each in written]
    echo: list[Json] = [_echo(each, asked.call_id) for each, asked in zip(written, calls, strict=True)]
    said: JsonObject = {key: value for key, value in message.items() if key not in _ONLY_IN_REPLIES}
    audio = object_in(message.get("audio")).get("id")
    said |= {"role": "assistant", "content": message.get("content")}
    if echo:
        said["tool_calls"] = echo
    if audio:
        said["audio"] = {"id": audio}
    is_silent = not echo and not audio and said["content"] is None and "refusal" not in said
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
    """Give a conversation in which every call has a result; those that had none were interrupted."""
    settled: list[object] = []
    open_ids: list[Json] = []
    for message in messages:
        found = object_in(message)
        if found.get("role") == "tool":
            open_ids = [each for each in open_ids if each != found.get("tool_call_id")]
        else:
            settled += map(_interrupted, open_ids)
            open_ids = [each.get("id") for each in objects_at(found, "tool_calls")]
        settled.append(message)
    return [*settled, *map(_interrupted, open_ids)]


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
