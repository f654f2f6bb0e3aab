"""What a tool gives back, in its author's words, and the message that it becomes."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from agenttool.adapters.rap.subscriptions import LONGEST_EVENT
from agenttool.adapters.rap.wire import (
    ContentItem,
    ImageItem,
    Segment,
    SubscriptionEvent,
    TextItem,
    ToolResultMessage,
    read,
    write,
)
from agenttool.codec import json_bytes
from agenttool.errors import ToolFailure
from agenttool.rap.keeping.calls import NewCall
from agenttool.records import ErrorClass, Json, ToolError
from agenttool.results.jsonable import to_jsonable
from agenttool.results.redaction import clean_message


class Declined(ToolFailure):
    """Raise this to tell the caller why not: its words become the error result, so say what could be done instead."""

    def __init__(self, message: str) -> None:
        """Take words that are meant for the caller."""
        super().__init__(ToolError(error_class=ErrorClass.EXECUTION_FAILED, message=message))


@dataclass(frozen=True, slots=True)
class Image:
    """An image for the model to see, and the words that go before it."""

    data: bytes
    media_type: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A result with more to it than a value.

    Attributes:
        parts: texts and images for the model, in order.
        display_as: what people are shown instead, from the richest to the simplest; leave it out for short texts.
    """

    parts: Sequence[str | Image]
    display_as: Sequence[Segment] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed:
    """Return this to open a subscription: whatever is published on the topic becomes an event of this call."""

    topic: str
    text: str | None = None
    lasts_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of a subscription.

    Attributes:
        value: text, or data that is told as JSON.
        associative: whether it belongs into the subscriber's own conversation, and not into one of its own.
        final: whether it is the last.
        bookmark: where to go on from after a restart; kept together with the event.
    """

    value: object
    associative: bool = False
    final: bool = False
    bookmark: str | None = None


def result_of(call: NewCall, value: object) -> ToolResultMessage:
    """Make the result of a call that did what it was asked.

    Raises:
        ToolFailure: the value is nothing that could be sent.
    """
    if isinstance(value, Image):
        value = Result(parts=(value,))
    if not isinstance(value, Result):
        return ToolResultMessage(group_id=call.thread, id=call.id, call_id=call.call_id, text=text_of(value))
    try:
        content = tuple(item for part in value.parts for item in _items(part))
        shown = tuple(value.display_as) or None
        return ToolResultMessage(
            group_id=call.thread, id=call.id, call_id=call.call_id, content=content, display_as=shown
        )
    except (TypeError, ValueError) as error:
        raise Declined("the result of this tool cannot be sent; tell its operator") from error


def confirmation_of(call: NewCall, text: str | None) -> bytes:
    """Make the result that confirms a subscription; it names the id by which to cancel it."""
    told = f"{text or 'Subscribed.'} Subscription id: {call.id}"
    message = ToolResultMessage(group_id=call.thread, id=call.id, call_id=call.call_id, text=told, subscription=True)
    return write(message)


def error_of(call: NewCall, message: str) -> bytes:
    """Make the result of a call that failed; a failure is a result like any other."""
    told = clean_message(message).removeprefix("Error: ")
    return write(ToolResultMessage(group_id=call.thread, id=call.id, call_id=call.call_id, text=f"Error: {told}"))


def too_large_of(result: bytes) -> bytes:
    """Make the result that takes the place of one that its runtime refused for its size."""
    refused = read(result, ToolResultMessage)
    told = f"Error: the tool did its work, but its result is too large to be taken ({len(result)} bytes); ask for less"
    return write(ToolResultMessage(group_id=refused.group_id, id=refused.id, call_id=refused.call_id, text=told))


def event_of(thread: str, call_id: str, event: Event) -> bytes:
    """Make the message of an event.

    Raises:
        ToolFailure: its value is nothing that could be sent, or longer than a runtime takes.
    """
    text = text_of(event.value)
    if len(text) > LONGEST_EVENT:
        raise Declined(f"an event has {len(text)} characters, and a runtime takes {LONGEST_EVENT}; send less")
    return write(
        SubscriptionEvent(
            group_id=thread,
            tool_call_id=call_id,
            text=text,
            associative=event.associative,
            final=event.final,
        )
    )


def text_of(value: object) -> str:
    """Tell a value as text: text as it is, nothing as nothing, all else as JSON.

    Raises:
        ToolFailure: there is no JSON for it.
    """
    if value is None:
        return ""
    return value if isinstance(value, str) else json_bytes(plain_of(value)).decode()


def plain_of(value: object) -> Json:
    """Give a value as plain JSON.

    Raises:
        ToolFailure: there is none for it.
    """
    return to_jsonable(value, _NoBytes())


class _NoBytes:
    def add_bytes(self, data: bytes, media_type: str | None = None, name: str | None = None) -> str:
        raise Declined("the result of this tool holds bytes that are no text; tell its operator")


def _items(part: str | Image) -> tuple[ContentItem, ...]:
    if isinstance(part, str):
        return (TextItem(text=part),)
    data = base64.b64encode(part.data).decode()
    return TextItem(text=part.description), ImageItem(data=data, media_type=part.media_type)
