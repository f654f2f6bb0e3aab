"""The reply of a hook, validated strictly, because a misread reply could allow a call."""

from typing import Annotated, cast

from agenttool.codec import json_bytes, parse_object
from agenttool.config.table import Meta, TableError, members_of, read_table
from agenttool.errors import RecordError
from agenttool.records import Behavior, HookEvent, HookOutput, HookOutputKind, Json, JsonObject, Part
from agenttool.records.record import UNSET
from agenttool.schema.explain import pointer_of

_ADVICE = "correct it or leave it out"
_Words = Annotated[str, Meta(description=f"text; {_ADVICE}")]


class HookReply(Part, frozen=True, kw_only=True):
    """The seven outputs of a hook (AT-HOOK-04 to AT-HOOK-10); most hooks return none."""

    message: _Words | None = None
    progress: _Words | None = None
    updated_input: Annotated[JsonObject, Meta(description=f"an object; {_ADVICE}")] | None = None
    permission_result: Annotated[Behavior, Meta(description=f"one of {', '.join(Behavior)}; {_ADVICE}")] | None = None
    permission_reason: _Words | None = None
    additional_context: Annotated[tuple[JsonObject, ...], Meta(description=f"a list of objects; {_ADVICE}")] = ()
    stop: _Words | None = None
    updated_output: Annotated[object, Meta(description="any output; leave it out")] = UNSET

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
    if answer is None:
        return SILENT
    reply = _read(answer)
    for name, places in _MEANT_AT.items():
        if event not in places and getattr(reply, name) is not getattr(SILENT, name):
            raise RecordError(f"{name} does nothing at {event}; say it at {' or '.join(places)}", pointer=f"/{name}")
    return reply


def _read(answer: object) -> HookReply:
    """Return a copy of the reply, so that later changes of the original have no effect."""
    said = members_of(answer) if isinstance(answer, HookReply) else answer
    if not isinstance(said, dict):
        raise RecordError(f"a hook answers with nothing or an object, got {type(answer).__name__}; return a HookReply")
    own: JsonObject = {}
    for name, value in cast("JsonObject", said).items():
        try:
            own |= {name: value} if name == "updated_output" else parse_object(json_bytes({name: value}))
        except RecordError as error:
            raise RecordError(f"{name} is {error}", pointer=pointer_of((name,))) from error
    try:
        return read_table(own, HookReply, "a hook's answer", shows_values=False)
    except TableError as error:
        raise RecordError(str(error), pointer=pointer_of((str(error.key),))) from error


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
    # In JSON true differs from 1, but 1 equals 1.0.
    is_same = before == after and isinstance(before, bool) == isinstance(after, bool)
    return [] if is_same else [pointer_of(path)]
