"""Every message of the Reactive Agent Protocol, validated when it is read and when it is made, for both sides.

A message is one JSON object in UTF-8. Unknown members are ignored, duplicate members are rejected, and `null` is the
absence of an optional member. What a type cannot express, such as an index within its list, a message checks when it is
made. So neither side can send what the other must reject.

A manifest is valid as a whole or not at all. Names, descriptions, schemas and the endpoint decide (RAP-146 to
RAP-151). Annotations and display scripts are hints: an invalid one is ignored.
"""

import binascii
import json
import re
from collections import Counter
from functools import cache
from typing import Annotated, TypeVar, cast, get_origin
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from agenttool.codec import (
    SHALLOW,
    check_syntax,
    is_too_deep,
    json_bytes,
    located,
    object_of,
    repeated_name,
)
from agenttool.errors import RecordError
from agenttool.records import Json, JsonObject
from agenttool.schema.compile import compile_schema
from agenttool.schema.explain import pointer_of

_M = TypeVar("_M")

MAX_PROMPT_CHARS, MAX_CHOICES = 10_000, 100
"""The longest prompt or label, and the most labels, that a person can be asked to read."""

_MEDIA_TYPE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(?:\s*;.*)?", re.ASCII)
_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_HINT_TYPES = {"requiresAuth": str, "readOnly": bool, "destructive": bool, "idempotent": bool, "longRunning": bool}

_Named = Annotated[str, Meta(min_length=1)]
_ToolName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{1,128}\Z")]
_Ancestors = Annotated[tuple[str, ...], Meta(max_length=100)]

