"""What tool authors use: the running `Call`, what a function may return, and the messages that results become."""

import asyncio
import base64
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agenttool.adapters.rap.subscriptions import MAX_EVENT_CHARS
from agenttool.adapters.rap.translate import ERROR_PREFIX
from agenttool.adapters.rap.wire import (
    MAX_CHOICES,
    MAX_PROMPT_CHARS,
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
from agenttool.rap.tables import NewCall, StoredCall
from agenttool.records import ErrorClass, Json, JsonObject, ToolError
from agenttool.results.jsonable import to_jsonable
from agenttool.results.redaction import clean_message

DAY_S = 86_400.0


class CallServices(Protocol):
    """What a call needs of the provider that runs it."""

    async def choose(self, call: "Call", prompt: str, choices: Sequence[str], default: int, limit_s: float) -> int:
        """Ask the user to choose, and return the index."""
        ...

    async def authorize(self, call: "Call", client: str | None, limit_s: float) -> str:
        """Return an access token of the user."""
        ...

    async def view(self, call: "Call", view_type: str, content: JsonObject) -> None:
        """Send a view."""
        ...

    async def store_once(self, call: "Call", value: str) -> str:
        """Store a value of a call, unless there is one, and return the stored one."""
        ...

    def report(self, call: "Call", progress: JsonObject) -> None:
        """Send a progress view once the previous one is sent."""
        ...


class Call:
    """The running call. A parameter of this class is filled by the provider and is in no schema.

    Attributes:
        thread_id: the conversation that the call belongs to.
        id: of the call within its thread; `idempotency_key` is unique everywhere.
        ancestors: the threads above, root first and parent last.
        user_id: the user, if the runtime names one; as trustworthy as the runtime.
        bookmark: the bookmark of this subscription's last event; None at its start.
        is_canceled: whether the runtime has canceled the call.
    """

    def __init__(
        self, stored: StoredCall, services: CallServices, *, ancestors: tuple[str, ...], user_id: str | None
    ) -> None:
        """Take the stored call."""
        self._stored = stored
        self._services = services
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self.thread_id = stored.thread
        self.id = stored.id
        self.ancestors = ancestors
        self.user_id = user_id
        self.bookmark: str | None = None
        self.questions_asked = 0
        self.is_canceled = False
        self.has_reported = False

    @property
    def number(self) -> int:
        """The number of the call in the provider's store."""
        return self._stored.number

    @property
    def stored(self) -> StoredCall:
        """The stored call."""
        return self._stored

    @property
    def idempotency_key(self) -> str:
        """A unique key of this call; pass it to systems that act once per key."""
        return self._stored.key

    async def store_once(self, value: str) -> str:
        """Store a value until the call ends, and return it; after a restart, return the value stored before."""
        return await self._services.store_once(self, value)

    async def choose(
        self, prompt: str, choices: Sequence[str], *, default: int | str = -1, limit_s: float = DAY_S
    ) -> str:
        """Ask the user, and return the chosen label; ask before you act.

        After a restart the function runs again up to its open question, with the answers so far. The default, which is
        the last label unless you set another, applies if the user dismisses the question, so it should be harmless.

        Raises:
            ToolFailure: there was no answer within the limit, or it was none of the choices.
            ValueError: a label is empty, unprintable or a duplicate, or the question is longer than a runtime accepts.
        """
        labels = list(choices)
        if (
            not labels
            or len(set(labels)) < len(labels)
            or not all(each.strip() and each.isprintable() for each in labels)
        ):
            raise ValueError("each label must be printable, not empty, and different from the others; correct them")
        if len(labels) > MAX_CHOICES or any(len(each) > MAX_PROMPT_CHARS for each in (prompt, *labels)):
            raise ValueError(f"use at most {MAX_CHOICES} labels and {MAX_PROMPT_CHARS} characters each; ask for less")
        index = labels.index(default) if isinstance(default, str) else default % len(labels)
        return labels[await self._services.choose(self, prompt, labels, index, limit_s)]

    async def authorize(self, client: str | None = None, *, limit_s: float = 600.0) -> str:
        """Return an access token of the user, and ask the user to grant it first if there is none.

        Args:
            client: the name of an OAuth client of the provider; by default the one that the tool requires.
            limit_s: how long the user may take.

        Raises:
            ToolFailure: it was not granted within the limit, it was refused, or the call names no user.
        """
        return await self._services.authorize(self, client, limit_s)

    async def view(self, view_type: str, content: JsonObject) -> None:
        """Show people something beside the conversation, such as `diff`; an empty object clears it."""
        await self._services.view(self, view_type, content)

    def report(self, message: str | None = None, *, percent: float | None = None) -> None:
        """Report progress from any thread; a report is dropped if a newer one replaces it."""
        progress: JsonObject = {"message": message, "percent": percent, "tool_call_id": self.id}
        if threading.get_ident() == self._loop_thread:
            self._services.report(self, progress)
        else:
            self._loop.call_soon_threadsafe(self._services.report, self, progress)


class Declined(ToolFailure):
    """Raise this with a message for the caller; it becomes the error result, so say what could be done instead."""

    def __init__(self, message: str) -> None:
        """Take the message for the caller."""
        super().__init__(ToolError(error_class=ErrorClass.EXECUTION_FAILED, message=message))


@dataclass(frozen=True, slots=True)
class Image:
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

    parts: Sequence[str | Image]
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


def result_message(call: NewCall, value: object) -> ToolResultMessage:
    """Return the result message of a successful call.

    Raises:
        ToolFailure: the value cannot be sent.
    """
    if isinstance(value, Image):
        value = Result(parts=(value,))
    if not isinstance(value, Result):
        return ToolResultMessage(group_id=call.thread, id=call.id, call_id=call.call_id, text=text_of(value))
    try:
        content = tuple(item for part in value.parts for item in _items(part))
        segments = tuple(value.display_as) or None
        return ToolResultMessage(
            group_id=call.thread, id=call.id, call_id=call.call_id, content=content, display_as=segments
        )
    except (TypeError, ValueError) as error:
        raise Declined("the result of this tool cannot be sent; contact its operator") from error


def confirmation_message(call: NewCall, text: str | None) -> bytes:
    """Return the result that confirms a subscription, with the id that cancels it."""
    text = f"{text or 'Subscribed.'} Subscription id: {call.id}"
    return write(
        ToolResultMessage(group_id=call.thread, id=call.id, call_id=call.call_id, text=text, subscription=True)
    )


def error_message(call: NewCall, message: str) -> bytes:
    """Return the result of a failed call."""
    text = ERROR_PREFIX + clean_message(message).removeprefix(ERROR_PREFIX)
    return write(ToolResultMessage(group_id=call.thread, id=call.id, call_id=call.call_id, text=text))


def too_large_message(result: bytes) -> bytes:
    """Return the result that replaces one that its runtime rejected for its size."""
    rejected = read(result, ToolResultMessage)
    text = f"{ERROR_PREFIX}the tool did its work, but its result of {len(result)} bytes is too large; ask for less"
    return write(ToolResultMessage(group_id=rejected.group_id, id=rejected.id, call_id=rejected.call_id, text=text))


def event_message(thread: str, call_id: str, event: Event) -> bytes:
    """Return the message of an event.

    Raises:
        ToolFailure: its value cannot be sent, or is longer than a runtime accepts.
    """
    text = text_of(event.value)
    if len(text) > MAX_EVENT_CHARS:
        raise Declined(f"an event has {len(text)} characters, and a runtime accepts {MAX_EVENT_CHARS}; send less")
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
    """Return a text as it is, None as an empty text, and anything else as JSON.

    Raises:
        ToolFailure: there is no JSON for it.
    """
    if value is None:
        return ""
    return value if isinstance(value, str) else json_bytes(_plain_of(value)).decode()


def _plain_of(value: object) -> Json:
    return to_jsonable(value, _NoBinary())


class _NoBinary:
    def add_bytes(self, data: bytes, media_type: str | None = None, name: str | None = None) -> str:
        raise Declined("the result of this tool contains bytes that are not text; contact its operator")


def _items(part: str | Image) -> tuple[ContentItem, ...]:
    if isinstance(part, str):
        return (TextItem(text=part),)
    data = base64.b64encode(part.data).decode()
    return TextItem(text=part.description), ImageItem(data=data, media_type=part.media_type)
