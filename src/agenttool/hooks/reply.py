"""What a hook may say, and how its words are read: strictly, because a misread word could let something through."""

from dataclasses import dataclass, fields
from typing import cast

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

_STRINGS = ("message", "progress", "stop", "permission_reason")
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
    for name in _STRINGS:
        if not isinstance(said.get(name), str | None):
            raise TypeError(f"{name} must be text; got {type(said[name]).__name__}")
    updated = said.get("updated_input")
    if not isinstance(updated, dict | None):
        raise TypeError(f"updated_input must be an object; got {type(updated).__name__}")
    context = said.get("additional_context", ())
    if not isinstance(context, list | tuple):
        raise TypeError(f"additional_context must be a list of objects; got {type(context).__name__}")
    hint = said.get("permission_result")
    if hint is not None and hint not in list(Behavior):
        raise ValueError(f"permission_result must be one of {', '.join(Behavior)}; got something else")
    return HookReply(
        message=cast("str | None", said.get("message")),
        progress=cast("str | None", said.get("progress")),
        updated_input=cast("JsonObject | None", updated),
        permission_result=Behavior(cast("str", hint)) if hint is not None else None,
        permission_reason=cast("str | None", said.get("permission_reason")),
        additional_context=tuple(cast("list[JsonObject]", context)),
        stop=cast("str | None", said.get("stop")),
        updated_output=cast("Json | UnsetType", said.get("updated_output", UNSET)),
    )
