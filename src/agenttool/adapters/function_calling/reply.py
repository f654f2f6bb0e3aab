"""What a model answered, read from a provider's own objects or from plain JSON, whichever comes."""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

from agenttool.adapters.function_calling.menu import Menu
from agenttool.adapters.function_calling.restore import restored
from agenttool.codec import json_bytes, parse_object
from agenttool.errors import RecordError
from agenttool.ports.calls import ToolCall
from agenttool.records import UNSET, FunctionMapping, Json, JsonObject, UnsetType

CUT_OFF = "the reply was cut off before this call was complete, and it was not run; ask again, with shorter arguments"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCall:
    """A call that a model asked for: the id and the name that its provider knows it by, and what is asked of us.

    Attributes:
        came_with_id: the model's own words had an id, be it one that another call has, too.
    """

    call_id: str
    came_with_id: bool
    function_name: str
    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A model's answer.

    Attributes:
        echo: the answer itself, as the next request must repeat it.
        found: the provider's names of deferred tools that its own search has found.
        is_final: there is nothing to answer, and the model does not want to go on.
    """

    echo: tuple[JsonObject, ...]
    calls: tuple[AskedCall, ...]
    found: tuple[str, ...] = ()
    is_final: bool = True


def plain(value: object, *, as_json: bool = True) -> object:
    """Give a provider's object as plain data; what is plain already stays as it is."""
    dump = getattr(value, "model_dump", None)
    if not callable(dump):
        return value
    dumped: object = dump(mode="json" if as_json else "python", exclude_none=True, by_alias=as_json, warnings=False)
    return dumped


def object_in(value: object) -> JsonObject:
    """Take an object, in whatever form it comes; an empty one for anything else."""
    found = plain(value)
    return dict(cast("Mapping[str, Json]", found)) if isinstance(found, Mapping) else {}


def objects_at(value: JsonObject, key: str) -> list[JsonObject]:
    """Take the objects of a list that is a member of an object; they, too, come in whatever form."""
    found = value.get(key)
    objects = map(object_in, found) if isinstance(found, list | tuple) else ()
    return [each for each in objects if each]


@dataclass(slots=True)
class CallReader:
    """Reads the calls of one reply: each gets an id of its own, and whatever is wrong with it stays its own affair."""

    menu: Menu
    provider: str
    reply: JsonObject
    tool_choice: Json | UnsetType = UNSET
    seen: set[str] = field(default_factory=set[str])

    def read(self, name: Json, arguments: Json, call_id: Json, *, fault: str | None = None) -> AskedCall:
        """Make a call of what a model wrote; it cannot fail, because a call that makes no sense has a result, too."""
        own_id, called = self._own_id(call_id), name if isinstance(name, str) else ""
        shown = self.menu.shown.get(called)
        mapping = FunctionMapping(
            provider=self.provider,
            tool_call_id=own_id,
            function_name=called,
            tool_choice=self.tool_choice,
            parallel_tool_calls=self.menu.wishes.parallel_tool_calls,
            strict=shown is not None and shown.is_strict,
            defer_loading=shown is not None and shown.tool.is_deferred,
        )
        given = {} if isinstance(arguments, str) and not arguments.strip() else arguments  # so models spell "none"
        if shown is not None and shown.null_is_absent:
            with suppress(RecursionError):  # nested too deeply, which the runtime says better
                given = _as_declared(given, shown.tool.input_schema)
        call = ToolCall(
            name=called if shown is None else shown.tool.qualified_name,
            arguments=cast("JsonObject | str", given),
            native_call_id=own_id,
            mapping=mapping,
            fault=fault,
            shown=self.menu.told,
        )
        return AskedCall(call_id=own_id, came_with_id=bool(call_id), function_name=called, call=call)

    def _own_id(self, given: Json) -> str:
        """Keep the provider's id; one that is missing, or that another call has, is replaced by one that nobody has."""
        call_id = given if isinstance(given, str) and given else ""
        if not call_id or call_id in self.seen:
            written = repr(sorted(self.reply.items(), key=str)).encode(errors="replace")
            call_id = f"call_{hashlib.sha256(written).hexdigest()[:16]}_{len(self.seen)}"
        self.seen.add(call_id)
        return call_id


def _as_declared(arguments: Json, schema: JsonObject) -> Json:
    """Undo what a strict schema does to optional members; text that cannot be read stays for the runtime to refuse."""
    if not isinstance(arguments, str):
        return restored(arguments, schema, schema)
    try:
        read = parse_object(arguments.encode(), what="arguments")
    except (RecordError, UnicodeError):
        return arguments
    whole = restored(read, schema, schema)
    return arguments if whole is read else json_bytes(cast("JsonObject", whole)).decode()
