"""What a tool may return or raise, and the messages that results and events become."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from agenttool.adapters.rap import wire
from agenttool.adapters.rap.subscriptions import MAX_EVENT_CHARS
from agenttool.adapters.rap.translate import ERROR_PREFIX
from agenttool.adapters.rap.wire import Segment
from agenttool.codec import json_bytes
from agenttool.errors import ToolFailure
from agenttool.rap.tables import NewCall, Subscriber
from agenttool.records import ErrorClass, ToolError
from agenttool.results.jsonable import to_jsonable
from agenttool.results.messages import clean_message


class Declined(ToolFailure):
    """Raise this with a message for the caller; it becomes the error result, so say what could be done instead."""

    def __init__(self, message: str) -> None:
        super().__init__(ToolError(error_class=ErrorClass.EXECUTION_FAILED, message=message))


@dataclass(frozen=True, slots=True)
class DescribedImage:
    """An image for the model, and the text that precedes it."""

    data: bytes
    media_type: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A result that is more than one value.

    Attributes:
        parts: texts and images for the model, in order.
        display_as: what people are shown instead, from the richest to the simplest; leave it out for short texts.
    """

    parts: Sequence[str | DescribedImage]
    display_as: Sequence[Segment] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed:
    """Return this to open a subscription: each event published on the topic becomes an event of this call."""

    topic: str
    text: str | None = None
    lasts_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of a subscription.

    Attributes:
        value: text, or data that is sent as JSON.
        associative: whether it belongs into the subscriber's own conversation, and not into a new one.
        final: whether it is the last.
        bookmark: where to continue after a restart; stored together with the event.
    """

    value: object
    associative: bool = False
    final: bool = False
    bookmark: str | None = None


def result_message(call: NewCall, value: object) -> bytes:
    """Return the result message of a successful call.

    Raises:
        ToolFailure: the value cannot be sent.
    """
    if isinstance(value, DescribedImage):
        value = Result(parts=(value,))
    if not isinstance(value, Result):
        return _result(call, text_of(value))
    try:
        content = tuple(item for part in value.parts for item in _items(part))
        shown = tuple(value.display_as) or None
        message = wire.ToolResultMessage(
            group_id=call.thread, id=call.id, call_id=call.call_id, content=content, display_as=shown
        )
        return wire.write(message)
    except (TypeError, ValueError) as error:
        raise Declined("the result of this tool cannot be sent; contact its operator") from error


def confirmation_message(call: NewCall, text: str | None) -> bytes:
    """Return the result that confirms a subscription, with the id that cancels it."""
    return _result(call, f"{text or 'Subscribed.'} Subscription id: {call.id}", subscription=True)


def error_message(call: NewCall, message: str) -> bytes:
    """Return the result of a failed call."""
    return _result(call, ERROR_PREFIX + clean_message(message).removeprefix(ERROR_PREFIX))


def too_large_message(result: bytes) -> bytes:
    """Return the result that replaces one that its runtime rejected for its size."""
    text = f"{ERROR_PREFIX}the tool did its work, but its result of {len(result)} bytes is too large; ask for less"
    return wire.write(
        msgspec.structs.replace(wire.read(result, wire.ToolResultMessage), text=text, content=None, display_as=None)
    )


def _result(call: NewCall, text: str, *, subscription: bool = False) -> bytes:
    message = wire.ToolResultMessage(
        group_id=call.thread, id=call.id, call_id=call.call_id, text=text, subscription=subscription
    )
    return wire.write(message)


def event_message(to: Subscriber, event: Event) -> bytes:
    """Return the message of an event for a subscriber.

    Raises:
        ToolFailure: its value cannot be sent, or is longer than a runtime accepts.
    """
    text = text_of(event.value)
    if len(text) > MAX_EVENT_CHARS:
        raise Declined(f"an event has {len(text)} characters, and a runtime accepts {MAX_EVENT_CHARS}; send less")
    return wire.write(
        wire.SubscriptionEvent(
            group_id=to.thread,
            tool_call_id=to.id,
            text=text,
            associative=event.associative,
            final=event.final,
        )
    )


def text_of(value: object) -> str:
    """Return a text as it is, None as an empty text, and anything else as JSON.

    Raises:
        ToolFailure: there is no JSON for it. The message names no member of the value, because keys can be secret.
    """
    if value is None:
        return ""
    try:
        return value if isinstance(value, str) else json_bytes(to_jsonable(value, _reject_bytes)).decode()
    except Declined:
        raise
    except ToolFailure as failure:
        raise Declined("the result of this tool has no JSON form; contact its operator") from failure


def _reject_bytes(data: bytes, media_type: str | None, name: str | None) -> str:
    raise Declined("the result of this tool contains bytes that are not text; contact its operator")


def _items(part: str | DescribedImage) -> tuple[wire.ContentItem, ...]:
    if isinstance(part, str):
        return (wire.TextItem(text=part),)
    data = base64.b64encode(part.data).decode()
    return wire.TextItem(text=part.description), wire.ImageItem(data=data, media_type=part.media_type)