_encoder = msgspec.json.Encoder()
_MAX_QUOTED = 300
_QUOTE = ord('"')
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[,\[{]', re.DOTALL)
_LARGE, _MAX_PARTS = 1_000_000, 250_000
"""A message above this size may have this many members and items, because each costs far more than a byte of text."""


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message, or an object within one. Absent and default members are not written."""


def read(data: bytes, kind: type[_M]) -> _M:
    """Return the message of a given type.

    Raises:
        RecordError: it is not JSON in UTF-8, not an object, or does not fit; the pointer says where.
    """
    try:
        message = cast("_M", _decoder(kind).decode(data))
    except msgspec.ValidationError as error:
        check_syntax(data, what="a message")
        raise _explained(error) from None
    except RecursionError:
        raise RecordError("a message must not be nested too deeply; flatten it") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = "some of the bytes are not UTF-8" if isinstance(error, UnicodeDecodeError) else error
        raise RecordError(f"a message must be one JSON object in UTF-8: {reason}; repair it") from None
    _reject_ambiguous(data)
    return message


def write(message: Message) -> bytes:
    """Return the bytes of a message; a lone surrogate, which UTF-8 cannot encode, becomes a question mark.

    Raises:
        RecordError: it contains a value that JSON cannot express, such as an infinite number.
    """
    for name in _open_members(type(message)):
        json_bytes(cast("Json", getattr(message, name)))
    try:
        return _encoder.encode(message)
    except UnicodeEncodeError:
        plain = json.dumps(msgspec.to_builtins(message), ensure_ascii=False)
        return plain.encode(errors="replace")


@cache
def _decoder(kind: type[object]) -> "msgspec.json.Decoder[object]":
    return msgspec.json.Decoder(kind)


@cache
def _open_members(kind: type[Message]) -> tuple[str, ...]:
    """Return the members that accept any object, and so may contain values that are not JSON."""
    return tuple(field.name for field in msgspec.structs.fields(kind) if get_origin(field.type) is dict)


def _reject_ambiguous(data: bytes) -> None:
    """Reject duplicate members, nesting that only some parsers can read, and large messages of too many parts."""
    if len(data) > _LARGE and _has_too_many_parts(data):
        raise RecordError(f"a message of this size has at most {_MAX_PARTS} members and items; send them as a text")
    try:
        # An unknown member may have a number of any size, and texts that the typed decoder has not read.
        message = cast("JsonObject", json.loads(data.decode(), parse_int=str))
    except UnicodeDecodeError:
        raise RecordError("a message must be UTF-8, and some of the bytes are not; re-encode them") from None
    except RecursionError:
        raise RecordError("a message must not be nested too deeply; flatten it") from None
    if len(data) > SHALLOW and is_too_deep(message):
        raise RecordError("a message must not be nested too deeply; flatten it")
    if (name := repeated_name(data, message)) is not None:
        raise RecordError(f"a member may occur only once, got {name[:_MAX_QUOTED]!r} twice; leave one out")


def _has_too_many_parts(data: bytes) -> bool:
    """Return whether a valid document has too many members and items; stops counting at the limit."""
    parts = 0
    for token in _TOKEN.finditer(data):
        parts += data[token.start()] != _QUOTE
        if parts > _MAX_PARTS:
            return True
    return False


def _explained(error: msgspec.ValidationError) -> RecordError:
    """Return the library's error with our wording and a JSON pointer."""
    message, steps = located(error)
    missing = re.search(r"missing required field `([^`]+)`", message)
    if missing:
        return RecordError(f"a member {missing[1]!r} is required; add it", pointer=pointer_of([*steps, missing[1]]))
    message = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in message[:_MAX_QUOTED])
    advice = "" if ";" in message else "; see the message's fields"
    return RecordError(f"{message}{advice}", pointer=pointer_of(steps))


class ToolDefinition(Message, frozen=True, kw_only=True):
    """One tool of a toolset. Its description, annotations and script are untrusted."""

    name: _ToolName
    description: str
    input_schema: JsonObject = field(name="inputSchema")
    annotations: Json = None
    display_script: Json = field(name="displayScript", default=None)

    @property
    def hints(self) -> JsonObject:
        """The annotations, if they are an object."""
        return object_of(self.annotations)

    @property
    def invalid_hints(self) -> tuple[str, ...]:
        """The hints whose type is not the protocol's; other keys may have any value."""
        invalid = [name for name, kind in _HINT_TYPES.items() if not isinstance(self.hints.get(name), kind | None)]
        if self.annotations is not None and not isinstance(self.annotations, dict):
            invalid.append("annotations")
        if not isinstance(self.display_script, str | None):
            invalid.append("displayScript")
        return tuple(invalid)


class Manifest(Message, frozen=True, kw_only=True):
    """The tools of a server, and where its invocations go."""

    name: Annotated[str, Meta(min_length=1, max_length=128)]
    description: str | None = None
    endpoint: str
    needs_migration: bool = field(name="needsMigration", default=False)
    tools: Annotated[tuple[ToolDefinition, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        """Reject an endpoint that cannot be posted to, and tools that share a name."""
        if not _is_http_url(self.endpoint):
            raise ValueError("endpoint must be an absolute http or https URL; write it in full")
        duplicates = [name for name, count in Counter(tool.name for tool in self.tools).items() if count > 1]
        if duplicates:
            raise ValueError(f"tools must have names of their own, got {duplicates[0]!r} twice; rename one")


def read_manifest(data: bytes) -> Manifest:
    """Return a manifest whose schemas all compile.

    Raises:
        RecordError: anything in it is invalid, so that none of its tools may be offered; the pointer says where.
    """
    manifest = read(data, Manifest)
    for index, tool in enumerate(manifest.tools):
        try:
            compile_schema(tool.input_schema)
        except RecordError as error:
            pointer = f"/tools/{index}/inputSchema"
            raise RecordError(f"inputSchema of tool {tool.name!r} is {error}", pointer=pointer) from error
    return manifest


def _is_http_url(url: str) -> bool:
    """Return whether a request could go there; `urlsplit` alone would drop line ends and accept port 0."""
    if not _PRINTABLE.fullmatch(url):
        return False
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
        )
    except ValueError:
        return False


class Invocation(Message, frozen=True, kw_only=True):
    """A call that a runtime asks for. `null` and absence of `call_id`, `thread_ancestors` and `user_id` are alike.

    Attributes:
        thread_ancestors: root first and parent last, without the thread itself; None or empty for a root thread. Their
            number is limited, because a provider stores each.
    """

    operation: _Named
    arguments: JsonObject
    id: _Named
    call_id: str | None = None
    callback_url: _Named
    group_id: _Named
    thread_ancestors: _Ancestors | None = None
    user_id: str | None = None


class ReturnAddress(Message, frozen=True, kw_only=True):
    """The members of a malformed invocation that an error result needs; without them the request is rejected."""

    callback_url: _Named
    group_id: _Named
    id: _Named
    call_id: Json = None

    @property
    def echo(self) -> str | None:
        """The `call_id` to return, if it is a text."""
        return self.call_id if isinstance(self.call_id, str) else None


class TextItem(Message, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """Text that the model reads."""

    text: str


class ImageItem(Message, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """An image that the model sees: standard base64 without line breaks, and its MIME type."""

    data: str
    media_type: Annotated[str, Meta(min_length=1)] = field(name="mediaType")

    def __post_init__(self) -> None:
        """Reject data or a type that is not an image on the wire."""
        _check_image(self.data, self.media_type)


ContentItem = TextItem | ImageItem
"""An item of `content`; an item of another type makes its message invalid."""


class Segment(Message, frozen=True, kw_only=True):
    """A part of `display_as`, for people only. A segment of an unknown type is preserved and may be skipped."""

    type: str
    content: Json | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Check the content of the three known types."""
        match self.type:
            case "text":
                if not isinstance(self.content, str):
                    raise TypeError("content of a text segment must be text; write a string")
            case "diff":
                _string_members(self.content, "path", "patch")
            case "image":
                data, media_type = _string_members(self.content, "data", "mediaType")
                _check_image(data, media_type)
            case _:
                pass

    @property
    def is_known(self) -> bool:
        """Whether the segment has one of the three known types."""
        return self.type in ("text", "diff", "image")


def display_text(text: str) -> Segment:
    """Return a segment that shows a short text, usually one line; the last segment should be one."""
    return Segment(type="text", content=text)


def display_diff(path: str, patch: str) -> Segment:
    """Return a segment that shows a unified diff."""
    return Segment(type="diff", content={"path": path, "patch": patch})


def display_image(data: str, media_type: str) -> Segment:
    """Return a segment that shows an image in base64; a text segment should follow it."""
    return Segment(type="image", content={"data": data, "mediaType": media_type})


def _string_members(content: Json | UnsetType, *names: str) -> list[str]:
    members = object_of(content)
    for name in names:
        if not isinstance(members.get(name), str):
            raise TypeError(f"content must be an object with the texts {' and '.join(map(repr, names))}; add {name!r}")
    return [cast("str", members[name]) for name in names]


def _check_image(data: str, media_type: str) -> None:
    if not _MEDIA_TYPE.fullmatch(media_type):
        raise ValueError("mediaType must be a MIME type; write one such as 'image/png'")
    try:
        binascii.a2b_base64(data, strict_mode=True)
    except ValueError:  # binascii.Error is a ValueError
        raise ValueError(
            "data must be standard base64; leave out line breaks, the URL-safe alphabet and 'data:'"
        ) from None


class _Callback(Message, frozen=True, kw_only=True, tag_field="type"):
    """A message that a tool posts to a `callback_url`; each repeats the thread of its call."""

    group_id: str


class _CallCallback(_Callback, frozen=True, kw_only=True):
    """A callback about a pending call; `call_id` echoes the invocation's, also if it is empty."""

    id: str
    call_id: str | None = None


class ToolResultMessage(_CallCallback, frozen=True, kw_only=True, tag="tool_result"):
    """The outcome of a call, success or failure; it settles the call.

    `content` takes precedence over `text`. An empty `content` counts as absent, an empty `text` does not.
    """

    text: str | None = None
    content: tuple[ContentItem, ...] | None = None
    display_as: tuple[Segment, ...] | None = None
    subscription: bool | None = False

    def __post_init__(self) -> None:
        """Reject a result that has neither."""
        if self.text is None and not self.content:
            raise ValueError("a tool_result must have 'text' or a 'content' that is not empty; add one")


class SubscriptionEvent(_Callback, frozen=True, kw_only=True, tag="subscription_event"):
    """One event of a subscription; it has no id of its own, so equal events are two events."""

    tool_call_id: str
    text: str
    associative: bool = False
    final: bool | None = False


class OAuth(_CallCallback, frozen=True, kw_only=True, tag="oauth"):
    """The user must authorize first; the call stays pending. The receiver decides whether the URL may be shown."""

    auth_url: Annotated[str, Meta(min_length=1)]


class UserChoice(_CallCallback, frozen=True, kw_only=True, tag="user_choice"):
    """The user must choose first; the call stays pending."""

    prompt: Annotated[str, Meta(max_length=MAX_PROMPT_CHARS)]
    choices: Annotated[
        tuple[Annotated[str, Meta(max_length=MAX_PROMPT_CHARS)], ...], Meta(min_length=1, max_length=MAX_CHOICES)
    ]
    default: Annotated[int, Meta(ge=0)]
    response_url: Annotated[str, Meta(min_length=1)]

    def __post_init__(self) -> None:
        """Reject a default that is not one of the choices, because guessing one could mean "yes"."""
        if self.default >= len(self.choices):
            raise ValueError(f"default must be below {len(self.choices)}, the number of choices; take one of them")


class ViewUpdate(_Callback, frozen=True, kw_only=True, tag="view_update"):
    """The new content of a view of a thread; an empty object clears it. Models never see it."""

    view_type: str
    content: JsonObject


Callback = ToolResultMessage | SubscriptionEvent | OAuth | UserChoice | ViewUpdate


def read_callback(data: bytes) -> Callback:
    """Return a callback of the type that it names.

    Raises:
        RecordError: it names no known type, or does not fit it; the pointer says where.
    """
    return cast("Callback", read(data, cast("type[object]", Callback)))


class Selection(Message, frozen=True, kw_only=True):
    """The user's choice as an index into the choices; posted to the `response_url`."""

    id: str
    selected: Annotated[int, Meta(ge=0)]


class CloseThread(Message, frozen=True, kw_only=True):
    """The notice that a thread closed; `thread_id` is the `group_id` of its calls."""

    thread_id: str


class CancelToolCall(Message, frozen=True, kw_only=True):
    """The notice that a call, or the subscription that it opened, is canceled."""

    thread_id: str
    tool_call_id: str


class Migrate(Message, frozen=True, kw_only=True):
    """The request to move a session, which is a root thread with all below it, to another host of the same server."""

    session_id: str
    destination_url: str
