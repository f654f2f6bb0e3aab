"""Replies of models as each provider writes them, for testing an agent loop without a model.

`replies.json` has the templates of each provider; a text such as `$name` in it stands for a value of the reply.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple, TypeAlias, cast

import msgspec

from agenttool.codec import json_bytes
from agenttool.errors import ConfigError
from agenttool.records import Json, JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """A call that a model asks for; arguments as text are passed on as they are, be they JSON or not."""

    name: str
    arguments: JsonObject | str
    call_id: str | None = None


_PartEvents: TypeAlias = tuple[list[JsonObject], JsonObject | None, list[JsonObject]]
"""The templates of the events before the pieces of a text or a call, of each piece, and after them."""


class _Templates(msgspec.Struct, frozen=True):
    """The templates of one provider."""

    reasons: dict[str, str | None]
    reply: JsonObject
    text: JsonObject
    call: JsonObject
    start: list[JsonObject]
    text_events: _PartEvents
    call_events: _PartEvents
    end: list[JsonObject]


class _Part(NamedTuple):
    """A text or a call of a reply: its JSON, the templates of its events, and the values for them."""

    item: Json
    events: _PartEvents
    values: JsonObject


def reply(provider: str, *calls: ModelCall, text: str = "", cut_off: bool = False) -> JsonObject:
    """Write the reply of a model in the JSON of its provider.

    Raises:
        ConfigError: there is no such format.
    """
    templates = _templates(provider)
    parts = _parts(templates, calls, text, cut_off=cut_off)
    return _filled(templates.reply, _values(templates, parts, text, cut_off=cut_off))


def stream(provider: str, *calls: ModelCall, text: str = "", cut_off: bool = False) -> list[JsonObject]:
    """Write the events of a stream in the JSON of its provider, with texts and arguments in several pieces.

    Raises:
        ConfigError: there is no such format.
    """
    templates = _templates(provider)
    parts = _parts(templates, calls, text, cut_off=cut_off)
    values = _values(templates, parts, text, cut_off=cut_off)
    nothing: JsonObject = {**values, "items": [], "reason": templates.reasons["start"]}
    values |= {"whole": _filled(templates.reply, values), "empty": _filled(templates.reply, nothing)}
    found = [(each, values) for each in templates.start]
    for index, part in enumerate(parts):
        own: JsonObject = {**part.values, "item": part.item, "index": index}
        written = "" if provider == "anthropic" and own.get("arguments") == {} else str(own["written"])
        before, piece, after = part.events
        found += [(each, own) for each in before]
        found += [(piece, {**own, "piece": each}) for each in _pieces(written) if piece is not None]
        found += [(each, own) for each in after]
    found += [(each, values) for each in templates.end]
    return [_filled(template, {**own, "number": number}) for number, (template, own) in enumerate(found)]


def _parts(templates: _Templates, calls: Sequence[ModelCall], text: str, *, cut_off: bool) -> list[_Part]:
    found = [_part(templates.text, templates.text_events, {"text": text, "written": text})] if text else []
    for place, each in enumerate(calls):
        values: JsonObject = {
            "name": each.name,
            "arguments": each.arguments,
            "written": each.arguments if isinstance(each.arguments, str) else json_bytes(each.arguments).decode(),
            "call_id": each.call_id,
            "call_index": place,
            "item_id": f"fc_{place}",
            "item_status": "incomplete" if cut_off and each is calls[-1] else "completed",
        }
        found.append(_part(templates.call, templates.call_events, values))
    return found


def _part(template: JsonObject, events: _PartEvents, values: JsonObject) -> _Part:
    return _Part(_filled(template, values), events, values)


def _values(templates: _Templates, parts: Sequence[_Part], text: str, *, cut_off: bool) -> JsonObject:
    """Return the values for the template of a reply."""
    calls: list[Json] = [each.item for each in parts if "name" in each.values]
    reason = templates.reasons["cut_off" if cut_off else "calls" if calls else "end"]
    items: list[Json] = [each.item for each in parts]
    return {
        "text": text or None,
        "items": items,
        "calls": calls or None,
        "reason": reason,
        "type": f"response.{reason}",
    }


@cache
def _all_templates() -> dict[str, _Templates]:
    text = files("agenttool.testing").joinpath("replies.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, _Templates])


def _templates(provider: str) -> _Templates:
    found = _all_templates().get(provider)
    if found is None:
        raise ConfigError(f"no format is called {provider!r}; use one that `tools_for` takes")
    return found


def _filled(template: JsonObject, values: JsonObject) -> JsonObject:
    """Return a template with its values; a member `name?` is left out if its value is null."""

    def fill(part: Json) -> Json:
        if isinstance(part, dict):
            made = {key: fill(each) for key, each in part.items()}
            return {key.rstrip("?"): each for key, each in made.items() if each is not None or not key.endswith("?")}
        if isinstance(part, list):
            return [*map(fill, part)]
        return values[part[1:]] if isinstance(part, str) and part.startswith("$") else part

    return cast("JsonObject", fill(template))


def _pieces(text: str) -> list[str]:
    """Cut a text into two pieces; an empty one has none."""
    middle = len(text) // 2 or 1
    return [piece for piece in (text[:middle], text[middle:]) if piece]
