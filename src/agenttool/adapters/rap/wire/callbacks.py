"""The five messages that a tool posts to a `callback_url`; `type` tells them apart."""

from typing import Annotated, cast

from msgspec import Meta

from agenttool.adapters.rap.wire.content import ContentItem, Segment
from agenttool.adapters.rap.wire.message import Message, read
from agenttool.records import JsonObject

LONGEST_PROMPT, MOST_CHOICES = 10_000, 100
"""Nobody reads a longer text, or more of them, before choosing."""


class _Callback(Message, frozen=True, kw_only=True, tag_field="type"):
    """A message to the runtime; every one repeats the thread of the call behind it."""

    group_id: str


class _AboutCall(_Callback, frozen=True, kw_only=True):
    """A callback about a pending call; `call_id` is the echo of the invocation's, the empty text included."""

    id: str
    call_id: str | None = None


class ToolResultMessage(_AboutCall, frozen=True, kw_only=True, tag="tool_result"):
    """The outcome of a call, its failure included; settles it.

    `content` goes before `text` where both are given. An empty `content` is none, and an empty `text` is one.
    """

    text: str | None = None
    content: tuple[ContentItem, ...] | None = None
    display_as: tuple[Segment, ...] | None = None
    subscription: bool | None = False

    def __post_init__(self) -> None:
        """Refuse a result that says nothing."""
        if self.text is None and not self.content:
            raise ValueError("a tool_result must have 'text' or a 'content' that is not empty; add one")


class SubscriptionEvent(_Callback, frozen=True, kw_only=True, tag="subscription_event"):
    """One event of a subscription; it has no id of its own, so equal events are two events."""

    tool_call_id: str
    text: str
    associative: bool = False
    final: bool | None = False


class OAuth(_AboutCall, frozen=True, kw_only=True, tag="oauth"):
    """The user must authorize first; the call stays pending. Whether the URL may be shown is for its reader to say."""

    auth_url: Annotated[str, Meta(min_length=1)]


class UserChoice(_AboutCall, frozen=True, kw_only=True, tag="user_choice"):
    """The user must choose first; the call stays pending."""

    prompt: Annotated[str, Meta(max_length=LONGEST_PROMPT)]
    choices: Annotated[
        tuple[Annotated[str, Meta(max_length=LONGEST_PROMPT)], ...], Meta(min_length=1, max_length=MOST_CHOICES)
    ]
    default: Annotated[int, Meta(ge=0)]
    response_url: Annotated[str, Meta(min_length=1)]

    def __post_init__(self) -> None:
        """Refuse a default that is none of the choices: a guessed one might mean "yes"."""
        if self.default >= len(self.choices):
            raise ValueError(f"default must be below {len(self.choices)}, the number of choices; take one of them")


class ViewUpdate(_Callback, frozen=True, kw_only=True, tag="view_update"):
    """What clients show of a thread by now; an empty object clears the view. Never shown to a model."""

    view_type: str
    content: JsonObject


Callback = ToolResultMessage | SubscriptionEvent | OAuth | UserChoice | ViewUpdate


def read_callback(data: bytes) -> Callback:
    """Read any of the five.

    Raises:
        RecordError: it is none of them, or does not fit the one that it names; the pointer says where.
    """
    return cast("Callback", read(data, cast("type[object]", Callback)))
