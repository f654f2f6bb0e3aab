"""A model's reply, read from a provider's SDK objects or from plain JSON."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, cast

from agenttool.codec import json_bytes, parse_object, repeated_name
from agenttool.errors import RecordError, ReplyError
from agenttool.ports.calls import ToolCall
from agenttool.records import Json, JsonObject

HALVES = re.compile("[\ud800-\udfff]")
_MAX_NAMED = 6


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
        """Return the reply so far, without calls that are not complete.

        Raises:
            ReplyError: a piece of the stream belongs to no call, or to more than one.
        """
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
        what = "an error" if given or error else f"an object {kind_in(document)}"
    return ReplyError(f"received {what}: {message}" if message else f"received {what}")


def kind_in(document: JsonObject) -> str:
    """Describe a document by its type, or by its members if it has none."""
    members = ", ".join(sorted(map(str, document))[:_MAX_NAMED]) or "no members"
    return f"of the type {document['type']!r}" if "type" in document else f"with {members}"


_CONSTANT = frozenset({"id", "index", "name", "role", "type"})
"""The members that no stream sends in pieces; some servers repeat them in each piece."""


def joined(before: Json, piece: Json, key: str = "") -> Json:
    """Return a value of a streamed reply with its next piece: texts and lists grow, and objects grow by member."""
    if not before or piece is None or key in _CONSTANT:
        return before or piece
    match before, piece:
        case str(), str():
            return before + piece
        case list(), list():
            return [*before, *piece]
        case dict(), dict():
            return {name: joined(before.get(name), piece.get(name), name) for name in (before | piece)}
        case _:
            return piece


def whole_characters(value: Json, *, is_lossy: bool) -> Json:
    """Join the halves of surrogate pairs, which some servers send in two pieces, in all texts of a value.

    A half that stays alone cannot be sent in a request. It is replaced if `is_lossy`.
    """
    if isinstance(value, str):
        if value.isascii() or not HALVES.search(value):
            return value
        errors = "replace" if is_lossy else "surrogatepass"
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", errors)
    if isinstance(value, dict):
        members = {key: whole_characters(each, is_lossy=is_lossy) for key, each in value.items()}
        return {str(whole_characters(key, is_lossy=is_lossy)): each for key, each in members.items()}
    return [whole_characters(each, is_lossy=is_lossy) for each in value] if isinstance(value, list) else value


def function_name_or_unknown(name: Json) -> str:
    """Return a function name that an API accepts in a repeated call."""
    return name if isinstance(name, str) and name else "unknown"


def arguments_text(arguments: Json) -> str:
    """Return arguments as the JSON text that an API accepts in a repeated call; empty if they are neither."""
    if isinstance(arguments, dict):
        return json_bytes(arguments).decode()
    return arguments if isinstance(arguments, str) else ""


def arguments_object(arguments: Json) -> JsonObject | None:
    """Return arguments as an object; None if they are neither an object nor the complete JSON text of one."""
    if not isinstance(arguments, str):
        return arguments if isinstance(arguments, dict) else None
    try:
        data = arguments.encode()
        parsed = parse_object(data, what="arguments")
    except (RecordError, UnicodeError):
        return None
    return parsed if repeated_name(data, parsed) is None else None


def unassigned(what: str) -> ReplyError:
    """Return the exception for a stream whose pieces cannot be assigned to its calls."""
    return ReplyError(f"the stream has {what}; request no stream from this server, or correct the server")


def index_in(piece: JsonObject, key: str = "index") -> Json:
    """Return the index that identifies the call or block of a streamed piece; None if the piece has none.

    Raises:
        ReplyError: it is a list or an object.
    """
    index = piece.get(key)
    if isinstance(index, list | dict):
        raise unassigned(f"a piece at the index {index!r}, which is no number")
    return index


def is_blank(arguments: Json) -> bool:
    """Return whether arguments are a blank text, which means no arguments in a complete call."""
    return isinstance(arguments, str) and not arguments.strip()
