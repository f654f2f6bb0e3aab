"""What a hook may say, and how its words are read: strictly, because a misread word could let something through."""

from dataclasses import dataclass, fields
from typing import cast

from agenttool.codec import json_bytes, parse_object
from agenttool.errors import RecordError
from agenttool.records import Behavior, HookOutput, HookOutputKind, Json, JsonObject
from agenttool.records.record import UNSET, UnsetType


@dataclass(frozen=True, slots=True, kw_only=True)
class HookReply:
    """The seven outputs of a hook (AT-HOOK-04 to AT-HOOK-10); saying nothing is the usual answer."""

    message: str | None = None
    progress: str | None = None
    updated_input: JsonObject | None = None
    permission_result: Behavior | None = None
    permission_reason: str | None = None
    additional_context: tuple[JsonObject, ...] = ()
    stop: str | None = None
    updated_output: Json | UnsetType = UNSET

    def outputs(self) -> tuple[HookOutput, ...]:
        """Tell the reply as the typed items of a hook record, values of inputs and outputs left out."""
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


def read_reply(answer: object) -> HookReply:
    """Read what a hook gave back.

    Raises:
        TypeError, ValueError: it is not a reply; the message names the member and what to do.
    """
    if answer is None:
        return SILENT
    if isinstance(answer, HookReply):
        return _checked({name: getattr(answer, name) for name in _MEMBERS})
    if not isinstance(answer, dict):
        raise TypeError(f"a hook answers with nothing or an object, got {type(answer).__name__}; return a HookReply")
    said = cast("dict[object, object]", answer)
    unknown = [repr(name) for name in said if name not in _MEMBERS]
    if unknown:
        raise ValueError(f"a hook's answer has no member {', '.join(unknown)}; use {', '.join(sorted(_MEMBERS))}")
    return _checked(cast("dict[str, object]", said))


def _checked(said: dict[str, object]) -> HookReply:
    context = said.get("additional_context", ())
    if not isinstance(context, list | tuple):
        raise TypeError(f"additional_context must be a list of objects; got {type(context).__name__}")
    hint = said.get("permission_result")
    if hint is not None and hint not in list(Behavior):
        raise ValueError(f"permission_result must be one of {', '.join(Behavior)}; got something else")
    updated = said.get("updated_input")
    items = enumerate(cast("list[object]", context))
    return HookReply(
        message=_text(said, "message"),
        progress=_text(said, "progress"),
        updated_input=None if updated is None else _object("updated_input", updated),
        permission_result=Behavior(cast("str", hint)) if hint is not None else None,
        permission_reason=_text(said, "permission_reason"),
        additional_context=tuple(_object(f"additional_context/{place}", item) for place, item in items),
        stop=_text(said, "stop"),
        updated_output=cast("Json | UnsetType", said.get("updated_output", UNSET)),
    )


def _text(said: dict[str, object], name: str) -> str | None:
    text = said.get(name)
    if not isinstance(text, str | None):
        raise TypeError(f"{name} must be text; got {type(text).__name__}")
    if text is not None and not text.isascii() and text.encode(errors="replace").decode() != text:
        raise ValueError(f"{name} holds half of a surrogate pair; replace it")
    return text


def _object(name: str, value: object) -> JsonObject:
    """Take a JSON object as our own copy: whoever gave it may keep theirs and change it."""
    if not isinstance(value, dict):
        raise TypeError(f"{name} must be an object; got {type(value).__name__}")
    try:
        return parse_object(json_bytes(cast("JsonObject", value)))
    except RecordError as error:
        raise ValueError(f"{name} is {error}") from error
