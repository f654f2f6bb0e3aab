"""A model's reply, read from a provider's SDK objects or from plain JSON."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol, cast

from agenttool.adapters.function_calling.strict_schema import remove_placeholder_nulls
from agenttool.adapters.function_calling.tool_payload import ToolPayload
from agenttool.codec import json_bytes, parse_object
from agenttool.errors import ConfigError, RecordError, ReplyError
from agenttool.ports.calls import ToolCall
from agenttool.records import UNSET, FunctionMapping, Json, JsonObject, UnsetType

CUT_OFF = "the reply was cut off before this call was complete, and it was not run; ask again, with shorter arguments"
_IDENTITY = ("id", "response_id", "responseId", "created", "created_at", "create_time", "createTime")
"""The members of a reply that distinguish it from others, and that a stream has from its start."""

_MAX_NAMED = 6
UNKNOWN_FUNCTION = "unknown"
"""The name of a call without a name where the conversation must repeat it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedCall:
    """A call that a model requested: the provider's id and function name, and the call for the runtime.

    Attributes:
        came_with_id: the model's reply had an id for it, unique or not.
    """

    call_id: str
    came_with_id: bool
    function_name: str
    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """The content of a model's reply.

    Attributes:
        echo: the reply as the next request must repeat it.
        text: what the model wrote to the user.
        found: function names of deferred tools that the provider's native search has found.
        is_final: the reply has no calls, and the model does not expect to continue.
        is_cut: the provider ended the reply at a limit or a filter, so its text is not complete.
    """

    echo: tuple[JsonObject, ...]
    calls: tuple[RequestedCall, ...]
    text: str = ""
    found: tuple[str, ...] = ()
    is_final: bool = True
    is_cut: bool = False


class StreamAssembler(Protocol):
    """Assembles a reply from the events of its stream.

    Attributes:
        is_finished: the stream has said why the reply ended.
        complete: how many parts of the reply are complete; it grows with a call that can run.
    """

    is_finished: bool
    complete: int

    def add(self, event: object) -> str:
        """Add an event; return the text that it adds for the user.

        Raises:
            ReplyError: it is an error, or no event of this format.
        """
        ...

    def reply(self) -> JsonObject:
        """Return the reply so far, without calls that are not complete."""
        ...


