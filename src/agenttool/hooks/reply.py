"""The reply of a hook, validated strictly, because a misread reply could allow a call."""

from dataclasses import dataclass, fields
from typing import cast

from agenttool.codec import json_bytes, parse_object
from agenttool.errors import RecordError
from agenttool.records import Behavior, HookEvent, HookOutput, HookOutputKind, Json, JsonObject
from agenttool.records.record import UNSET, UnsetType
from agenttool.schema.explain import pointer_of


@dataclass(frozen=True, slots=True, kw_only=True)
class HookReply:
    """The seven outputs of a hook (AT-HOOK-04 to AT-HOOK-10); most hooks return none."""

    message: str | None = None
    progress: str | None = None
    updated_input: JsonObject | None = None
    permission_result: Behavior | None = None
    permission_reason: str | None = None
    additional_context: tuple[JsonObject, ...] = ()
    stop: str | None = None
    updated_output: Json | UnsetType = UNSET

    def outputs(self) -> tuple[HookOutput, ...]:
        """Return the reply as items of a hook record, without the values of inputs and outputs."""
        said = [
            (HookOutputKind.MESSAGE, self.message),
            (HookOutputKind.PROGRESS, self.progress),
            (HookOutputKind.UPDATED_INPUT, None if self.updated_input is None else "input replaced"),
            (HookOutputKind.PERMISSION_RESULT, self.permission_result and str(self.permission_result)),
            (
                HookOutputKind.ADDITIONAL_CONTEXT,
                f"{len(self.additional_context)} items" if self.additional_context else None,
            ),
            (HookOutputKind.STOP, self.stop),
            (HookOutputKind.UPDATED_OUTPUT, None if self.updated_output is UNSET else "output replaced"),
        ]
        return tuple(HookOutput(type=kind, message=text) for kind, text in said if text is not None)


SILENT = HookReply()

_MEMBERS = {field.name for field in fields(HookReply)}


_MEANT_AT = {
    "updated_input": (HookEvent.PRE_TOOL_USE,),
    "permission_result": (HookEvent.PRE_TOOL_USE, HookEvent.PERMISSION_REQUEST),
    "updated_output": (HookEvent.POST_TOOL_USE,),
}
"""The events at which three of the outputs have an effect; the others have one at every event."""


def read_reply(answer: object, event: HookEvent) -> HookReply:
    """Validate the return value of a hook for its event.

    A member without effect at this event is rejected, because its author expects an effect.

    Raises:
        RecordError: it is not a reply; the message names the member, but not its value.
    """
    reply = _read(answer)
    for name, places in _MEANT_AT.items():
        if event not in places and getattr(reply, name) is not getattr(SILENT, name):
            raise RecordError(f"{name} does nothing at {event}; say it at {' or '.join(places)}", pointer=f"/{name}")
    return reply


def _read(answer: object) -> HookReply:
    if answer is None:
        return SILENT
    if isinstance(answer, HookReply):
        return _checked({name: getattr(answer, name) for name in _MEMBERS})
    if not isinstance(answer, dict):
        raise RecordError(f"a hook answers with nothing or an object, got {type(answer).__name__}; return a HookReply")
    said = cast("dict[object, object]", answer)
    for name in said:
        if name not in _MEMBERS:
            known = ", ".join(sorted(_MEMBERS))
            raise RecordError(f"a hook's answer has no member {name!r}; use {known}", pointer=pointer_of((str(name),)))
    return _checked(cast("dict[str, object]", said))


def _checked(said: dict[str, object]) -> HookReply:
    hint, updated = said.get("permission_result"), said.get("updated_input")
    if hint is not None and hint not in list(Behavior):
        raise _misfit(f"one of {', '.join(Behavior)}", hint, "permission_result")
    context = said.get("additional_context")
    if not isinstance(context, list | tuple | None):
        raise _misfit("a list of objects", context, "additional_context")
    items = enumerate(cast("list[object]", context or ()))
    return HookReply(
        message=_text(said, "message"),
        progress=_text(said, "progress"),
        updated_input=None if updated is None else _object(updated, "updated_input"),
        permission_result=Behavior(cast("str", hint)) if hint is not None else None,
        permission_reason=_text(said, "permission_reason"),
        additional_context=tuple(_object(item, "additional_context", place) for place, item in items),
        stop=_text(said, "stop"),
        updated_output=cast("Json | UnsetType", said.get("updated_output", UNSET)),
    )


def _text(said: dict[str, object], name: str) -> str | None:
    text = said.get(name)
    if not isinstance(text, str | None):
        raise _misfit("text", text, name)
    if text is not None and not text.isascii() and text.encode(errors="replace").decode() != text:
        raise RecordError(f"{name} holds half of a surrogate pair; replace it", pointer=pointer_of((name,)))
    return text


def _object(value: object, *path: str | int) -> JsonObject:
    """Return a copy of a JSON object, so that later changes of the original have no effect."""
    if not isinstance(value, dict):
        raise _misfit("an object", value, *path)
    try:
        return parse_object(json_bytes(cast("JsonObject", value)))
    except RecordError as error:
        raise RecordError(f"{_named(path)} is {error}", pointer=pointer_of(path)) from error


def _misfit(expected: str, got: object, *path: str | int) -> RecordError:
    """Return the error of a member without its value, which may be sensitive."""
    message = f"{_named(path)} must be {expected}, got {type(got).__name__}; correct it or leave it out"
    return RecordError(message, pointer=pointer_of(path))


def _named(path: tuple[str | int, ...]) -> str:
    return "/".join(map(str, path))


def changed_fields(before: JsonObject, after: JsonObject) -> tuple[str, ...]:
    """Return the deepest JSON pointers at which two objects differ; a missing member is a difference."""
    return tuple(_differences(before, after, ()))


def _differences(before: Json, after: Json, path: tuple[str, ...]) -> list[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        found: list[str] = []
        for name in sorted(before.keys() | after.keys()):
            if name in before and name in after:
                found += _differences(before[name], after[name], (*path, name))
            else:
                found.append(pointer_of((*path, name)))
        return found
    return [] if _same(before, after) else [pointer_of(path)]


def _same(before: Json, after: Json) -> bool:
    """Return whether two values are equal in JSON: true differs from 1, but 1 equals 1.0."""
    return before == after and isinstance(before, bool) == isinstance(after, bool)