def object_in(value: object, *, as_json: bool = True) -> JsonObject:
    """Convert an SDK object or mapping into a dictionary, with bytes if not `as_json`; else return an empty one."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        value = dump(mode="json" if as_json else "python", exclude_none=True, by_alias=as_json, warnings=False)
    return dict(cast("Mapping[str, Json]", value)) if isinstance(value, Mapping) else {}


def objects_at(value: JsonObject, key: str, *, as_json: bool = True) -> list[JsonObject]:
    """Return the non-empty objects of the list at a key."""
    found = value.get(key)
    objects = (object_in(each, as_json=as_json) for each in found) if isinstance(found, list | tuple) else ()
    return [each for each in objects if each]


def error_in(document: JsonObject, what: str | None = None) -> ReplyError:
    """Return the exception for a document that is no usable reply or event, with the message of the provider.

    Args:
        document: what was received.
        what: what it is; by default an error if it has one, else its type or its members.
    """
    given = document.get("error")
    error = object_in(given) or (document if document.get("type") == "error" else {})
    message = error.get("message") or (given if isinstance(given, str) else None)
    if what is None:
        members = ", ".join(sorted(map(str, document))[:_MAX_NAMED]) or "no members"
        kind = f"an object of the type {document['type']!r}" if "type" in document else f"an object with {members}"
        what = "an error" if given or error else kind
    return ReplyError(f"received {what}: {message}" if message else f"received {what}")


def function_name_or_unknown(name: Json) -> str:
    """Return a function name that an API accepts in a repeated call."""
    return name if isinstance(name, str) and name else UNKNOWN_FUNCTION


def arguments_text(arguments: Json) -> str:
    """Return arguments as the JSON text that an API accepts in a repeated call; empty if they are neither."""
    if isinstance(arguments, dict):
        return json_bytes(arguments).decode()
    return arguments if isinstance(arguments, str) else ""


@dataclass(slots=True)
class CallReader:
    """Reads the calls of one reply. Every call gets a unique id, and a malformed one affects no other."""

    payload: ToolPayload
    provider: str
    reply: JsonObject
    choose: Callable[[ToolPayload], Json]
    tool_choice: Json | UnsetType = field(init=False, default=UNSET)
    seen: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        """Record the tool choice of the request; it stays unset if there is none or if it could not be sent."""
        with suppress(ConfigError):
            choice = self.choose(self.payload)
            self.tool_choice = UNSET if choice is None else choice

    def read(
        self,
        parts: Sequence[JsonObject],
        request_in: Callable[[JsonObject], tuple[Json, Json, Json] | None],
        echo: Callable[[JsonObject, str], JsonObject],
        *,
        is_cut: bool,
    ) -> tuple[list[JsonObject], tuple[RequestedCall, ...]]:
        """Return the parts as the next request repeats them, and the calls among them, malformed ones included.

        Args:
            parts: the parts of the reply.
            request_in: the name, the arguments and the id of the call in a part; None for any other part.
            echo: a part with a call, and the unique id of the call, in a form that the API accepts.
            is_cut: the reply was cut off in its last part.
        """
        repeated, calls = list[JsonObject](), list[RequestedCall]()
        for part in parts:
            request = request_in(part)
            if request is None:
                repeated.append(part)
                continue
            is_incomplete = (is_cut and part is parts[-1]) or part.get("status") == "incomplete"
            calls.append(self._call(*request, fault=CUT_OFF if is_incomplete else None))
            repeated.append(echo(part, calls[-1].call_id))
        return repeated, tuple(calls)

    def _call(self, name: Json, arguments: Json, call_id: Json, *, fault: str | None) -> RequestedCall:
        own_id, called = self._unique_id(call_id, name, arguments), name if isinstance(name, str) else ""
        sent = self.payload.tools.get(called)
        mapping = FunctionMapping(
            provider=self.provider,
            tool_call_id=own_id,
            function_name=called,
            tool_choice=self.tool_choice,
            parallel_tool_calls=self.payload.options.parallel_tool_calls,
            strict=sent is not None and sent.is_strict,
            defer_loading=sent is not None and sent.tool.is_deferred,
        )
        given = {} if isinstance(arguments, str) and not arguments.strip() else arguments  # a blank means no arguments
        if sent is not None and sent.null_is_absent:
            with suppress(RecursionError):  # nested too deeply; the runtime reports it
                given = _without_nulls(given, sent.tool.input_schema)
        call = ToolCall(
            name=called if sent is None else sent.tool.qualified_name,
            arguments=cast("JsonObject | str", given),
            native_call_id=own_id,
            mapping=mapping,
            fault=fault,
            shown=self.payload.shown,
        )
        return RequestedCall(call_id=own_id, came_with_id=bool(call_id), function_name=called, call=call)

    def _unique_id(self, given: Json, name: Json, arguments: Json) -> str:
        """Return the provider's id; replace one that is missing or already used in this reply."""
        call_id = given if isinstance(given, str) and given else ""
        if not call_id or call_id in self.seen:
            identity = [self.reply.get(key) for key in _IDENTITY]
            written = repr((identity, name, arguments)).encode(errors="replace")
            call_id = f"call_{hashlib.sha256(written).hexdigest()[:16]}_{len(self.seen)}"
        self.seen.add(call_id)
        return call_id


def _without_nulls(arguments: Json, schema: JsonObject) -> Json:
    """Remove the placeholder nulls of strict mode; text that is no JSON object is returned unchanged."""
    if not isinstance(arguments, str):
        return remove_placeholder_nulls(arguments, schema, schema)
    try:
        read = parse_object(arguments.encode(), what="arguments")
    except (RecordError, UnicodeError):
        return arguments
    whole = remove_placeholder_nulls(read, schema, schema)
    return arguments if whole is read else json_bytes(cast("JsonObject", whole)).decode()
